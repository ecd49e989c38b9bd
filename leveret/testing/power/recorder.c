/* Records what a process does to the files below one directory, in order, so that crash states can be built from it.
 *
 * Loaded with LD_PRELOAD. From the environment:
 *   RECORDER_DIRECTORY  absolute path without symbolic links; files below it are recorded
 *   RECORDER_LOG        where the record goes; several processes may append to one
 *   RECORDER_SOCKETS    if set, what is sent to and received from sockets is recorded as well
 *
 * One lock is held over each operation and its record, so the record's order is the true order. A promise (bytes
 * sent to a client) is recorded before it is made. Files are named by a handle that each open gives out, never
 * by inode, which file systems use again. Writes through mmap are not seen: LMDB makes none outside its lock file.
 *
 * A record is: size of what follows (4 bytes), kind (1), flags (1), handle (4), number (8), payload; little-endian.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload.h"

#define HANDLES 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t handles[HANDLES]; /* by descriptor; 0: not recorded */
static uint8_t synchronous[HANDLES];
static uint32_t next_handle;
static int log_fd = -1;
static int with_sockets;
static char directory[PATH_MAX];
static size_t directory_length;

/* No signal comes while the lock is held: Python's handlers write to a socket, which is recorded, too. */
static __thread sigset_t allowed;

static void hold(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_mutex_lock(&lock);
    allowed = before;
}

