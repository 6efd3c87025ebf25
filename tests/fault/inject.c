/* A preloaded library that makes calls on certain files fail or take long, as a file says that is
 * mapped and can be changed at any time from outside.
 *
 * INJECT_PATH     names of files that start with this are meant
 * INJECT_CONTROL  the file with a `struct control`
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, ALLOCATE = 8, OPEN = 16, READ = 32 };

struct control {
    int64_t calls;        /* which kinds are meant */
    int64_t error;        /* the errno they end with; 0: they do not fail */
    int64_t from;         /* the first that fails, counted from 0 */
    int64_t until;        /* the first that does not fail any more */
    int64_t milliseconds; /* how long each one takes in any case */
    int64_t seen;         /* how many were meant so far */
    int64_t failed;       /* how many failed */
};

static volatile struct control *control;
static const char *prefix;
static size_t prefix_length;

__attribute__((constructor)) static void set_up(void)
{
    const char *path = getenv("INJECT_CONTROL");
    prefix = getenv("INJECT_PATH");
    if (path == NULL || prefix == NULL)
        return;
    prefix_length = strlen(prefix);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        abort();
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        abort();
    control = mapped;
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

static int is_meant(int file)
{
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name);
    return length >= (ssize_t)prefix_length && memcmp(name, prefix, prefix_length) == 0;
}

static void wait_for(int64_t milliseconds)
{
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* The errno a call has to end with, or 0. */
static int fate(void)
{
    int64_t number = __atomic_fetch_add(&control->seen, 1, __ATOMIC_SEQ_CST);
    /* Decided before it waits: what is asked for meanwhile is meant for other calls. */
    int64_t milliseconds = control->milliseconds;
    int error = number >= control->from && number < control->until ? (int)control->error : 0;
    if (error != 0)
        __atomic_fetch_add(&control->failed, 1, __ATOMIC_SEQ_CST);
    if (milliseconds > 0)
        wait_for(milliseconds);
    return error;
}

static int fate_of_file(int kind, int file)
{
    if (control == NULL || !(control->calls & kind) || !is_meant(file))
        return 0;
    return fate();
}

static int fate_of_name(const char *name, int flags)
{
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (control == NULL || !(control->calls & OPEN) || !writes)
        return 0;
    return strncmp(name, prefix, prefix_length) == 0 ? fate() : 0;
}

#define FAIL_IF(condition)                                                                         \
    do {                                                                                           \
        int error_ = (condition);                                                                  \
        if (error_ != 0) {                                                                         \
            errno = error_;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

#define ON_FILE(kind, type, name, parameters, arguments)                                           \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        if (real == NULL)                                                                          \
            real = next(#name);                                                                    \
        FAIL_IF(fate_of_file(kind, file));                                                         \
        return real arguments;                                                                     \
    }

ON_FILE(WRITE, ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
ON_FILE(WRITE, ssize_t, pwrite, (int file, const void *data, size_t size, off_t at),
        (file, data, size, at))
ON_FILE(WRITE, ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at),
        (file, data, size, at))
ON_FILE(READ, ssize_t, pread, (int file, void *data, size_t size, off_t at), (file, data, size, at))
ON_FILE(READ, ssize_t, pread64, (int file, void *data, size_t size, off64_t at),
        (file, data, size, at))
ON_FILE(SYNC, int, fsync, (int file), (file))
ON_FILE(SYNC, int, fdatasync, (int file), (file))
ON_FILE(TRUNCATE, int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(TRUNCATE, int, ftruncate64, (int file, off64_t size), (file, size))

/* These give the error instead of setting errno. */
int posix_fallocate(int file, off_t at, off_t size)
{
    static int (*real)(int, off_t, off_t);
    if (real == NULL)
        real = next("posix_fallocate");
    int error = fate_of_file(ALLOCATE, file);
    return error != 0 ? error : real(file, at, size);
}

int posix_fallocate64(int file, off64_t at, off64_t size)
{
    static int (*real)(int, off64_t, off64_t);
    if (real == NULL)
        real = next("posix_fallocate64");
    int error = fate_of_file(ALLOCATE, file);
    return error != 0 ? error : real(file, at, size);
}

#define ON_NAME(name, parameters, arguments)                                                       \
    int name parameters                                                                            \
    {                                                                                              \
        static int(*real) parameters;                                                              \
        if (real == NULL)                                                                          \
            real = next(#name);                                                                    \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                    \
        va_end(rest);                                                                              \
        FAIL_IF(fate_of_name(path, flags));                                                        \
        return real arguments;                                                                     \
    }

ON_NAME(open, (const char *path, int flags, ...), (path, flags, mode))
ON_NAME(open64, (const char *path, int flags, ...), (path, flags, mode))
ON_NAME(openat, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
ON_NAME(openat64, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
