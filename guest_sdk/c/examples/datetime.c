/* datetime: puts the date and the time in front of every prompt; agents guess them otherwise. */
#include "proxy.h"

static int warned;

static void told(proxy_message *said, const message *answer) {
    if (!answer->result.at) {
        span reason = json_text(json_get(answer->error, LITERAL("message")));
        if (!reason.at) reason = LITERAL("no reason given");
        span what = LITERAL("datetime: clock not granted, prompts go on without the date: ");
        if (!warned) proxy_log("warn", JOIN(what, reason));
        warned = 1;
        return;
    }
    span date = json_text(json_get(answer->result, LITERAL("date")));
    span time = json_text(json_get(answer->result, LITERAL("time")));
    if (!date.at || !time.at) return;
    span block = JOIN(LITERAL("<current-date date=\""), date, LITERAL("\" time=\""), time,
                      LITERAL("\"/>"));
    proxy_preface(said, block);
}

static void prompt(proxy_message *said) {
    span blocks = proxy_get(said, PATH("prompt"));
    if (said->side == 'p' && said->id.at && blocks.at && *blocks.at == '[') proxy_clock(said, told);
}

PROXY({"session/prompt", prompt})
