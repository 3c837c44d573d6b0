/* channel.h: the channel ABI `channel/1` for proxies written in freestanding C.
 *
 * Include it in exactly one source file, define channel_on_line(), build for
 * wasm32-freestanding (README.md in this folder has the command) and the result
 * is a module with no imports that exports what docs/architecture.md#the-channel asks for.
 *
 * The library calls channel_on_line() for every line delivered, in order. A line that
 * channel_on_line() does not forward is thereby dropped. Within channel_on_line():
 *
 *   channel_forward()      passes the current line on to the other side as it is
 *   channel_begin(side)    starts a line of one's own towards 'p', 's' or 'c'
 *   channel_put(...)       adds bytes to it (also _text, _u32)
 *   channel_end()          completes it
 *
 * Memory is four regions in a row, each growing in place by moving those above:
 *
 *   inbox    the lines delivered             bytes stay put during a delivery
 *   scratch  channel_scratch(), emptied at   bytes stay put during a delivery
 *            every delivery
 *   keep     channel_keep(), survives        moves when it or scratch grows:
 *            deliveries                      hold offsets, not pointers
 *   outbox   what channel_put() collects     never pointed to by the author
 *
 * Growing in place wastes next to nothing: the memory of a guest is the sum of
 * the largest each region ever was, whatever the number of deliveries. A region that
 * cannot grow (the host's limit is reached) traps, which the host reports.
 */
#ifndef CHANNEL_H
#define CHANNEL_H

#include <stdint.h>
#include <wasm_simd128.h>

/* Some bytes of a text: not terminated by a zero, absent when `at` is 0. */
typedef struct {
    const char *at;
    uint32_t len;
} channel_span;

/* The author's part: one line, without its side byte and its newline. `side` is
 * where it came from: 'p' the predecessor (towards the editor), 's' the
 * successor (towards the agent), 'c' the conductor itself. */
static void channel_on_line(char side, channel_span json);

/* A span of a string literal. */
#define CHANNEL_LITERAL(text) ((channel_span){(text), sizeof(text) - 1})

enum { CHANNEL_INBOX, CHANNEL_SCRATCH, CHANNEL_KEEP, CHANNEL_OUTBOX, CHANNEL_REGIONS };

typedef struct {
    char *base;
    uint32_t capacity; /* bytes the region owns */
    uint32_t used;     /* bytes that must survive a move */
} channel_region;

static struct {
    channel_region region[CHANNEL_REGIONS];
    char *line;      /* the line being handled, at its side byte */
    uint32_t line_length; /* with side byte and newline */
    uint32_t placed;      /* bytes of the inbox that are, flipped in place, the outbox */
    uint32_t serial;      /* number of this delivery, from 1 */
    uint8_t spilled;      /* the outbox is the region, no longer the inbox */
} channel;

extern char __heap_base[];

/* Regions grow by multiples of this, which keeps their starts aligned. */
#define CHANNEL_GRAIN 256u
#define CHANNEL_PAGE 65536u
/* The most a region grows beyond what is needed. */
#define CHANNEL_SLACK (1u << 20)

static inline void channel_copy(char *to, const char *from, uint32_t length) {
    __builtin_memcpy(to, from, length);
}

/* Makes room for `need` bytes in a region; what it and those above hold in use
 * is preserved. */
__attribute__((noinline)) static void channel_grow(int index, uint64_t need) {
    channel_region *region = channel.region;
    if (need <= region[index].capacity) return;
    if (!region[0].base)
        for (int i = 0; i < CHANNEL_REGIONS; i++)
            region[i].base = (char *)(((uint32_t)__heap_base + CHANNEL_GRAIN - 1) & -CHANNEL_GRAIN);

    const channel_region *last = &region[CHANNEL_REGIONS - 1];
    uint64_t top = (uint64_t)(uint32_t)last->base + last->capacity;
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) * CHANNEL_PAGE;
    /* Some slack spares what grows piece by piece later moves, if there is room for it. */
    uint32_t slack = region[index].capacity / 2 < CHANNEL_SLACK ? region[index].capacity / 2
                                                           : CHANNEL_SLACK;
    uint64_t wish = (uint64_t)region[index].capacity + (index == CHANNEL_INBOX ? 0 : slack);
    for (int attempt = 0; attempt < 2; attempt++) {
        uint64_t size = attempt || wish < need ? need : wish;
        uint64_t delta =
            (size - region[index].capacity + CHANNEL_GRAIN - 1) & -(uint64_t)CHANNEL_GRAIN;
        uint64_t end = top + delta;
        if (end > 0xffff0000u) continue;
        uint64_t pages = end <= have ? 0 : (end - have + CHANNEL_PAGE - 1) / CHANNEL_PAGE;
        if (pages && __builtin_wasm_memory_grow(0, (uint32_t)pages) == (uint32_t)-1) continue;
        for (int i = CHANNEL_REGIONS - 1; i > index; i--) {
            if (region[i].used)
                __builtin_memmove(region[i].base + delta, region[i].base, region[i].used);
            region[i].base += delta;
        }
        region[index].capacity += (uint32_t)delta;
        return;
    }
    __builtin_trap();
}

/* `size` bytes until the end of this delivery. Successive calls answer successive
 * bytes, so a text of unknown length can be built piece by piece. */
__attribute__((unused)) static char *channel_scratch(uint32_t size) {
    channel_region *scratch = &channel.region[CHANNEL_SCRATCH];
    channel_grow(CHANNEL_SCRATCH, (uint64_t)scratch->used + size);
    char *at = scratch->base + scratch->used;
    scratch->used += size;
    return at;
}

