/* A preloaded library that notes every change one process makes to the files below one directory.
 *
 * POWER_DIRECTORY names the directory, POWER_TRACE the file the notes go to. Each note is a header
 * and, behind it, a name and data; the calls are made one at a time, so that the notes are in the
 * order in which the changes were made. Children record nothing: they do not inherit the library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    OPENED = 1, CLOSED, WRITTEN, RESIZED, SYNCED, ALLOCATED, RENAMED, UNLINKED, LINKED,
    DIRECTORY_MADE, DIRECTORY_REMOVED
};
enum { CREATED = 1, EMPTIED = 2 };
enum { MOST_DESCRIPTORS = 65536, TRACE_DESCRIPTOR = 200 };

struct __attribute__((packed)) note {
    uint32_t kind;
    int32_t descriptor;
    int64_t began, ended;
    int64_t offset, size;
    uint32_t name_length, data_length;
};

struct place { dev_t device; ino_t inode; char known; };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static struct place places[MOST_DESCRIPTORS];
static char directory[PATH_MAX];
static size_t directory_length;
static int trace = -1;
static pid_t owner;

#define REAL(name) ((__typeof__(&name))real(#name, &real_##name))
#define REMEMBER(name) static void *real_##name

static void *real(const char *name, void **found)
{
    if (*found == NULL)
        *found = dlsym(RTLD_NEXT, name);
    return *found;
}

REMEMBER(open); REMEMBER(openat); REMEMBER(close); REMEMBER(write); REMEMBER(pwrite);
REMEMBER(writev); REMEMBER(pwritev); REMEMBER(ftruncate); REMEMBER(truncate); REMEMBER(fsync);
REMEMBER(fdatasync); REMEMBER(fallocate); REMEMBER(posix_fallocate); REMEMBER(renameat2);
REMEMBER(unlinkat); REMEMBER(linkat); REMEMBER(mkdirat);

static int64_t now(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return (int64_t)moment.tv_sec * 1000000000 + moment.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
    const char *where = getenv("POWER_DIRECTORY"), *to = getenv("POWER_TRACE");
    if (where == NULL || to == NULL || realpath(where, directory) == NULL)
        return;
    int fd = REAL(open)(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    trace = fcntl(fd, F_DUPFD_CLOEXEC, TRACE_DESCRIPTOR);
    if (trace < 0)
        abort();
    REAL(close)(fd);
    directory_length = strlen(directory);
    owner = getpid();
    unsetenv("LD_PRELOAD");
    unsetenv("POWER_DIRECTORY");
    unsetenv("POWER_TRACE");
}

/* A vforked child shares this memory, so the process is asked for and not remembered. */
static int recording(void)
{
    return trace >= 0 && getpid() == owner;
}

static int is_known(int fd)
{
    struct stat found;
    if (fd < 0 || fd >= MOST_DESCRIPTORS || !places[fd].known || !recording())
        return 0;
    return fstat(fd, &found) == 0 && found.st_dev == places[fd].device
        && found.st_ino == places[fd].inode;
}

static int is_inside(const char *path)
{
    return strncmp(path, directory, directory_length) == 0
        && (path[directory_length] == '/' || path[directory_length] == 0);
}

/* The absolute path of what a call names; 0 when it is outside or not to be recorded. */
static int find(int at, const char *path, char *found)
{
    char base[PATH_MAX] = "";
    if (path == NULL || !recording())
        return 0;
    if (path[0] != '/') {
        char link[64] = "/proc/self/cwd";
        if (at != AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, base, sizeof base - 2);
        if (length < 0)
            return 0;
        base[length] = '/';
        base[length + 1] = 0;
    }
    if (snprintf(found, PATH_MAX, "%s%s", base, path) >= PATH_MAX)
        abort();
    return is_inside(found);
}

static void put(struct iovec *parts, int count)
{
    size_t wanted = 0;
    for (int i = 0; i < count; i++)
        wanted += parts[i].iov_len;
    if (REAL(writev)(trace, parts, count) != (ssize_t)wanted)
        abort();
}

static void note(struct note head, const char *name, const void *data)
{
    int kept = errno;
    head.ended = now();
    struct iovec parts[3] = {
        {&head, sizeof head},
        {(void *)name, head.name_length},
        {(void *)data, head.data_length},
    };
    put(parts, 3);
    errno = kept;
}

