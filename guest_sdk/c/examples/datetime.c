/* datetime: puts the date and the time in front of every prompt; agents guess them otherwise. */
#include "proxy.h"

static int warned;

static void told(proxy_message *said, const message_line *answer) {
    if (!answer->result.at) {
        channel_span reason = json_text(json_get(answer->error, CHANNEL_LITERAL("message")));
        if (!reason.at) reason = CHANNEL_LITERAL("no reason given");
        channel_span what =
            CHANNEL_LITERAL("datetime: no clock, prompts go on without the date: ");
        if (!warned) proxy_log("warn", TEXT_JOIN(what, reason));
        warned = 1;
        return;
    }
    channel_span date = json_text(json_get(answer->result, CHANNEL_LITERAL("date")));
    channel_span time = json_text(json_get(answer->result, CHANNEL_LITERAL("time")));
    if (!date.at || !time.at) return;
    channel_span block = TEXT_JOIN(CHANNEL_LITERAL("<current-date date=\""), date,
                                   CHANNEL_LITERAL("\" time=\""), time, CHANNEL_LITERAL("\"/>"));
    proxy_preface(said, block);
}

static void prompt(proxy_message *said) {
    channel_span blocks = proxy_get(said, TEXT_PATH("prompt"));
    if (said->side == 'p' && said->id.at && blocks.at && *blocks.at == '[') proxy_clock(said, told);
}

PROXY({"session/prompt", prompt})