static void let_go(void) {
    sigset_t before = allowed;
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void preload_begin(void);

/* Also called by a process that was forked from one which has loaded this. */
__attribute__((constructor)) void preload_begin(void) {
    const char *path = getenv("RECORDER_LOG");
    if (!path || !getenv("RECORDER_DIRECTORY")) return;
    REAL(open);
    strncpy(directory, getenv("RECORDER_DIRECTORY"), PATH_MAX - 1);
    directory_length = strlen(directory);
    with_sockets = getenv("RECORDER_SOCKETS") != NULL;
    log_fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    next_handle = (uint32_t)getpid() << 12; /* handles of two processes stay apart */
}

static void record(char kind, uint8_t flags, uint32_t handle, uint64_t number, const struct iovec *parts, int count) {
    REAL(writev);
    uint8_t head[18];
    struct iovec all[1 + 64];
    uint32_t size = sizeof head - 4;
    if (count > 64) abort();
    for (int i = 0; i < count; i++) {
        all[1 + i] = parts[i];
        size += (uint32_t)parts[i].iov_len;
    }
    memcpy(head, &size, 4);
    head[4] = (uint8_t)kind;
    head[5] = flags;
    memcpy(head + 6, &handle, 4);
    memcpy(head + 10, &number, 8);
    all[0] = (struct iovec){head, sizeof head};
    if (real_writev(log_fd, all, 1 + count) != (ssize_t)size + 4) abort(); /* a record with a hole proves nothing */
}

static void record_text(char kind, uint8_t flags, uint32_t handle, const char *text) {
    struct iovec part = {(void *)text, strlen(text)};
    record(kind, flags, handle, 0, &part, 1);
}

/* The absolute form of a path; whether it lies below the directory. */
static int inside(int at, const char *path, char *absolute) {
    if (log_fd < 0 || !path) return 0;
    if (path[0] == '/') {
        snprintf(absolute, PATH_MAX, "%s", path);
    } else if (at == AT_FDCWD) {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(absolute, PATH_MAX, "%.2040s/%.2040s", here, path);
    } else {
        char link[64], here[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, here, sizeof here - 1);
        if (length < 0) return 0;
        here[length] = 0;
        snprintf(absolute, PATH_MAX, "%.2040s/%.2040s", here, path);
    }
    return !strncmp(absolute, directory, directory_length) &&
           (absolute[directory_length] == '/' || !absolute[directory_length]);
}

static uint32_t handle_of(int fd) { return fd >= 0 && fd < HANDLES && log_fd >= 0 ? handles[fd] : 0; }

static void opened(int fd, int flags, const char *absolute) {
    if (fd < 0 || fd >= HANDLES) return;
    handles[fd] = ++next_handle;
    synchronous[fd] = (flags & O_DSYNC) != 0;
    record_text('o', (uint8_t)(((flags & O_CREAT) != 0) | ((flags & O_TRUNC) != 0) << 1), handles[fd], absolute);
}

static int open_recorded(int at, const char *path, int flags, mode_t mode) {
    REAL(openat);
    char absolute[PATH_MAX];
    if (!inside(at, path, absolute)) return real_openat(at, path, flags, mode);
    hold();
    int fd = real_openat(at, path, flags, mode), saved = errno;
    opened(fd, flags, absolute);
    let_go();
    errno = saved;
    return fd;
}

OPENS_BY(open_recorded)

int close(int fd) {
    REAL(close);
    if (!handle_of(fd)) return real_close(fd);
    hold();
    handles[fd] = 0;
    int result = real_close(fd), saved = errno;
    let_go();
    errno = saved;
    return result;
}

/* Record the first `size` bytes that were written from these parts. */
static void wrote(int fd, off_t offset, const struct iovec *parts, int count, size_t size) {
    struct iovec cut[64];
    int used = 0;
    for (; used < count && size; used++) {
        cut[used] = parts[used];
        if (cut[used].iov_len > size) cut[used].iov_len = size;
        size -= cut[used].iov_len;
    }
    record('w', synchronous[fd], handles[fd], (uint64_t)offset, cut, used);
}

static off_t place(int fd) {
    struct stat status;
    int flags = fcntl(fd, F_GETFL);
    if (flags & O_APPEND && !fstat(fd, &status)) return status.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

/* Every way to write ends here. `offset` is -1 for the descriptor's own place. */
static ssize_t write_recorded(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL(writev);
    REAL(pwritev);
    hold();
    off_t at = offset < 0 ? place(fd) : offset;
    ssize_t size = offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
    int saved = errno;
    if (size > 0) wrote(fd, at, parts, count, (size_t)size);
    let_go();
    errno = saved;
    return size;
}

static int is_socket(int fd) {
    struct stat status;
    return with_sockets && log_fd >= 0 && !fstat(fd, &status) && S_ISSOCK(status.st_mode);
}

static void record_socket(char kind, int fd, uint64_t number, const struct iovec *parts, int count) {
    hold();
    record(kind, 0, (uint32_t)fd, number, parts, count);
    let_go();
}

/* What was promised was recorded before; if less of it left, it is recorded how much less. */
static ssize_t left_behind(int fd, const struct iovec *parts, int count, ssize_t sent) {
    int saved = errno;
    size_t left = 0;
    for (int i = 0; i < count; i++) left += parts[i].iov_len;
    left -= sent > 0 ? (size_t)sent : 0;
    if (left) record_socket('x', fd, left, NULL, 0);
    errno = saved;
    return sent;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    struct iovec part = {(void *)data, size};
    if (handle_of(fd)) return write_recorded(fd, &part, 1, -1);
    if (!is_socket(fd)) return real_write(fd, data, size);
    record_socket('s', fd, 0, &part, 1);
    return left_behind(fd, &part, 1, real_write(fd, data, size));
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    if (handle_of(fd)) return write_recorded(fd, parts, count, -1);
    if (!is_socket(fd)) return real_writev(fd, parts, count);
    record_socket('s', fd, 0, parts, count);
    return left_behind(fd, parts, count, real_writev(fd, parts, count));
}
WRITES_AT_BY(handle_of, write_recorded)

ssize_t send(int fd, const void *data, size_t size, int flags) {
    REAL(send);
    struct iovec part = {(void *)data, size};
    if (!is_socket(fd)) return real_send(fd, data, size, flags);
    record_socket('s', fd, 0, &part, 1);
    return left_behind(fd, &part, 1, real_send(fd, data, size, flags));
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    if (!is_socket(fd)) return real_sendmsg(fd, message, flags);
    record_socket('s', fd, 0, message->msg_iov, (int)message->msg_iovlen);
    return left_behind(fd, message->msg_iov, (int)message->msg_iovlen, real_sendmsg(fd, message, flags));
}
ssize_t recv(int fd, void *data, size_t size, int flags) {
    REAL(recv);
    ssize_t got = real_recv(fd, data, size, flags);
    int saved = errno;
    struct iovec part = {data, got > 0 ? (size_t)got : 0};
    if (got > 0 && is_socket(fd)) record_socket('r', fd, 0, &part, 1);
    errno = saved;
    return got;
}

/* Copies inside the kernel would not be seen: callers fall back to read and write. */
ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) {
    REAL(sendfile64);
    if (!handle_of(out)) return real_sendfile64(out, in, offset, size);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t size) { return sendfile64(out, in, offset, size); }
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(copy_file_range);
    if (!handle_of(out)) return real_copy_file_range(in, from, out, to, size, flags);
    errno = EXDEV;
    return -1;
}

