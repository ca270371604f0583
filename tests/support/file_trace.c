/* What a process does to the files below a directory, noted in the order in which it does it.
   Loaded before the C library (LD_PRELOAD) by tests/support/file_trace.py, which reads the notes:
   a kind, an inode, a number, a length, and so many bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX 4096

static const char *root;
static int notes = -1;
static char is_ours[FILES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    root = getenv("FILE_TRACE_ROOT");
    const char *path = getenv("FILE_TRACE_FILE");
    if (root == NULL || path == NULL)
        abort();
    notes = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void put(const void *data, size_t length) {
    if (syscall(SYS_write, notes, data, length) != (long)length)
        abort();
}

static void note(char kind, int file, uint64_t number, const void *data, uint32_t length) {
    struct stat found;
    uint64_t inode = file >= 0 && fstat(file, &found) == 0 ? found.st_ino : 0;
    char head[21];
    head[0] = kind;
    memcpy(head + 1, &inode, 8);
    memcpy(head + 9, &number, 8);
    memcpy(head + 17, &length, 4);
    put(head, sizeof head);
    if (length)
        put(data, length);
}

static int below(const char *path) { return strncmp(path, root, strlen(root)) == 0; }

static int ours(int file) { return file >= 0 && file < FILES_MAX && is_ours[file]; }

static int open_noted(int place, const char *path, int flags, mode_t mode) {
    if (!below(path))
        return syscall(SYS_openat, place, path, flags, mode);
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && access(path, F_OK) != 0;
    int file = syscall(SYS_openat, place, path, flags, mode);
    if (file >= 0 && file < FILES_MAX) {
        is_ours[file] = 1;
        if (is_new)
            note('C', file, 0, path, strlen(path));
        else if (flags & O_TRUNC)
            note('T', file, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return file;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        return open_noted(AT_FDCWD, path, flags, mode);                                            \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                                              \
    int name(int place, const char *path, int flags, ...) {                                        \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        return open_noted(place, path, flags, mode);                                               \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

int close(int file) {
    if (ours(file))
        is_ours[file] = 0;
    return syscall(SYS_close, file);
}

#define WRITE_AT(name)                                                                             \
    ssize_t name(int file, const void *data, size_t length, off_t offset) {                        \
        if (!ours(file))                                                                           \
            return syscall(SYS_pwrite64, file, data, length, offset);                              \
        pthread_mutex_lock(&lock);                                                                 \
        ssize_t count = syscall(SYS_pwrite64, file, data, length, offset);                         \
        if (count > 0)                                                                             \
            note('W', file, offset, data, count);                                                  \
        pthread_mutex_unlock(&lock);                                                               \
        return count;                                                                              \
    }
WRITE_AT(pwrite)
WRITE_AT(pwrite64)

ssize_t write(int file, const void *data, size_t length) {
    if (!ours(file))
        return syscall(SYS_write, file, data, length);
    pthread_mutex_lock(&lock);
    ssize_t count = syscall(SYS_write, file, data, length);
    if (count > 0)
        note('W', file, lseek(file, 0, SEEK_CUR) - count, data, count);
    pthread_mutex_unlock(&lock);
    return count;
}

#define CUT(name)                                                                                  \
    int name(int file, off_t length) {                                                             \
        int result = syscall(SYS_ftruncate, file, length);                                         \
        if (result == 0 && ours(file))                                                             \
            note('T', file, length, NULL, 0);                                                      \
        return result;                                                                             \
    }
CUT(ftruncate)
CUT(ftruncate64)

#define SYNC(name, call)                                                                           \
    int name(int file) {                                                                           \
        if (ours(file))                                                                            \
            note('B', file, 0, NULL, 0);                                                           \
        int result = syscall(call, file);                                                          \
        if (result == 0 && ours(file))                                                             \
            note('S', file, 0, NULL, 0);                                                           \
        return result;                                                                             \
    }
SYNC(fsync, SYS_fsync)
SYNC(fdatasync, SYS_fdatasync)

int unlink(const char *path) {
    int result = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (result == 0 && below(path))
        note('U', -1, 0, path, strlen(path));
    return result;
}

int rename(const char *source, const char *target) {
    int result = syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
    if (result == 0 && below(source)) {
        note('F', -1, 0, source, strlen(source));
        note('R', -1, 0, target, strlen(target));
    }
    return result;
}
