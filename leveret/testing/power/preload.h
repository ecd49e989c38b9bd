/* What the libraries that tests load with LD_PRELOAD share. */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The function that ours stands before, looked up once, while no signal comes: a handler that writes, as Python's do, would
 * wait for ever for a lock of the loader's that what it interrupts is taking. Two threads that look it up find the same. */
#define REAL(name) \
    static __typeof__(&name) real_##name; \
    if (!real_##name) real_##name = (__typeof__(&name))look_up(#name)

__attribute__((unused)) static void *look_up(const char *name) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    void *found = dlsym(RTLD_NEXT, name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return found;
}

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

/* Every way to write at a place of a file: where ours(fd) says so to end in function(fd, parts, count, offset). Flags, which
 * are those of Python's os.pwritev, would change what is certain: nothing sets any. */
#define WRITES_AT_BY(ours, function) \
    ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { \
        REAL(pwrite); \
        struct iovec part = {(void *)data, size}; \
        return ours(fd) ? function(fd, &part, 1, offset) : real_pwrite(fd, data, size, offset); \
    } \
    ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return pwrite(fd, data, size, offset); } \
    ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) { \
        REAL(pwritev2); \
        if (ours(fd) && flags) abort(); \
        return ours(fd) ? function(fd, parts, count, offset) : real_pwritev2(fd, parts, count, offset, flags); \
    } \
    ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) { \
        return pwritev2(fd, parts, count, offset, flags); \
    } \
    ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { \
        REAL(pwritev); \
        return ours(fd) ? function(fd, parts, count, offset) : real_pwritev(fd, parts, count, offset); \
    } \
    ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { \
        return pwritev(fd, parts, count, offset); \
    }

__attribute__((unused)) static size_t total(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}

#endif