static void note_name(enum kind kind, int64_t began, const char *name)
{
    struct note head = {.kind = kind, .descriptor = -1, .began = began};
    head.name_length = strlen(name);
    note(head, name, NULL);
}

static void note_pair(enum kind kind, int64_t began, const char *from, const char *to)
{
    char both[2 * PATH_MAX + 1];
    struct note head = {.kind = kind, .descriptor = -1, .began = began};
    head.name_length = snprintf(both, sizeof both, "%s%c%s", from, 0, to);
    note(head, both, NULL);
}

static void note_opened(int fd, const char *path, int flags, int was_there, int64_t began)
{
    struct stat found;
    struct note head = {.kind = OPENED, .descriptor = fd, .began = began};
    if (fd >= MOST_DESCRIPTORS || fstat(fd, &found) != 0)
        abort();
    places[fd] = (struct place){found.st_dev, found.st_ino, 1};
    head.offset = (was_there ? 0 : CREATED) | (flags & O_TRUNC ? EMPTIED : 0);
    head.size = S_ISDIR(found.st_mode) ? -1 : found.st_size;
    head.name_length = strlen(path);
    note(head, path, NULL);
}

static int open_file(int at, const char *path, int flags, mode_t mode)
{
    char found[PATH_MAX];
    if (!find(at, path, found))
        return REAL(openat)(at, path, flags, mode);
    pthread_mutex_lock(&one_at_a_time);
    int64_t began = now();
    int was_there = faccessat(AT_FDCWD, found, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = REAL(openat)(at, path, flags, mode);
    if (fd >= 0)
        note_opened(fd, found, flags, was_there, began);
    pthread_mutex_unlock(&one_at_a_time);
    return fd;
}

#define MODE_OF(flags, mode)                                  \
    mode_t mode = 0;                                          \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                  \
        va_list rest;                                         \
        va_start(rest, flags);                                \
        mode = va_arg(rest, mode_t);                          \
        va_end(rest);                                         \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_file(at, path, flags, mode);
}