/* The kept region, made `size` bytes long; what it held up to there is intact. */
__attribute__((unused)) static char *channel_keep(uint64_t size) {
    channel_grow(CHANNEL_KEEP, size);
    channel.region[CHANNEL_KEEP].used = (uint32_t)size;
    return channel.region[CHANNEL_KEEP].base;
}

/* Room for `more` bytes at the end of the outbox. The lines forwarded so far were
 * flipped where they lay; anything else to send brings them to the outbox. */
__attribute__((unused)) static char *channel_room(uint32_t more) {
    channel_region *out = &channel.region[CHANNEL_OUTBOX];
    uint32_t before = channel.spilled ? 0 : channel.placed;
    channel_grow(CHANNEL_OUTBOX, (uint64_t)out->used + before + more);
    if (!channel.spilled) {
        channel_copy(out->base, channel.region[CHANNEL_INBOX].base, before);
        out->used = before;
        channel.spilled = 1;
    }
    char *at = out->base + out->used;
    out->used += more;
    return at;
}

__attribute__((unused, noinline)) static void channel_put(channel_span bytes) {
    channel_copy(channel_room(bytes.len), bytes.at, bytes.len);
}

/* Starts a line of one's own; what follows by channel_put() must be one JSON text
 * without a newline. */
__attribute__((unused)) static void channel_begin(char side) {
    channel_put((channel_span){&side, 1});
}

__attribute__((unused)) static void channel_end(void) { channel_put(CHANNEL_LITERAL("\n")); }

/* Adds a number in decimal. */
__attribute__((unused)) static void channel_put_u32(uint32_t value) {
    char digits[10];
    uint32_t at = sizeof digits;
    do digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    channel_put((channel_span){digits + at, (uint32_t)sizeof digits - at});
}

/* Sends a whole line at once. */
__attribute__((unused)) static void channel_send(char side, channel_span json) {
    channel_begin(side);
    channel_put(json);
    channel_end();
}

/* Passes the current line on: from p to s, from s to p. A line of the conductor's
 * has no other side and stays here. */
__attribute__((unused)) static void channel_forward(void) {
    char *line = channel.line, side = line[0];
    if (side != 'p' && side != 's') return;
    char other = side == 'p' ? 's' : 'p';
    if (!channel.spilled && line == channel.region[CHANNEL_INBOX].base + channel.placed) {
        line[0] = other;
        channel.placed += channel.line_length;
        return;
    }
    char *at = channel_room(channel.line_length);
    channel_copy(at, line, channel.line_length);
    at[0] = other;
}

/* The first newline at or after `at`; there must be one, and 63 readable bytes
 * behind it, which the inbox guarantees. */
static inline char *channel_newline(char *at) {
    const v128_t newline = wasm_i8x16_splat('\n');
    for (;; at += 64) {
        v128_t a = wasm_i8x16_eq(wasm_v128_load(at), newline);
        v128_t b = wasm_i8x16_eq(wasm_v128_load(at + 16), newline);
        v128_t c = wasm_i8x16_eq(wasm_v128_load(at + 32), newline);
        v128_t d = wasm_i8x16_eq(wasm_v128_load(at + 48), newline);
        if (!wasm_v128_any_true(wasm_v128_or(wasm_v128_or(a, b), wasm_v128_or(c, d)))) continue;
        uint64_t low = wasm_i8x16_bitmask(a) | (uint32_t)wasm_i8x16_bitmask(b) << 16;
        uint64_t high = wasm_i8x16_bitmask(c) | (uint32_t)wasm_i8x16_bitmask(d) << 16;
        return at + __builtin_ctzll(low | high << 32);
    }
}

__attribute__((export_name("channel_abi"))) int channel_abi(void) { return 1; }

/* A buffer for the `len` bytes of the next delivery. Calling it ends the life of
 * the last outbox. */
__attribute__((export_name("channel_reserve"))) char *channel_reserve(uint32_t len) {
    channel.region[CHANNEL_OUTBOX].used = 0;
    channel.region[CHANNEL_SCRATCH].used = 0;
    /* One byte for a newline the host may have left out, the rest for reading ahead. */
    channel_grow(CHANNEL_INBOX, (uint64_t)len + 64);
    channel.region[CHANNEL_INBOX].used = len;
    return channel.region[CHANNEL_INBOX].base;
}

/* Handles the lines in the buffer last reserved; the answer is `ptr << 32 | len`
 * of the outbox, valid until the next call. */
__attribute__((export_name("channel_deliver"))) uint64_t channel_deliver(char *ptr, uint32_t len) {
    channel_region *in = &channel.region[CHANNEL_INBOX], *out = &channel.region[CHANNEL_OUTBOX];
    if (ptr != in->base || len > in->used) __builtin_trap();
    out->used = channel.region[CHANNEL_SCRATCH].used = 0;
    channel.placed = channel.spilled = 0;
    channel.serial++;
    if (len && ptr[len - 1] != '\n') ptr[len++] = '\n';
    for (char *at = ptr, *end = ptr + len; at < end;) {
        char *newline = channel_newline(at);
        channel.line = at;
        channel.line_length = (uint32_t)(newline + 1 - at);
        /* A side byte alone is no message; hosts refuse it, so it goes no further. */
        if (newline > at + 1)
            channel_on_line(*at, (channel_span){at + 1, (uint32_t)(newline - at - 1)});
        at = newline + 1;
    }
    if (channel.spilled) return (uint64_t)(uint32_t)out->base << 32 | out->used;
    return (uint64_t)(uint32_t)ptr << 32 | channel.placed;
}

#endif
