/* queue.h: lines held back until the clock has answered, in order.
 *
 * The queue lies in the kept region: records one behind the other between two
 * offsets, moved to the front when at least half of the room before them is free,
 * so that a queue which never runs quite empty does not grow either. */
#ifndef QUEUE_H
#define QUEUE_H

#include "channel.h"

/* One line; its bytes follow, padded to a multiple of four. */
typedef struct {
    uint32_t length;
    uint32_t ask;    /* the clock request it waits for, 0: it waits for nothing itself */
    uint32_t splice; /* a prompt: where in it the block goes in */
} held;

static struct {
    uint32_t head, tail;
} queue;

static inline int queue_empty(void) { return queue.head == queue.tail; }

static inline held *queue_at(uint32_t offset) {
    return (held *)(channel.region[CHANNEL_KEEP].base + offset);
}

static inline uint32_t queue_next(uint32_t offset) {
    return offset + (uint32_t)sizeof(held) + ((queue_at(offset)->length + 3) & ~3u);
}

static inline channel_span queue_line(const held *record) {
    return (channel_span){(const char *)(record + 1), record->length};
}

static void queue_push(channel_span json, uint32_t ask, uint32_t splice) {
    uint64_t end = (uint64_t)queue.tail + sizeof(held) + (((uint64_t)json.len + 3) & ~3ull);
    if (end > channel.region[CHANNEL_KEEP].capacity && queue.head >= queue.tail / 2) {
        char *base = channel.region[CHANNEL_KEEP].base;
        __builtin_memmove(base, base + queue.head, queue.tail - queue.head);
        end -= queue.head;
        queue.tail -= queue.head;
        queue.head = 0;
    }
    channel_keep(end);
    held *record = queue_at(queue.tail);
    *record = (held){json.len, ask, splice};
    channel_copy((char *)(record + 1), json.at, json.len);
    queue.tail = (uint32_t)end;
}

static void queue_pop(void) {
    queue.head = queue_next(queue.head);
    if (!queue_empty()) return;
    queue.head = queue.tail = 0;
    channel_keep(0);
}

#endif
