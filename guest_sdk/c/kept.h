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
typedef void proxy_then(proxy_message *said, const message *answer);

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
    u32 length;
    u8 kind;
    char side;
    u8 passed; /* the message itself was passed on, or: its answer is owed to the other side */
    u8 done;   /* a message: it was answered; an answer: it was given up */
    u32 number; /* of the message, or lane */
    u32 lane;   /* a message: the lane it holds up; a line: the one it waits in */
    u32 holder; /* a lane: the message that holds it up */
    u32 tag;
    proxy_then *then;
} kept;

static struct {
    u32 end;      /* of the records, and how many bytes of them are free */
    u32 free;
    u32 count[KEPT_SETTINGS + 1];
    u32 numbers;
} keeper;

static inline kept *kept_at(u32 offset) {
    return (kept *)(channel.region[REGION_KEEP].base + offset);
}

static inline u32 kept_size(u32 length) { return (u32)sizeof(kept) + ((length + 3) & ~3u); }

static inline span kept_text(const kept *record) {
    return (span){(const char *)(record + 1), record->length};
}

/* The next record of a kind from an offset on, which is moved behind it; 0: none. */
static kept *kept_next(u32 *offset, u8 kind) {
    if (!keeper.count[kind]) return 0;
    while (*offset < keeper.end) {
        kept *record = kept_at(*offset);
        *offset += kept_size(record->length);
        if (record->kind == kind) return record;
    }
    return 0;
}

/* The record of a kind with a number; 0: none. */
static kept *kept_find(u8 kind, u32 number) {
    u32 offset = 0;
    kept *record;
    while ((record = kept_next(&offset, kind)) && record->number != number) {}
    return record;
}

/* Keeps a text. Records stay where they are, so the text may be one of theirs. */
static kept *kept_push(u8 kind, char side, span text) {
    u64 end = (u64)keeper.end + kept_size(text.len);
    if (end > 0xffff0000u) __builtin_trap();
    channel_keep(end);
    kept *record = kept_at(keeper.end);
    *record = (kept){.length = text.len, .kind = kind, .side = side};
    channel_copy((char *)(record + 1), text.at, text.len);
    keeper.end = (u32)end;
    keeper.count[kind]++;
    return record;
}

static void kept_drop(kept *record) {
    keeper.count[record->kind]--;
    keeper.free += kept_size(record->length);
    record->kind = KEPT_FREE;
}

/* Moves the records together once half of the room is free. */
static void kept_tidy(void) {
    if (keeper.free < keeper.end / 2 || !keeper.free) return;
    u32 to = 0;
    for (u32 at = 0, size; at < keeper.end; at += size) {
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
