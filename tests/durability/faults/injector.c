/* Makes a disk fail: the Nth operation of a kind on files below one directory, with an error of one's choice.
 *
 * Loaded with LD_PRELOAD. From the environment:
 *   FAULT_DIRECTORY  absolute path without symbolic links
 *   FAULT_FILES      a pattern (fnmatch; * matches / too) of paths relative to it, "." for the directory itself
 *   FAULT_KIND       write, sync, rename, truncate, open or unlink
 *   FAULT_ERROR      the error's number; 0 for a write that takes half of its bytes and reports no error, and for a
 *                    sync that takes as many milliseconds longer as the file FAULT_SIGN says
 *   FAULT_NTH        which operation fails, counted from 1
 *   FAULT_FOREVER    when set, every one after it fails as well
 *   FAULT_SIGN       a path: operations count and fail only while something is there
 *   FAULT_REPORT     a file that gets a line for each failure: kind and path
 *
 * A kind is what may fail for one reason: write (write, writev, pwrite, pwritev, pwritev2), sync (fsync, fdatasync, writes
 * through O_DSYNC), rename, truncate (ftruncate, posix_fallocate), open (open, mkdir), unlink (unlink, rmdir).
 *
 * A failed sync is told as Linux tells it: once to each descriptor of the file that was open when it happened.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "preload.h"

#define DESCRIPTORS 65536
#define PARTS_MAX 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char directory[PATH_MAX], pattern[256], kind[16], sign[PATH_MAX], report[PATH_MAX];
static size_t directory_length;
static int failure, forever, armed;
static long nth, seen;
static char *names[DESCRIPTORS]; /* by descriptor: the path below the directory; NULL for files elsewhere */
static unsigned char synchronous[DESCRIPTORS];
static int untold[DESCRIPTORS]; /* a failed sync that this descriptor has not been told of */

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

void preload_begin(void);

/* Also called by a process that was forked from one which has loaded this. */
__attribute__((constructor)) void preload_begin(void) {
    snprintf(directory, sizeof directory, "%s", setting("FAULT_DIRECTORY", ""));
    directory_length = strlen(directory);
    snprintf(sign, sizeof sign, "%s", setting("FAULT_SIGN", ""));
    snprintf(report, sizeof report, "%s", setting("FAULT_REPORT", ""));
    if (!getenv("FAULT_KIND")) return;
    snprintf(kind, sizeof kind, "%s", getenv("FAULT_KIND"));
    snprintf(pattern, sizeof pattern, "%s", setting("FAULT_FILES", "*"));
    failure = atoi(setting("FAULT_ERROR", "5"));
    nth = atol(setting("FAULT_NTH", "1"));
    forever = getenv("FAULT_FOREVER") != NULL;
    armed = 1;
}

/* The path below the directory, or NULL. */
static const char *inside(int at, const char *path, char *absolute) {
    char start[PATH_MAX] = "";
    if (!directory_length || !path) return NULL;
    if (path[0] != '/') {
        char link[64];
        if (at == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, start, sizeof start - 2);
        if (length < 0) return NULL;
        start[length] = '/';
        start[length + 1] = 0;
    }
    snprintf(absolute, PATH_MAX, "%.2040s%.2040s", start, path);
    if (strncmp(absolute, directory, directory_length)) return NULL;
    if (!absolute[directory_length]) return ".";
    return absolute[directory_length] == '/' ? absolute + directory_length + 1 : NULL;
}

static void tell(const char *name) {
    REAL(open);
    REAL(write);
    REAL(close);
    char line[PATH_MAX + 32];
    int fd = report[0] ? real_open(report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0) return;
    int size = snprintf(line, sizeof line, "%s %.4000s\n", kind, name);
    if (real_write(fd, line, (size_t)size) != size) abort();
    real_close(fd);
}

/* Keep whoever syncs waiting, as a slow disk does, but no longer than until it is mended. */
static void dawdle(void) {
    REAL(open);
    REAL(close);
    char text[32] = "";
    int fd = real_open(sign, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, text, sizeof text - 1) < 0) abort();
    real_close(fd);
    for (long left = atol(text); left > 0 && !faccessat(AT_FDCWD, sign, F_OK, 0); left -= 10) {
        struct timespec step = {0, (left < 10 ? left : 10) * 1000000};
        nanosleep(&step, NULL);
    }
}

/* Does this operation fail? It is counted if it is of the kind. */
static int fails(const char *what, const char *name) {
    int yes = 0;
    if (!name || !armed) return 0;
    pthread_mutex_lock(&lock);
    if (!strcmp(what, kind) && !fnmatch(pattern, name, 0) && (!sign[0] || !faccessat(AT_FDCWD, sign, F_OK, 0))) {
        seen++;
        yes = seen == nth || (forever && seen > nth);
        if (yes && (failure || strcmp(kind, "sync"))) tell(name);
    }
    pthread_mutex_unlock(&lock);
    return yes;
}

