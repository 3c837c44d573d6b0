/* The client that drives and times one chain.
 *
 *   client LIMIT_S COMMAND [ARG…]
 *
 * Starts the command and initializes it at once, then obeys lines on stdin,
 * answering each with one line of JSON on stdout. All times are nanoseconds of
 * the monotonic clock.
 *
 *   (start)            {"pid":P,"ready_ns":T,"lag_ns":L}  spawn to answer; and
 *                      from the agent's own readiness to the answer (-1: not told)
 *   session            {"ok":true}
 *   echo COUNT BYTES   {"round_trips_ns":[…]}  prompt written to answer read, the
 *                      echoed text compared
 *   stream N BYTES     {"elapsed_ns":T,"late":K}  prompt to last message; K updates
 *                      came after the answer that should have closed the turn
 *   stop               {"exit":C,"left":B}  B: some process of the chain outlived its
 *                      first one by more than a second
 *
 * An update lost, doubled or out of order is an error, never a figure. */
#define _POSIX_C_SOURCE 200809L
#include "chain.h"

static struct chain chain;
static long last_id;

/* Begins a request; the caller adds params and the closing brace. */
static long request(const char *method) {
    char head[128];
    snprintf(head, sizeof head, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"%s\",\"params\":",
             ++last_id, method);
    put_text(&chain.out, head);
    return last_id;
}

static bool answers(const struct message *m, long id) {
    char digits[24];
    snprintf(digits, sizeof digits, "%ld", id);
    return m->method.p == NULL && span_is(m->id, digits);
}

/* An error answer fails the run; its text goes to stderr for the report. */
static void check(const struct message *m, const char *during) {
    if (m->error.p == NULL) return;
    fprintf(stderr, "client: answer: %.*s\n", m->error.n < 2000 ? (int)m->error.n : 2000,
            m->error.p);
    fail(&chain, "an error answer", during);
}

static struct message next_message(const char *during) {
    struct message m;
    for (;;) {
        span line = chain_line(&chain, during);
        if (json_message(line, &m)) return m;
    }
}

static struct message await_answer(long id, const char *during) {
    for (;;) {
        struct message m = next_message(during);
        if (!answers(&m, id)) continue;
        check(&m, during);
        return m;
    }
}

static span update_text(const struct message *m) {
    span none = {NULL, 0};
    if (!span_is(m->method, "session/update")) return none;
    span update = json_member(m->params, "update");
    return json_text(json_member(json_member(update, "content"), "text"));
}

static long prompt(const char *text, size_t n) {
    long id = request("session/prompt");
    put_text(&chain.out, "{\"sessionId\":\"bench\",\"prompt\":[{\"type\":\"text\",\"text\":\"");
    put(&chain.out, text, n);
    put_text(&chain.out, "\"}]}}\n");
    chain_push(&chain, "session/prompt");
    return id;
}

static void start(char **argv) {
    long long begin = now_ns();
    chain_start(&chain, argv);
    long id = request("initialize");
    put_text(&chain.out, "{\"protocolVersion\":1,\"clientCapabilities\":{},"
                         "\"clientInfo\":{\"name\":\"bench-client\",\"version\":\"1\"}}}\n");
    chain_push(&chain, "initialize");
    struct message m = await_answer(id, "initialize");
    long long end = now_ns(), lag = -1;
    span agent_ready = json_member(json_member(m.result, "_meta"), "benchReadyNs");
    if (agent_ready.p != NULL) lag = end - strtoll(agent_ready.p, NULL, 10);
    printf("{\"pid\":%ld,\"ready_ns\":%lld,\"lag_ns\":%lld}\n", (long)chain.pid, end - begin, lag);
}

static void open_session(void) {
    long id = request("session/new");
    put_text(&chain.out, "{\"cwd\":\"/\",\"mcpServers\":[]}}\n");
    chain_push(&chain, "session/new");
    await_answer(id, "session/new");
    printf("{\"ok\":true}\n");
}

static long long echo_once(const char *text, size_t n) {
    bool echoed = false, answered = false;
    long long begin = now_ns();
    long id = prompt(text, n);
    while (!echoed || !answered) {
        struct message m = next_message("an echo");
        if (answers(&m, id)) {
            check(&m, "an echo");
            answered = true;
            continue;
        }
        span came = update_text(&m);
        if (came.p == NULL) continue;
        if (echoed || came.n != n || memcmp(came.p, text, n) != 0)
            fail(&chain, "an altered or doubled update", "an echo");
        echoed = true;
    }
    return now_ns() - begin;
}

static void echo(long count, long bytes) {
    char *text = must_realloc(NULL, (size_t)bytes + 1);
    long long *trips = must_realloc(NULL, (size_t)(count + 1) * sizeof *trips);
    memset(text, 'e', (size_t)bytes);
    for (long i = 0; i < count; i++) trips[i] = echo_once(text, (size_t)bytes);
    printf("{\"round_trips_ns\":[");
    for (long i = 0; i < count; i++) printf("%s%lld", i == 0 ? "" : ",", trips[i]);
    printf("]}\n");
    free(trips);
    free(text);
}

static void stream(long count, long bytes) {
    char text[64];
    long seen = 0, late = 0;
    bool answered = false;
    int n = snprintf(text, sizeof text, "stream %ld %ld", count, bytes);
    long long begin = now_ns();
    long id = prompt(text, (size_t)n);
    while (seen < count || !answered) {
        struct message m = next_message("a stream");
        if (answers(&m, id)) {
            check(&m, "a stream");
            answered = true;
            continue;
        }
        span came = update_text(&m);
        if (came.p == NULL) continue;
        if (strtol(came.p, NULL, 10) != seen)
            fail(&chain, "an update lost or out of order", "a stream");
        seen++;
        late += answered;
    }
    printf("{\"elapsed_ns\":%lld,\"late\":%ld}\n", now_ns() - begin, late);
}

int main(int argc, char **argv) {
    char command[128];
    long a, b;
    if (argc < 3) {
        fprintf(stderr, "usage: client LIMIT_S COMMAND [ARG…]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    chain.limit_ns = strtoll(argv[1], NULL, 10) * 1000000000LL;
    start(argv + 2);
    fflush(stdout);
    while (fgets(command, sizeof command, stdin) != NULL) {
        if (sscanf(command, "echo %ld %ld", &a, &b) == 2) echo(a, b);
        else if (sscanf(command, "stream %ld %ld", &a, &b) == 2) stream(a, b);
        else if (strcmp(command, "session\n") == 0) open_session();
        else if (strcmp(command, "stop\n") == 0) break;
        else fail(&chain, "an unknown command", "the run");
        fflush(stdout);
    }
    int code = chain_stop(&chain, 3000000000LL);
    printf("{\"exit\":%d,\"left\":%s}\n", code, chain_reap(1000000000LL) ? "false" : "true");
    fflush(stdout);
    /* The caller ends what is left of the tree while we are its reaper. */
    while (fgetc(stdin) != EOF) continue;
    return 0;
}