#define ON_DESCRIPTOR(kind, number, call) \
    if (!handle_of(fd)) return call; \
    hold(); \
    int result = call, saved = errno; \
    if (!result) record(kind, 0, handles[fd], (uint64_t)(number), NULL, 0); \
    let_go(); \
    errno = saved; \
    return result;

int fsync(int fd) {
    REAL(fsync);
    ON_DESCRIPTOR('f', 0, real_fsync(fd))
}
int fdatasync(int fd) {
    REAL(fdatasync);
    ON_DESCRIPTOR('f', 0, real_fdatasync(fd))
}
int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    ON_DESCRIPTOR('t', size, real_ftruncate(fd, size))
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int posix_fallocate(int fd, off_t offset, off_t size) {
    REAL(posix_fallocate);
    ON_DESCRIPTOR('a', offset + size, real_posix_fallocate(fd, offset, size))
}
int posix_fallocate64(int fd, off64_t offset, off64_t size) { return posix_fallocate(fd, offset, size); }
int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    REAL(fallocate64);
    if (!handle_of(fd)) return real_fallocate64(fd, mode, offset, size);
    if (!(mode & FALLOC_FL_PUNCH_HOLE)) abort(); /* nothing else is done with it */
    uint64_t bytes = (uint64_t)size;
    struct iovec part = {&bytes, sizeof bytes};
    hold();
    int result = real_fallocate64(fd, mode, offset, size), saved = errno;
    if (!result) record('h', 0, handles[fd], (uint64_t)offset, &part, 1);
    let_go();
    errno = saved;
    return result;
}
int fallocate(int fd, int mode, off_t offset, off_t size) { return fallocate64(fd, mode, offset, size); }

/* Operations on names: recorded with the absolute path, a rename with both, apart by a zero byte. */
#define ON_NAME(kind, at, path, call) \
    char absolute[PATH_MAX]; \
    if (!inside(at, path, absolute)) return call; \
    hold(); \
    int result = call, saved = errno; \
    if (!result) record_text(kind, 0, 0, absolute); \
    let_go(); \
    errno = saved; \
    return result;

int unlinkat(int at, const char *path, int flags) {
    REAL(unlinkat);
    ON_NAME('u', at, path, real_unlinkat(at, path, flags))
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int at, const char *path, mode_t mode) {
    REAL(mkdirat);
    ON_NAME('d', at, path, real_mkdirat(at, path, mode))
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int renameat(int from_at, const char *from, int to_at, const char *to) {
    REAL(renameat);
    char old[PATH_MAX], new[PATH_MAX];
    if (!inside(from_at, from, old) || !inside(to_at, to, new)) return real_renameat(from_at, from, to_at, to);
    hold();
    int result = real_renameat(from_at, from, to_at, to), saved = errno;
    struct iovec parts[2] = {{old, strlen(old) + 1}, {new, strlen(new)}};
    if (!result) record('n', 0, 0, 0, parts, 2);
    let_go();
    errno = saved;
    return result;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
