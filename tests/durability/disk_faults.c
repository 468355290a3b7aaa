/* Stands between a broker and the kernel (LD_PRELOAD), for the files under FAULTS_ROOT alone.
 *
 * FAULTS_CONTROL names a file of rules, read again whenever it changes; without it nothing fails.
 * A rule is a line `OPERATION PART key=value ...`, for the files whose path contains PART.
 *   sync  PART delay_ms=N errno=N          fsync and fdatasync
 *   write PART errno=N bytes=N short=N     writes and allocations; `bytes` pass first
 *   open  PART errno=N                     opening for writing, making, renaming, removing
 *   any   PART ...                         all of these
 *   any of them: skip=N (let the first N pass), count=N (then stop), kill=1 (SIGKILL instead)
 * Every fault that happened is a line in FAULTS_CONTROL.hits.
 *
 * FAULTS_TAPE records what was written and what was synced, FAULTS_TRASH keeps what was removed:
 * with both a test can lay out the directory as a power cut would have left it (power_cut.py).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RULES_MAX 8
#define PARTS_MAX 1024
enum operation { SYNC, WRITE, OPEN, ANY };

struct rule {
    enum operation operation;
    char part[256];
    long delay_ms, error, bytes, short_bytes, skip, count, kills;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static int rule_count;
static struct timespec rules_changed;
static ino_t rules_inode;
static int tape = -1;
static long trashed;

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int is_watched(const char *path) {
    const char *root = setting("FAULTS_ROOT");
    size_t size = root ? strlen(root) : 0;
    return size && !strncmp(path, root, size) && (path[size] == '/' || !path[size]);
}

/* The file behind a descriptor, or NULL if it is none of ours. */
static const char *path_of(int fd, char *path) {
    char link[64];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    errno = saved;
    if (size < 0) return NULL;
    path[size] = 0;
    return is_watched(path) ? path : NULL;
}

/* In one write to a file opened for appending, so that threads cannot mix their lines. */
static void say(int fd, const char *format, ...) {
    char line[3 * PATH_MAX + 64];
    va_list values;
    va_start(values, format);
    int size = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    int saved = errno;
    if (syscall(SYS_write, fd, line, size) != size) abort();
    errno = saved;
}

#define RECORD(...) do { if (open_tape() >= 0) say(tape, __VA_ARGS__); } while (0)

static int open_tape(void) {
    const char *name = setting("FAULTS_TAPE");
    if (!name) return -1;
    pthread_mutex_lock(&lock);
    if (tape < 0)
        tape = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    pthread_mutex_unlock(&lock);
    return tape;
}

static long number_after(const char *line, const char *key, long otherwise) {
    const char *found = strstr(line, key);
    return found ? atol(found + strlen(key)) : otherwise;
}

static void read_rule(const char *line) {
    char operation[16];
    struct rule *rule = &rules[rule_count];
    if (rule_count == RULES_MAX || sscanf(line, "%15s %255s", operation, rule->part) != 2) return;
    rule->operation = operation[0] == 's' ? SYNC : operation[0] == 'w' ? WRITE
                      : operation[0] == 'a' ? ANY : OPEN;
    rule->delay_ms = number_after(line, " delay_ms=", 0);
    rule->error = number_after(line, " errno=", 0);
    rule->bytes = number_after(line, " bytes=", 0);
    rule->short_bytes = number_after(line, " short=", 0);
    rule->skip = number_after(line, " skip=", 0);
    rule->count = number_after(line, " count=", LONG_MAX);
    rule->kills = number_after(line, " kill=", 0);
    rule_count++;
}

static void read_rules(const char *name) {
    struct stat now;
    if (stat(name, &now)) {
        rule_count = 0;
        rules_inode = 0;
        return;
    }
    if (now.st_ino == rules_inode && !memcmp(&now.st_mtim, &rules_changed, sizeof rules_changed))
        return;
    char text[4096] = {0}, *rest = text, *line;
    int fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) abort();
    close(fd);
    rule_count = 0;
    while ((line = strsep(&rest, "\n"))) read_rule(line);
    rules_inode = now.st_ino;
    rules_changed = now.st_mtim;
}

