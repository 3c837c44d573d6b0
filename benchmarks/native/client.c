/* The client that drives and times one chain.
 *
 *   client LIMIT_S COMMAND [ARG…]
 *   client LIMIT_S ADDRESS             a server's: see remote.h; BENCH_TOKEN is shown to it
 *
 * Starts the command, or connects, and initializes it at once, then obeys lines on stdin,
 * answering each with one line of JSON on stdout. All times are nanoseconds of
 * the monotonic clock.
 *
 *   (start)            {"pid":P,"ready_ns":T}  spawn to answer
 *   session            {"ok":true}  opens one; prompts go to the latest
 *   blocks             {"blocks":N}  how many blocks a prompt of one block has when
 *                      it reaches the agent
 *   trips COUNT BYTES  {"trips_ns":[…]}  prompts that are only answered: prompt
 *                      written to answer read
 *   other              {"elapsed_ns":T}  a request that is no prompt, and its answer
 *   turns COUNT BYTES  {"trips_ns":[…]}  prompts that are echoed: prompt written to
 *                      both update and answer read, the echoed text compared
 *   many SESSIONS COUNT BYTES
 *                      {"elapsed_ns":T}  COUNT such turns in each of so many new
 *                      sessions, all sessions at once
 *   stream N BYTES PACE
 *                      {"elapsed_ns":T,"late":K}  prompt to last message; K updates
 *                      came after the answer that should have closed the turn; the
 *                      agent writes PACE updates a second, or as fast as it can with 0
 *   tally N BYTES      {"lost":L,"doubled":D,"disordered":O}  of such a stream, which
 *                      is over when it is answered
 *   hold N BYTES       {"ok":true}  asks for a stream, and reads nothing of it
 *   drain              {"elapsed_ns":T,"late":K}  reads what `hold` has asked for
 *   stop               {"exit":C,"left":B}  B: some process of the chain outlived its
 *                      first one by more than a second
 *
 * Elsewhere an update lost, doubled, altered or out of order is an error, never a figure. */
#define _POSIX_C_SOURCE 200809L
#include "chain.h"

static struct chain chain;
static long last_id;
static char latest[128]; /* the session's id as JSON */

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

static long prompt(const char *session, const char *text, size_t n) {
    long id = request("session/prompt");
    put_text(&chain.out, "{\"sessionId\":");
    put_text(&chain.out, session);
    put_text(&chain.out, ",\"prompt\":[{\"type\":\"text\",\"text\":\"");
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
    await_answer(id, "initialize");
    printf("{\"pid\":%ld,\"ready_ns\":%lld}\n", (long)chain.pid, now_ns() - begin);
}

static void open_session(void) {
    long id = request("session/new");
    put_text(&chain.out, "{\"cwd\":\"/\",\"mcpServers\":[]}}\n");
    chain_push(&chain, "session/new");
    struct message m = await_answer(id, "session/new");
    span session = json_member(m.result, "sessionId");
    if (session.p == NULL || session.n >= sizeof latest)
        fail(&chain, "no usable sessionId", "session/new");
    memcpy(latest, session.p, session.n);
    latest[session.n] = '\0';
    if (chain.remote.way == HTTP) listen_to(&chain.remote, (span){latest, session.n});
}

/* A text of so many bytes, all alike; the caller frees it. */
static char *filled(char with, long bytes) {
    char *text = must_realloc(NULL, (size_t)bytes + 1);
    memset(text, with, (size_t)bytes);
    return text;
}

static long long trip(const char *text, size_t n) {
    long long begin = now_ns();
    long id = prompt(latest, text, n);
    for (;;) {
        struct message m = next_message("a round trip");
        if (update_text(&m).p != NULL) fail(&chain, "an update nobody asked for", "a round trip");
        if (!answers(&m, id)) continue;
        check(&m, "a round trip");
        return now_ns() - begin;
    }
}

