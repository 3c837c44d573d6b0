//! Puts the date and the time in front of every prompt: agents guess them otherwise.

const guest = @import("guest");

comptime {
    guest.proxy(.{ .calls = &.{.{ .method = "session/prompt", .handler = prompt }} });
}

var warned = false;

fn prompt(message: *guest.Message) void {
    const blocks = message.get(&.{"prompt"}) orelse return;
    if (message.side != .client or message.id == null or blocks[0] != '[') return;
    message.clock(told);
}

fn told(message: *guest.Message, answer: guest.Answer) void {
    const now = answer.result() orelse return refused(answer);
    const date = text(now, "date") orelse return;
    const time = text(now, "time") orelse return;
    _ = message.preface(guest.join(&.{ "<current-date date=\"", date, "\" time=\"", time, "\"/>" }));
}

fn text(object: []const u8, name: []const u8) ?[]const u8 {
    return guest.json.decode(guest.scratch, guest.json.get(object, name) orelse return null);
}

fn refused(answer: guest.Answer) void {
    if (warned) return;
    warned = true;
    const reason = text(answer.failure() orelse "", "message") orelse "no reason given";
    const said = "datetime: no clock, prompts go on without the date: ";
    guest.log("warn", guest.join(&.{ said, reason }));
}