int close(int fd)
{
    if (!is_known(fd))
        return REAL(close)(fd);
    pthread_mutex_lock(&one_at_a_time);
    struct note head = {.kind = CLOSED, .descriptor = fd, .began = now()};
    places[fd].known = 0;
    int answer = REAL(close)(fd);
    note(head, NULL, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

static int64_t write_place(int fd)
{
    struct stat found;
    if (fcntl(fd, F_GETFL) & O_APPEND)
        return fstat(fd, &found) == 0 ? found.st_size : -1;
    return lseek(fd, 0, SEEK_CUR);
}

static ssize_t write_at(int fd, const void *data, size_t size, int64_t offset, int placed)
{
    pthread_mutex_lock(&one_at_a_time);
    struct note head = {.kind = WRITTEN, .descriptor = fd, .began = now()};
    head.offset = placed ? offset : write_place(fd);
    ssize_t written = placed ? REAL(pwrite)(fd, data, size, offset) : REAL(write)(fd, data, size);
    if (written > 0) {
        head.data_length = written;
        note(head, NULL, data);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return written;
}

ssize_t write(int fd, const void *data, size_t size)
{
    return is_known(fd) ? write_at(fd, data, size, 0, 0) : REAL(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return is_known(fd) ? write_at(fd, data, size, offset, 1)
                        : REAL(pwrite)(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    return pwrite(fd, data, size, offset);
}

/* One after the other: a short answer is allowed, and tells how far it came. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, int64_t offset, int placed)
{
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t written = write_at(fd, parts[i].iov_base, parts[i].iov_len, offset + total, placed);
        if (written < 0)
            return total ? total : written;
        total += written;
        if ((size_t)written < parts[i].iov_len)
            break;
    }
    return total;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return is_known(fd) ? write_parts(fd, parts, count, 0, 0) : REAL(writev)(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return is_known(fd) ? write_parts(fd, parts, count, offset, 1)
                        : REAL(pwritev)(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return pwritev(fd, parts, count, offset);
}

int ftruncate(int fd, off_t size)
{
    if (!is_known(fd))
        return REAL(ftruncate)(fd, size);
    pthread_mutex_lock(&one_at_a_time);
    struct note head = {.kind = RESIZED, .descriptor = fd, .began = now(), .size = size};
    int answer = REAL(ftruncate)(fd, size);
    if (answer == 0)
        note(head, NULL, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

int truncate(const char *path, off_t size)
{
    char found[PATH_MAX];
    if (!find(AT_FDCWD, path, found))
        return REAL(truncate)(path, size);
    pthread_mutex_lock(&one_at_a_time);
    struct note head = {.kind = RESIZED, .descriptor = -1, .began = now(), .size = size};
    int answer = REAL(truncate)(path, size);
    head.name_length = strlen(found);
    if (answer == 0)
        note(head, found, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int truncate64(const char *path, off64_t size)
{
    return truncate(path, size);
}

static int sync_file(int fd, int (*call)(int))
{
    pthread_mutex_lock(&one_at_a_time);
    struct note head = {.kind = SYNCED, .descriptor = fd, .began = now()};
    int answer = call(fd);
    if (answer == 0)
        note(head, NULL, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int fsync(int fd)
{
    return is_known(fd) ? sync_file(fd, REAL(fsync)) : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return is_known(fd) ? sync_file(fd, REAL(fdatasync)) : REAL(fdatasync)(fd);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (!is_known(fd))
        return REAL(fallocate)(fd, mode, offset, size);
    /* Holes and shifts would need a record of their own. */
    if (mode != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    int answer = posix_fallocate(fd, offset, size);
    errno = answer;
    return answer == 0 ? 0 : -1;
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size)
{
    return fallocate(fd, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    if (!is_known(fd))
        return REAL(posix_fallocate)(fd, offset, size);
    pthread_mutex_lock(&one_at_a_time);
    struct note head = {.kind = ALLOCATED, .descriptor = fd, .began = now()};
    head.offset = offset;
    head.size = size;
    int answer = REAL(posix_fallocate)(fd, offset, size);
    if (answer == 0)
        note(head, NULL, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int posix_fallocate64(int fd, off64_t offset, off64_t size)
{
    return posix_fallocate(fd, offset, size);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    char old[PATH_MAX], new[PATH_MAX];
    int leaves = find(from_at, from, old), enters = find(to_at, to, new);
    if (!leaves && !enters)
        return REAL(renameat2)(from_at, from, to_at, to, flags);
    if (!leaves || !enters || flags != 0)
        abort();
    pthread_mutex_lock(&one_at_a_time);
    int64_t began = now();
    int answer = REAL(renameat2)(from_at, from, to_at, to, flags);
    if (answer == 0)
        note_pair(RENAMED, began, old, new);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return renameat2(from_at, from, to_at, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int at, const char *path, int flags)
{
    char found[PATH_MAX];
    if (!find(at, path, found))
        return REAL(unlinkat)(at, path, flags);
    pthread_mutex_lock(&one_at_a_time);
    int64_t began = now();
    int answer = REAL(unlinkat)(at, path, flags);
    if (answer == 0)
        note_name(flags & AT_REMOVEDIR ? DIRECTORY_REMOVED : UNLINKED, began, found);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int remove(const char *path)
{
    int answer = unlinkat(AT_FDCWD, path, 0);
    return answer != 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : answer;
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    char old[PATH_MAX], new[PATH_MAX];
    int leaves = find(from_at, from, old), enters = find(to_at, to, new);
    if (!enters)
        return REAL(linkat)(from_at, from, to_at, to, flags);
    if (!leaves)
        abort();
    pthread_mutex_lock(&one_at_a_time);
    int64_t began = now();
    int answer = REAL(linkat)(from_at, from, to_at, to, flags);
    if (answer == 0)
        note_pair(LINKED, began, old, new);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    char found[PATH_MAX];
    if (!find(at, path, found))
        return REAL(mkdirat)(at, path, mode);
    pthread_mutex_lock(&one_at_a_time);
    int64_t began = now();
    int answer = REAL(mkdirat)(at, path, mode);
    if (answer == 0)
        note_name(DIRECTORY_MADE, began, found);
    pthread_mutex_unlock(&one_at_a_time);
    return answer;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
