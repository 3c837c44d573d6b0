/* kept.h: what survives a delivery, one record behind the other in the kept region.
 *
 * Records are known by their numbers. Pointers to them hold until something is kept, or
 * channel_scratch() is called. */
#ifndef KEPT_H
#define KEPT_H

#include "message.h"
#include "text.h"

typedef struct proxy_message proxy_message;
/* Called with the answer to what a message asked for, or was passed on for. */
typedef void proxy_then(proxy_message *said, const message_line *answer);

enum {
    KEPT_FREE,
    KEPT_MESSAGE,  /* in a handler's hands, waiting; the text is its line */
    KEPT_ANSWER,   /* what a message that was passed on came to */
    KEPT_AWAITED,  /* an answer a message waits for; the text is the request's id */
    KEPT_LANE,     /* messages of one session and side, in order; the text is the session */
    KEPT_LINE,     /* a line that waits in a lane */
    KEPT_SETTINGS, /* the last `configure` */
};

/* One record; its text follows, padded to a multiple of four. */
typedef struct {
    uint32_t length;
    uint8_t kind;
    char side;
    uint8_t passed; /* the message itself was passed on, or: its answer is owed to the other side */
    uint8_t done;   /* a message: it was answered; an answer: it was given up */
    uint32_t number; /* of the message, or lane */
    uint32_t lane;   /* a message: the lane it holds up; a line: the one it waits in */
    uint32_t holder; /* a lane: the message that holds it up */
    uint32_t tag;
    proxy_then *then;
} kept_record;

static struct {
    uint32_t end;      /* of the records, and how many bytes of them are free */
    uint32_t free;
    uint32_t count[KEPT_SETTINGS + 1];
    uint32_t numbers;
} keeper;

static inline kept_record *kept_at(uint32_t offset) {
    return (kept_record *)(channel.region[CHANNEL_KEEP].base + offset);
}

static inline uint32_t kept_size(uint32_t length) {
    return (uint32_t)sizeof(kept_record) + ((length + 3) & ~3u);
}

static inline channel_span kept_text(const kept_record *record) {
    return (channel_span){(const char *)(record + 1), record->length};
}

/* The next record of a kind from an offset on, which is moved behind it; 0: none. */
static kept_record *kept_next(uint32_t *offset, uint8_t kind) {
    if (!keeper.count[kind]) return 0;
    while (*offset < keeper.end) {
        kept_record *record = kept_at(*offset);
        *offset += kept_size(record->length);
        if (record->kind == kind) return record;
    }
    return 0;
}

/* The record of a kind with a number; 0: none. */
static kept_record *kept_find(uint8_t kind, uint32_t number) {
    uint32_t offset = 0;
    kept_record *record;
    while ((record = kept_next(&offset, kind)) && record->number != number) {}
    return record;
}

/* Keeps a text. Records stay where they are, so the text may be one of theirs. */
static kept_record *kept_push(uint8_t kind, char side, channel_span text) {
    uint64_t end = (uint64_t)keeper.end + kept_size(text.len);
    if (end > 0xffff0000u) __builtin_trap();
    channel_keep(end);
    kept_record *record = kept_at(keeper.end);
    *record = (kept_record){.length = text.len, .kind = kind, .side = side};
    channel_copy((char *)(record + 1), text.at, text.len);
    keeper.end = (uint32_t)end;
    keeper.count[kind]++;
    return record;
}

static void kept_drop(kept_record *record) {
    keeper.count[record->kind]--;
    keeper.free += kept_size(record->length);
    record->kind = KEPT_FREE;
}

/* Moves the records together once half of the room is free. */
static void kept_tidy(void) {
    if (keeper.free < keeper.end / 2 || !keeper.free) return;
    uint32_t to = 0;
    for (uint32_t at = 0, size; at < keeper.end; at += size) {
        size = kept_size(kept_at(at)->length);
        if (kept_at(at)->kind == KEPT_FREE) continue;
        __builtin_memmove(kept_at(to), kept_at(at), size);
        to += size;
    }
    keeper.end = to;
    keeper.free = 0;
    channel_keep(to);
}

#endif
