/* shout: makes the agent shout: what it says passes in capitals (of ASCII, this being C). */
#include "proxy.h"

static void shout(proxy_message *said) {
    span text = proxy_text(said, PATH("update", "content", "text"));
    if (!text.at) return;
    char *loud = channel_scratch(text.len);
    for (u32 i = 0; i < text.len; i++) {
        char byte = text.at[i];
        loud[i] = byte >= 'a' && byte <= 'z' ? byte - ('a' - 'A') : byte;
    }
    span changed = {loud, text.len};
    if (!text_equal(text, changed))
        proxy_set(said, PATH("update", "content", "text"), json_quote(changed));
}

PROXY({"session/update", shout, "agent_message_chunk"})
