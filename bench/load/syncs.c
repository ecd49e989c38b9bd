/* Counts how often a process makes bytes durable. Loaded with LD_PRELOAD; SYNCS_FILE names a file of one 8-byte number, which
 * is mapped and counted up: by fsync, fdatasync and syncfs, and by writes to descriptors that were opened O_SYNC or O_DSYNC. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t ignored, *count = &ignored;

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SYNCS_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) count = mapped;
}

static void add(void) { __atomic_add_fetch(count, 1, __ATOMIC_RELAXED); }

static void add_if_synced(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && flags & O_DSYNC) add(); /* O_SYNC contains this bit */
}

int fsync(int fd) {
    REAL(fsync);
    add();
    return real(fd);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    add();
    return real(fd);
}

int syncfs(int fd) {
    REAL(syncfs);
    add();
    return real(fd);
}

ssize_t write(int fd, const void *bytes, size_t n) {
    REAL(write);
    add_if_synced(fd);
    return real(fd, bytes, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    add_if_synced(fd);
    return real(fd, parts, n);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at) {
    REAL(pwrite);
    add_if_synced(fd);
    return real(fd, bytes, n, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at) {
    REAL(pwrite64);
    add_if_synced(fd);
    return real(fd, bytes, n, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) {
    REAL(pwritev);
    add_if_synced(fd);
    return real(fd, parts, n, at);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int n, off64_t at, int flags) {
    REAL(pwritev64v2);
    add_if_synced(fd);
    return real(fd, parts, n, at, flags);
}
