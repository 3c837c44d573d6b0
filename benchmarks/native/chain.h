/* The client's end of a chain: a child process, its two pipes, or what is at an
 * address; and waiting on them with a deadline. Any failure ends the program with one JSON line on
 * stdout, {"error": …}, after the child was ended. */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "io.h"
#include "remote.h"

struct chain {
    pid_t pid; /* 0: no child, it is at an address */
    struct reader in;
    struct writer out;
    struct remote remote;
    long long limit_ns; /* how long any one wait may last */
};

static inline long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Waits for the child until the deadline; true when it is gone. */
static inline bool chain_wait(struct chain *c, long long deadline, int *status) {
    const struct timespec tick = {0, 1000000};
    while (waitpid(c->pid, status, WNOHANG) == 0) {
        if (now_ns() > deadline) return false;
        nanosleep(&tick, NULL);
    }
    return true;
}

/* Closes the chain's input and waits; stubborn ones are killed, group and all.
 * The exit code, or minus the signal. */
static inline int chain_stop(struct chain *c, long long grace_ns) {
    int status = 0;
    if (c->pid == 0) {
        remote_close(&c->remote);
        return 0;
    }
    close(c->out.fd);
    if (!chain_wait(c, now_ns() + grace_ns, &status)) {
        kill(-c->pid, SIGTERM);
        if (!chain_wait(c, now_ns() + grace_ns, &status)) {
            kill(-c->pid, SIGKILL);
            waitpid(c->pid, &status, 0);
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Waits for the processes the chain left to us; true when there are none (any more). */
static inline bool chain_reap(long long grace_ns) {
    const struct timespec tick = {0, 1000000};
    long long deadline = now_ns() + grace_ns;
    pid_t gone;
    while ((gone = waitpid(-1, NULL, WNOHANG)) >= 0 && now_ns() < deadline)
        if (gone == 0) nanosleep(&tick, NULL);
    return gone < 0;
}

static inline void fail(struct chain *c, const char *what, const char *during) {
    int code = chain_stop(c, 500000000LL);
    printf("{\"error\":\"%s during %s\",\"exit\":%d}\n", what, during, code);
    fflush(stdout);
    exit(1);
}

/* Spawns the command with both pipes; stderr stays ours. The child leads its
 * own group, and on Linux whatever it leaves behind becomes ours, so that
 * nothing of the tree is lost from the measurements. */
static inline void chain_start(struct chain *c, char **argv) {
    int down[2], up[2];
    if (way_of(argv[0]) != PIPES) {
        remote_open(&c->remote, argv[0]);
        c->in.fd = c->out.fd = c->remote.fd;
        if (c->remote.way == LINES) fcntl(c->in.fd, F_SETFL, O_NONBLOCK);
        return;
    }
#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
#endif
    if (pipe(down) < 0 || pipe(up) < 0 || (c->pid = fork()) < 0) {
        perror("client: cannot start the chain");
        exit(3);
    }
    if (c->pid == 0) {
        setpgid(0, 0);
        dup2(down[0], 0);
        dup2(up[1], 1);
        close(down[0]), close(down[1]), close(up[0]), close(up[1]);
        signal(SIGPIPE, SIG_DFL);
        execvp(argv[0], argv);
        fprintf(stderr, "client: cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    setpgid(c->pid, c->pid);
    close(down[0]), close(up[1]);
    fcntl(down[1], F_SETFL, O_NONBLOCK);
    fcntl(up[0], F_SETFL, O_NONBLOCK);
    c->out.fd = down[1];
    c->in.fd = up[0];
}

/* Writes what the pipe takes now; the rest stays in the writer. */
static inline void chain_push(struct chain *c, const char *during) {
    struct writer *out = &c->out;
    if (c->remote.way >= WEBSOCKET) {
        remote_encode(&c->remote, out, &c->in);
        out = &c->remote.wire;
    }
    size_t done = 0;
    while (done < out->len) {
        ssize_t n = write(c->out.fd, out->buf + done, out->len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) fail(c, "the chain closed its input", during);
        done += (size_t)n;
    }
    memmove(out->buf, out->buf + done, out->len - done);
    out->len -= done;
}

/* Reads once; as reader_fill. */
static inline ssize_t chain_read(struct chain *c, const struct pollfd *fds) {
    return c->remote.way < WEBSOCKET ? reader_fill(&c->in) : remote_read(&c->remote, &c->in, fds);
}

/* The next line from the chain, writing on meanwhile. */
static inline span chain_line(struct chain *c, const char *during) {
    span line;
    long long deadline = 0;
    while (!reader_line(&c->in, &line)) {
        if (deadline == 0) deadline = now_ns() + c->limit_ns;
        struct pollfd fds[2 + MOST_STREAMS] = {{c->in.fd, POLLIN, 0}};
        nfds_t n = 1;
        for (int i = 0; i < c->remote.open; i++)
            fds[n++] = (struct pollfd){c->remote.streams[i].fd, POLLIN, 0};
        if (c->out.len + c->remote.wire.len > 0) fds[n++] = (struct pollfd){c->out.fd, POLLOUT, 0};
        int wait_ms = (int)((deadline - now_ns()) / 1000000);
        int ready = wait_ms <= 0 ? 0 : poll(fds, n, wait_ms);
        if (ready == 0) fail(c, "no answer in time", during);
        if (ready < 0) continue; /* EINTR */
        bool came = false;
        for (int i = 0; i <= c->remote.open; i++) came |= fds[i].revents != 0;
        if (fds[n - 1].events == POLLOUT && fds[n - 1].revents != 0) chain_push(c, during);
        if (!came) continue;
        ssize_t got = chain_read(c, fds);
        if (got == 0) fail(c, "the chain ended", during);
        if (got < 0 && errno != EAGAIN) fail(c, "the chain cannot be read", during);
    }
    return line;
}

#endif