static void record_hit(const char *name, const char *operation, const char *path) {
    char hits[PATH_MAX];
    snprintf(hits, sizeof hits, "%s.hits", name);
    int fd = syscall(SYS_openat, AT_FDCWD, hits, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) abort();
    say(fd, "%s %s\n", operation, path);
    close(fd);
}

struct verdict { long delay_ms, error; size_t size; };

/* What is to happen to `size` bytes (or to a sync, or an open) of this file. */
static struct verdict judge(enum operation operation, const char *path, size_t size) {
    static const char *names[] = {"sync", "write", "open"};
    struct verdict verdict = {0, 0, size};
    const char *control = setting("FAULTS_CONTROL");
    if (!control) return verdict;
    int saved = errno, hit = 0, kills = 0;
    pthread_mutex_lock(&lock);
    read_rules(control);
    for (int i = 0; i < rule_count; i++) {
        struct rule *rule = &rules[i];
        if (rule->operation != operation && rule->operation != ANY) continue;
        if (!strstr(path, rule->part)) continue;
        if (rule->skip > 0) { rule->skip--; continue; }
        if (rule->bytes > 0) {
            if ((long)size <= rule->bytes) { rule->bytes -= size; continue; }
            verdict.size = rule->bytes;
            rule->bytes = 0;
            hit = 1;
            break;
        }
        if (rule->count <= 0) continue;
        if (rule->short_bytes && size <= (size_t)rule->short_bytes) continue;
        rule->count--;
        kills = rule->kills;
        verdict.delay_ms = rule->delay_ms;
        verdict.error = rule->error;
        if (rule->short_bytes) verdict.size = rule->short_bytes;
        hit = 1;
        break;
    }
    pthread_mutex_unlock(&lock);
    if (hit) record_hit(control, names[operation], path);
    if (kills) syscall(SYS_kill, getpid(), SIGKILL);
    errno = saved;
    if (verdict.delay_ms) {
        struct timespec pause = {verdict.delay_ms / 1000, verdict.delay_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    return verdict;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(verdict) do { if (verdict.error) { errno = verdict.error; return -1; } } while (0)

/* Syncs */

static int sync_with(int (*real)(int), int fd) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return real(fd);
    RECORD("b %s\n", path);
    struct verdict verdict = judge(SYNC, path, 0);
    if (verdict.error) {
        RECORD("f %s\n", path);
        errno = verdict.error;
        return -1;
    }
    int result = real(fd);
    RECORD("%c %s\n", result ? 'f' : 'e', path);
    return result;
}

int fsync(int fd) { return sync_with(REAL(fsync), fd); }
int fdatasync(int fd) { return sync_with(REAL(fdatasync), fd); }

/* Writes: all go through pwritev or writev */

static ssize_t write_pieces(int fd, const struct iovec *pieces, int count, off_t at) {
    char path[PATH_MAX];
    int is_ours = path_of(fd, path) != NULL;
    struct iovec cut[PARTS_MAX];
    size_t size = 0;
    for (int i = 0; i < count; i++) size += pieces[i].iov_len;
    if (is_ours && size) {
        struct verdict verdict = judge(WRITE, path, size);
        FAIL_IF(verdict);
        if (verdict.size < size) {
            size_t left = verdict.size;
            int kept = 0;
            for (; kept < count && kept < PARTS_MAX && left; kept++) {
                cut[kept] = pieces[kept];
                if (cut[kept].iov_len > left) cut[kept].iov_len = left;
                left -= cut[kept].iov_len;
            }
            pieces = cut;
            count = kept;
        }
    }
    ssize_t written = at >= 0 ? syscall(SYS_pwritev, fd, pieces, count, (long)at, 0L)
                              : syscall(SYS_writev, fd, pieces, count);
    if (is_ours && written > 0) {
        off_t start = at >= 0 ? at : lseek(fd, 0, SEEK_CUR) - written;
        RECORD("w %ld %ld %s\n", (long)start, (long)written, path);
    }
    return written;
}

static ssize_t write_one(int fd, const void *data, size_t size, off_t at) {
    struct iovec piece = {(void *)data, size};
    return write_pieces(fd, &piece, 1, at);
}

typedef const struct iovec *vector;
ssize_t write(int fd, const void *data, size_t size) { return write_one(fd, data, size, -1); }
ssize_t pwrite(int fd, const void *d, size_t size, off_t at) { return write_one(fd, d, size, at); }
ssize_t pwrite64(int fd, const void *d, size_t size, off_t at) { return pwrite(fd, d, size, at); }
ssize_t writev(int fd, vector v, int count) { return write_pieces(fd, v, count, -1); }
ssize_t pwritev(int fd, vector v, int count, off_t at) { return write_pieces(fd, v, count, at); }
ssize_t pwritev64(int fd, vector v, int count, off_t at) { return write_pieces(fd, v, count, at); }

/* Sizes: an allocation needs space as a write does */

static int allocation_error(int fd, off_t size) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return 0;
    struct verdict verdict = judge(WRITE, path, size);
    return verdict.error ? verdict.error : verdict.size < (size_t)size ? ENOSPC : 0;
}

int fallocate(int fd, int mode, off_t at, off_t size) {
    int error = allocation_error(fd, size);
    if (error) { errno = error; return -1; }
    return REAL(fallocate)(fd, mode, at, size);
}
int fallocate64(int fd, int mode, off_t at, off_t size) { return fallocate(fd, mode, at, size); }
int posix_fallocate(int fd, off_t at, off_t size) {
    int error = allocation_error(fd, size);
    return error ? error : REAL(posix_fallocate)(fd, at, size);
}
int posix_fallocate64(int fd, off_t at, off_t size) { return posix_fallocate(fd, at, size); }

int ftruncate(int fd, off_t size) {
    char path[PATH_MAX];
    int result = syscall(SYS_ftruncate, fd, size);
    if (!result && path_of(fd, path)) RECORD("t %ld %s\n", (long)size, path);
    return result;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

/* Names */

static int open_at(int directory, const char *path, int flags, mode_t mode) {
    int is_ours = is_watched(path) && (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC));
    int is_new = is_ours && (flags & O_CREAT) && (access(path, F_OK) || (flags & O_TRUNC));
    if (is_ours) FAIL_IF(judge(OPEN, path, 0));
    int fd = syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0 && is_new) RECORD("c %s\n", path);
    return fd;
}