static const char *name_of(int fd) { return fd >= 0 && fd < DESCRIPTORS ? names[fd] : NULL; }

/* Every descriptor of the file has the error to come; the one that synced has it now. */
static void sync_failed(int fd) {
    struct stat one, other;
    if (fstat(fd, &one)) return;
    for (int i = 0; i < DESCRIPTORS; i++)
        if (i != fd && names[i] && !fstat(i, &other) && one.st_ino == other.st_ino && one.st_dev == other.st_dev)
            untold[i] = failure;
}

static int sync_fails(int fd) {
    const char *name = name_of(fd);
    if (!name) return 0;
    if (fails("sync", name)) {
        if (!failure) {
            dawdle();
            return 0;
        }
        sync_failed(fd);
        return failure;
    }
    int earlier = untold[fd];
    untold[fd] = 0;
    return earlier;
}

/* Descriptors */

static int open_counted(int at, const char *path, int flags, mode_t mode) {
    REAL(openat);
    char absolute[PATH_MAX];
    const char *name = inside(at, path, absolute);
    if (fails("open", name)) {
        errno = failure;
        return -1;
    }
    int fd = real_openat(at, path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS) {
        free(names[fd]);
        names[fd] = name ? strdup(name) : NULL;
        synchronous[fd] = (flags & O_DSYNC) != 0;
        untold[fd] = 0;
    }
    return fd;
}

OPENS_BY(open_counted)

int close(int fd) {
    REAL(close);
    if (name_of(fd)) {
        free(names[fd]);
        names[fd] = NULL;
    }
    return real_close(fd);
}

/* Writes and syncs */

static ssize_t write_really(int fd, const struct iovec *parts, int count, off_t offset) {
    REAL(writev);
    REAL(pwritev);
    return offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
}

/* The first half of the bytes, or nothing and an error where there is only one. */
static ssize_t write_half(int fd, const struct iovec *parts, int count, off_t offset) {
    struct iovec cut[PARTS_MAX];
    size_t left = total(parts, count) / 2;
    int used = 0;
    if (!left || count > PARTS_MAX) {
        errno = ENOSPC;
        return -1;
    }
    for (; used < count && left; used++) {
        cut[used] = parts[used];
        if (cut[used].iov_len > left) cut[used].iov_len = left;
        left -= cut[used].iov_len;
    }
    return write_really(fd, cut, used, offset);
}

/* Every way to write ends here. `offset` is -1 for the descriptor's own place. */
static ssize_t write_counted(int fd, const struct iovec *parts, int count, off_t offset) {
    if (!synchronous[fd]) {
        if (!fails("write", names[fd])) return write_really(fd, parts, count, offset);
        if (!failure) return write_half(fd, parts, count, offset);
        errno = failure;
        return -1;
    }
    int error = sync_fails(fd);
    ssize_t size = write_really(fd, parts, count, offset); /* in the cache it is, synced or not */
    if (!error) return size;
    errno = error;
    return -1;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    struct iovec part = {(void *)data, size};
    return name_of(fd) ? write_counted(fd, &part, 1, -1) : real_write(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return name_of(fd) ? write_counted(fd, parts, count, -1) : real_writev(fd, parts, count);
}
WRITES_AT_BY(name_of, write_counted)

#define SYNC(call) \
    int error = sync_fails(fd); \
    if (!error) return call; \
    errno = error; \
    return -1;

int fsync(int fd) {
    REAL(fsync);
    SYNC(real_fsync(fd))
}
int fdatasync(int fd) {
    REAL(fdatasync);
    SYNC(real_fdatasync(fd))
}

/* Sizes and names */

#define UNLESS_FAILED(what, name, call) \
    if (!fails(what, name)) return call; \
    errno = failure; \
    return -1;

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    UNLESS_FAILED("truncate", name_of(fd), real_ftruncate(fd, size))
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
int posix_fallocate(int fd, off_t offset, off_t size) {
    REAL(posix_fallocate);
    return fails("truncate", name_of(fd)) ? failure : real_posix_fallocate(fd, offset, size);
}
int posix_fallocate64(int fd, off64_t offset, off64_t size) { return posix_fallocate(fd, offset, size); }

int unlinkat(int at, const char *path, int flags) {
    REAL(unlinkat);
    char absolute[PATH_MAX];
    UNLESS_FAILED("unlink", inside(at, path, absolute), real_unlinkat(at, path, flags))
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int at, const char *path, mode_t mode) {
    REAL(mkdirat);
    char absolute[PATH_MAX];
    UNLESS_FAILED("open", inside(at, path, absolute), real_mkdirat(at, path, mode))
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int renameat(int from_at, const char *from, int to_at, const char *to) {
    REAL(renameat);
    char absolute[PATH_MAX];
    UNLESS_FAILED("rename", inside(to_at, to, absolute), real_renameat(from_at, from, to_at, to))
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
