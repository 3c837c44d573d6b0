/* shout: makes the agent shout: what it says passes in capitals (of ASCII, this being C). */
#include "proxy.h"

static void shout(proxy_message *said) {
    channel_span text = proxy_text(said, TEXT_PATH("update", "content", "text"));
    if (!text.at) return;
    char *loud = channel_scratch(text.len);
    for (uint32_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        loud[i] = byte >= 'a' && byte <= 'z' ? byte - ('a' - 'A') : byte;
    }
    channel_span changed = {loud, text.len};
    if (!text_equal(text, changed))
        proxy_set(said, TEXT_PATH("update", "content", "text"), json_quote(changed));
}

PROXY({"session/update", shout, "agent_message_chunk"})
