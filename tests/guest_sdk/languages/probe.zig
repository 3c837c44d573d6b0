//! The proxy that probe.txt describes.

const guest = @import("guest");

pub const panic = guest.panic;

comptime {
    guest.proxy(.{ .calls = &.{
        .{ .method = "configure", .handler = configure },
        .{ .method = "session/new", .handler = new },
        .{ .method = "_probe/fault", .handler = faulty },
        .{ .method = "session/list", .handler = list },
        .{ .method = "session/delete", .handler = delete },
        .{ .method = "session/prompt", .handler = prompt },
        .{ .method = "session/fork", .handler = fork },
        .{ .method = "_probe/ask", .handler = ask },
        .{ .method = "session/update", .update = "plan", .handler = plan },
        .{ .method = "session/update", .update = "usage_update", .handler = usage },
        .{ .method = "timer/fired", .handler = fired },
    } });
}

fn configure(message: *guest.Message) void {
    const kept = message.get(&.{"kept"}) orelse return;
    guest.notify(.conductor, "keep", guest.join(&.{ "{\"b\":", kept, "}" }));
}

fn new(message: *guest.Message) void {
    message.next(made);
}

fn made(message: *guest.Message, answer: guest.Answer) void {
    const result = answer.result() orelse return;
    message.answer(guest.join(&.{ "{\"wrapped\":", result, "}" }));
}

fn list(message: *guest.Message) void {
    message.answer("{\"sessions\":[]}");
}

fn delete(message: *guest.Message) void {
    message.fail(-32001, guest.join(&.{ "never ", message.get(&.{"sessionId"}).? }));
}

fn prompt(message: *guest.Message) void {
    const word = guest.setting("word") orelse "null";
    message.ask(.agent, "_probe/warm", guest.join(&.{ "{\"word\":", word, "}" }), warm);
}

fn warm(message: *guest.Message, answer: guest.Answer) void {
    _ = answer;
    message.next(null);
}

fn fork(message: *guest.Message) void {
    message.ask(.agent, "_probe/slow", null, slow);
}

fn slow(message: *guest.Message, answer: guest.Answer) void {
    _ = answer;
    if (message.cancelled()) message.fail(-32800, "Request cancelled");
}

fn ask(message: *guest.Message) void {
    message.ask(.conductor, "kv/get", "{\"key\":\"k\"}", told);
}

fn told(message: *guest.Message, answer: guest.Answer) void {
    message.answer(guest.json.get(answer.result() orelse return, "value") orelse "null");
}

fn faulty(_: *guest.Message) void {
    @panic("wrong on purpose");
}

fn plan(message: *guest.Message) void {
    message.drop();
}

fn usage(message: *guest.Message) void {
    message.ask(.conductor, "kv/get", "{\"key\":\"k\"}", warm);
}

fn fired(message: *guest.Message) void {
    _ = message;
    guest.notify(.client, "_probe/fired", "{\"n\":1.0}");
    guest.log("info", "fired");
}