#define MODE(last) ({ va_list v; va_start(v, last); mode_t m = va_arg(v, int); va_end(v); m; })
int open(const char *p, int flags, ...) { return open_at(AT_FDCWD, p, flags, MODE(flags)); }
int open64(const char *p, int flags, ...) { return open_at(AT_FDCWD, p, flags, MODE(flags)); }
int openat(int d, const char *p, int flags, ...) { return open_at(d, p, flags, MODE(flags)); }
int openat64(int d, const char *p, int flags, ...) { return open_at(d, p, flags, MODE(flags)); }

/* A second name in FAULTS_TRASH for what is about to lose its own; "-" if there is none. */
static void keep(const char *path, char *kept) {
    const char *trash = setting("FAULTS_TRASH");
    strcpy(kept, "-");
    if (!trash || access(path, F_OK)) return;
    long number = __atomic_fetch_add(&trashed, 1, __ATOMIC_RELAXED);
    snprintf(kept, PATH_MAX, "%s/%d.%ld", trash, (int)getpid(), number);
    syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0);
}

static int rename_at(int from, const char *old, int to, const char *new, unsigned flags) {
    char kept[PATH_MAX];
    if (!is_watched(old)) return syscall(SYS_renameat2, from, old, to, new, flags);
    FAIL_IF(judge(OPEN, old, 0));
    keep(new, kept);
    int result = syscall(SYS_renameat2, from, old, to, new, flags);
    if (!result) RECORD("r %s\t%s\t%s\n", old, new, kept);
    return result;
}
int rename(const char *old, const char *new) { return rename_at(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) {
    return rename_at(from, old, to, new, 0);
}

int unlinkat(int directory, const char *path, int flags) {
    char kept[PATH_MAX];
    if (!is_watched(path) || (flags & AT_REMOVEDIR))
        return syscall(SYS_unlinkat, directory, path, flags);
    FAIL_IF(judge(OPEN, path, 0));
    keep(path, kept);
    int result = syscall(SYS_unlinkat, directory, path, flags);
    if (!result) RECORD("u %s\t%s\n", path, kept);
    return result;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int mkdirat(int directory, const char *path, mode_t mode) {
    if (is_watched(path)) FAIL_IF(judge(OPEN, path, 0));
    return syscall(SYS_mkdirat, directory, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