static void other(void) {
    long long begin = now_ns();
    long id = request("session/list");
    put_text(&chain.out, "{}}\n");
    chain_push(&chain, "session/list");
    await_answer(id, "session/list");
    printf("{\"elapsed_ns\":%lld}\n", now_ns() - begin);
}

static long long turn(const char *text, size_t n) {
    bool echoed = false, answered = false;
    long long begin = now_ns();
    long id = prompt(latest, text, n);
    while (!echoed || !answered) {
        struct message m = next_message("a turn");
        if (answers(&m, id)) {
            check(&m, "a turn");
            answered = true;
            continue;
        }
        span came = update_text(&m);
        if (came.p == NULL) continue;
        if (echoed || came.n != n || memcmp(came.p, text, n) != 0)
            fail(&chain, "an altered or doubled update", "a turn");
        echoed = true;
    }
    return now_ns() - begin;
}

static void times(long long (*once)(const char *text, size_t n), char *text, long count,
                  long bytes) {
    long long *trips = must_realloc(NULL, (size_t)(count + 1) * sizeof *trips);
    for (long i = 0; i < count; i++) trips[i] = once(text, (size_t)bytes);
    printf("{\"trips_ns\":[");
    for (long i = 0; i < count; i++) printf("%s%lld", i == 0 ? "" : ",", trips[i]);
    printf("]}\n");
    free(trips);
    free(text);
}

static void trips(long count, long bytes) {
    static const char quiet[] = "quiet ";
    if (bytes < (long)sizeof quiet) bytes = sizeof quiet;
    char *text = filled('e', bytes);
    memcpy(text, quiet, sizeof quiet - 1);
    times(trip, text, count, bytes);
}

/* One of several sessions at once: its turn, and how many more follow. */
struct busy {
    char session[sizeof latest], letter;
    long id, left;
    bool echoed, answered;
};

static void begin_turn(struct busy *b, char *text, long bytes) {
    memset(text, b->letter, (size_t)bytes);
    b->left--;
    b->echoed = b->answered = false;
    b->id = prompt(b->session, text, (size_t)bytes);
}

/* Takes a message of the session's turn: true when the turn is over by it. */
static bool took(struct busy *b, const struct message *m, char *text, long bytes) {
    if (answers(m, b->id)) {
        check(m, "turns of many sessions");
        if (b->answered) fail(&chain, "a doubled answer", "turns of many sessions");
        b->answered = true;
        return b->echoed;
    }
    span came = update_text(m);
    if (came.p == NULL || !span_is(json_member(m->params, "sessionId"), b->session)) return false;
    memset(text, b->letter, (size_t)bytes);
    if (b->echoed || came.n != (size_t)bytes || memcmp(came.p, text, came.n) != 0)
        fail(&chain, "an altered or doubled update", "turns of many sessions");
    b->echoed = true;
    return b->answered;
}

static void many(long sessions, long count, long bytes) {
    struct busy *all = must_realloc(NULL, (size_t)(sessions + 1) * sizeof *all);
    char *text = filled('e', bytes);
    for (long i = 0; i < sessions; i++) {
        open_session();
        memcpy(all[i].session, latest, sizeof latest);
        all[i].letter = (char)('a' + i % 26);
        all[i].left = count;
    }
    long running = count > 0 ? sessions : 0;
    long long begin = now_ns();
    for (long i = 0; i < running; i++) begin_turn(&all[i], text, bytes);
    while (running > 0) {
        struct message m = next_message("turns of many sessions");
        for (long i = 0; i < sessions; i++) {
            if (!took(&all[i], &m, text, bytes)) continue;
            if (all[i].left > 0) begin_turn(&all[i], text, bytes);
            else running--;
            break;
        }
    }
    printf("{\"elapsed_ns\":%lld}\n", now_ns() - begin);
    free(all);
    free(text);
}

