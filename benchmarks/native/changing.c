/* The guest of the chains that change every prompt: it puts a block in front of it. */
#include "proxy.h"

static void prompt(proxy_message *said) {
    proxy_preface(said, CHANNEL_LITERAL("Answer briefly."));
}

PROXY({"session/prompt", prompt, 0})
