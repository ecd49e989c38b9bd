/* What the libraries that tests load with LD_PRELOAD share. */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The function that ours stands before. */
#define REAL(name) __typeof__(&name) real_##name = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

/* Every way to open a file, to end in function(at, path, flags, mode). */
#define OPENS_BY(function) \
    int open(const char *path, int flags, ...) { \
        MODE(flags, mode) \
        return function(AT_FDCWD, path, flags, mode); \
    } \
    int open64(const char *path, int flags, ...) { \
        MODE(flags, mode) \
        return function(AT_FDCWD, path, flags, mode); \
    } \
    int openat(int at, const char *path, int flags, ...) { \
        MODE(flags, mode) \
        return function(at, path, flags, mode); \
    } \
    int openat64(int at, const char *path, int flags, ...) { \
        MODE(flags, mode) \
        return function(at, path, flags, mode); \
    }

__attribute__((unused)) static size_t total(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

#endif