static void count_blocks(void) {
    bool answered = false;
    long blocks = 0;
    long id = prompt(latest, "blocks", 6);
    while (blocks == 0 || !answered) {
        struct message m = next_message("a prompt");
        if (answers(&m, id)) {
            check(&m, "a prompt");
            answered = true;
        }
        span came = update_text(&m);
        if (came.p != NULL && (blocks = strtol(came.p, NULL, 10)) <= 0)
            fail(&chain, "an altered update", "a prompt");
    }
    printf("{\"blocks\":%ld}\n", blocks);
}

static long ask_for_stream(long count, long bytes, long pace) {
    char text[64];
    int n = snprintf(text, sizeof text, "stream %ld %ld %ld", count, bytes, pace);
    return prompt(latest, text, (size_t)n);
}

static void read_stream(long id, long count, long long begin) {
    long seen = 0, late = 0;
    bool answered = false;
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

static void tally(long count, long bytes) {
    bool *seen = calloc((size_t)count + 1, sizeof *seen);
    long next = 0, lost = 0, doubled = 0, disordered = 0;
    long id = ask_for_stream(count, bytes, 0);
    for (;;) {
        struct message m = next_message("a stream");
        if (answers(&m, id)) {
            check(&m, "a stream");
            break;
        }
        span came = update_text(&m);
        if (came.p == NULL) continue;
        long number = strtol(came.p, NULL, 10);
        if (number < 0 || number >= count) fail(&chain, "an altered update", "a stream");
        doubled += seen[number];
        disordered += number < next && !seen[number];
        seen[number] = true;
        if (number >= next) next = number + 1;
    }
    for (long i = 0; i < count; i++) lost += !seen[i];
    printf("{\"lost\":%ld,\"doubled\":%ld,\"disordered\":%ld}\n", lost, doubled, disordered);
    free(seen);
}

int main(int argc, char **argv) {
    char command[128];
    long a, b, c, held = 0, held_id = 0;
    long long begin;
    if (argc < 3) {
        fprintf(stderr, "usage: client LIMIT_S COMMAND [ARG…]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    chain.limit_ns = strtoll(argv[1], NULL, 10) * 1000000000LL;
    start(argv + 2);
    fflush(stdout);
    while (fgets(command, sizeof command, stdin) != NULL) {
        begin = now_ns();
        if (sscanf(command, "trips %ld %ld", &a, &b) == 2) {
            trips(a, b);
        } else if (sscanf(command, "turns %ld %ld", &a, &b) == 2) {
            times(turn, filled('e', b), a, b);
        } else if (sscanf(command, "many %ld %ld %ld", &a, &b, &c) == 3) {
            many(a, b, c);
        } else if (sscanf(command, "stream %ld %ld %ld", &a, &b, &c) == 3) {
            read_stream(ask_for_stream(a, b, c), a, begin);
        } else if (sscanf(command, "tally %ld %ld", &a, &b) == 2) {
            tally(a, b);
        } else if (sscanf(command, "hold %ld %ld", &a, &b) == 2) {
            held = a;
            held_id = ask_for_stream(a, b, 0);
            printf("{\"ok\":true}\n");
        } else if (strcmp(command, "drain\n") == 0) {
            read_stream(held_id, held, begin);
        } else if (strcmp(command, "blocks\n") == 0) {
            count_blocks();
        } else if (strcmp(command, "other\n") == 0) {
            other();
        } else if (strcmp(command, "session\n") == 0) {
            open_session();
            printf("{\"ok\":true}\n");
        } else if (strcmp(command, "stop\n") == 0) {
            break;
        } else {
            fail(&chain, "an unknown command", "the run");
        }
        fflush(stdout);
    }
    int code = chain_stop(&chain, 3000000000LL);
    printf("{\"exit\":%d,\"left\":%s}\n", code, chain_reap(1000000000LL) ? "false" : "true");
    fflush(stdout);
    /* The caller ends what is left of the tree while we are its reaper. */
    while (fgetc(stdin) != EOF) continue;
    return 0;
}
