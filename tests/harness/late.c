/* A library to preload (LD_PRELOAD) that makes races of tests likely: `scripts/races`.
 *
 * Every process draws a habit: half of them have none, the others sleep now and then before they
 * write, after they have written, or after they have read, at pipes and sockets. So whatever a test
 * expects to happen between two messages, sooner or later does not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum habit { NONE, BEFORE_WRITES, AFTER_WRITES, AROUND_WRITES, AFTER_READS };
static const enum habit HABITS[] = {NONE, NONE, NONE, NONE, BEFORE_WRITES, AFTER_WRITES,
                                    AROUND_WRITES, AFTER_READS};

static pid_t process; /* whose habit it is: a fork draws its own */
static enum habit habit;
static long left;    /* milliseconds that this process may still sleep */
static time_t since; /* it may sleep a tenth of its time, and 2.5 s at once */
static __thread unsigned long long state;

static unsigned drawn(unsigned below) {
    if (!state) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = (now.tv_nsec + ((unsigned long long)getpid() << 32)) * 2654435761u + 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 16) % below;
}

static enum habit habit_at(int fd) {
    struct stat found;
    int error = errno;
    if (process != getpid()) {
        process = getpid();
        state = 0;
        habit = HABITS[drawn(sizeof HABITS / sizeof *HABITS)];
        left = 2500;
        since = time(NULL);
    }
    int is_message = habit != NONE && fd != STDERR_FILENO && !fstat(fd, &found) &&
                     (S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode));
    errno = error;
    return is_message ? habit : NONE;
}

static void be_late(void) {
    int error = errno;
    time_t now = time(NULL);
    left += (now - since) * 100;
    since = now;
    /* A locked up host would be killed for sleeping. */
    if (left > 0 && drawn(10) < 4 && prctl(PR_GET_SECCOMP) == 0) {
        unsigned kind = drawn(10);
        long pause = kind < 6 ? 1 + drawn(20) : kind < 9 ? 60 : 350;
        struct timespec wanted = {0, pause * 1000000};
        left -= pause;
        nanosleep(&wanted, NULL);
    }
    errno = error;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WRITER(name, parameters, ...)                                                              \
    ssize_t name parameters {                                                                      \
        REAL(name);                                                                                \
        enum habit mine = habit_at(fd);                                                            \
        if (mine == BEFORE_WRITES || mine == AROUND_WRITES) be_late();                             \
        ssize_t count = real(__VA_ARGS__);                                                         \
        if (mine == AFTER_WRITES || mine == AROUND_WRITES) be_late();                              \
        return count;                                                                              \
    }

#define READER(name, parameters, ...)                                                              \
    ssize_t name parameters {                                                                      \
        REAL(name);                                                                                \
        ssize_t count = real(__VA_ARGS__);                                                         \
        if (count > 0 && habit_at(fd) == AFTER_READS) be_late();                                   \
        return count;                                                                              \
    }

WRITER(write, (int fd, const void *data, size_t size), fd, data, size)
WRITER(writev, (int fd, const struct iovec *parts, int count_), fd, parts, count_)
WRITER(send, (int fd, const void *data, size_t size, int flags), fd, data, size, flags)
WRITER(sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
READER(read, (int fd, void *data, size_t size), fd, data, size)
READER(recv, (int fd, void *data, size_t size, int flags), fd, data, size, flags)
