//! A request or notification in a handler's hands, and the answers it waits for.

const std = @import("std");
const channel = @import("channel.zig");
const json = @import("json.zig");
const walk = @import("walk.zig");

const Side = channel.Side;
const gpa = channel.gpa;
const join = channel.join;
const notify = channel.notify;
const scratch = channel.scratch;
const write = channel.write;
const Head = walk.Head;
const Lane = walk.Lane;
const cancel = walk.cancel;

/// Called with a message: a request or a notification.
pub const Handler = *const fn (message: *Message) void;
/// Called with the answer to what the message asked for, or was passed on for.
pub const Then = *const fn (message: *Message, answer: Answer) void;

/// An answer as it came; raw JSON.
pub const Answer = struct {
    text: []const u8,

    pub fn result(self: Answer) ?[]const u8 {
        return json.get(self.text, "result");
    }

    pub fn failure(self: Answer) ?[]const u8 {
        return json.get(self.text, "error");
    }
};

/// A block of a prompt.
pub fn textBlock(text: []const u8) []const u8 {
    return join(&.{ "{\"type\":\"text\",\"text\":", json.quote(scratch, text), "}" });
}

/// Whether a text begins so that no agent takes it for a command; what is no text does.
fn isPlain(text: ?[]const u8) bool {
    const value = text orelse return true;
    if (!json.isString(value)) return true;
    return switch (value[1]) {
        '\\' => value[2] == '"',
        ' ', '/', '$', '!', '#', ':', '@', '&', '~', '%', '^', '*', '+', '-', '.', '?', 0x7f => false,
        // What is not seen, and what looks like a mark, is among what begins so.
        0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf3 => false,
        else => true,
    };
}

/// Whether a prompt begins with a text that no agent takes for a command, or has none. A command must
/// begin its prompt, and agents have marks of their own for them. What comes with it before its first
/// text counts too: some agents read that first. A skill is a command in a block of its own.
fn beginsPlainly(prompt: []const u8) bool {
    var at = json.space(prompt, 1);
    while (prompt[at] != ']') {
        const end = json.skip(prompt, at) orelse return false;
        const block = prompt[at..end];
        const text = json.get(block, "text");
        if (!isPlain(text) or !isPlain(json.find(block, &.{ "resource", "text" }))) return false;
        if (json.get(block, "type")) |kind| {
            if (json.is(kind, "skill")) return false;
            if (text) |said| if (json.isString(said) and said.len > 2 and json.is(kind, "text")) return true;
        }
        at = json.space(prompt, end);
        if (prompt[at] == ',') at = json.space(prompt, at + 1);
    }
    return true;
}

/// A request or notification in a handler's hands.
pub const Message = struct {
    side: Side,
    text: []u8,
    /// The raw id; null for a notification.
    id: ?[]const u8,
    lane: ?*Lane = null,
    settled: bool = false,
    passed: bool = false,
    /// What it came to when it was passed on.
    answered: ?[]u8 = null,
    waits: u32 = 0,
    /// The author's own, to tell one message from another.
    tag: usize = 0,

    /// The raw JSON of what is there in `params`.
    pub fn get(self: *const Message, path: []const []const u8) ?[]const u8 {
        return json.find(json.get(self.text, "params") orelse return null, path);
    }

    /// A text in `params`, decoded, for the length of this delivery; null if it is none.
    pub fn getText(self: *const Message, path: []const []const u8) ?[]u8 {
        return json.decode(scratch, self.get(path) orelse return null);
    }

    /// Replaces a value in `params` by raw JSON. False if there is none.
    pub fn set(self: *Message, path: []const []const u8, value: []const u8) bool {
        const old = self.get(path) orelse return false;
        self.splice(json.offset(self.text, old), old.len, &.{value});
        return true;
    }

    /// The same with a text.
    pub fn setText(self: *Message, path: []const []const u8, text: []const u8) bool {
        return self.set(path, json.quote(scratch, text));
    }

    /// Puts raw JSON in front of the elements of an array in `params`. False if there is none.
    pub fn prepend(self: *Message, path: []const []const u8, element: []const u8) bool {
        const array = self.get(path) orelse return false;
        if (array[0] != '[') return false;
        const comma: []const u8 = if (array[json.space(array, 1)] == ']') "" else ",";
        self.splice(json.offset(self.text, array) + 1, 0, &.{ element, comma });
        return true;
    }

    /// Puts a text in front of a prompt; behind one that may be a command, on a line of its own. False
    /// if there is no prompt.
    pub fn preface(self: *Message, text: []const u8) bool {
        const prompt = self.get(&.{"prompt"}) orelse return false;
        if (prompt[0] != '[') return false;
        if (beginsPlainly(prompt)) return self.prepend(&.{"prompt"}, textBlock(text));
        const end = json.offset(self.text, prompt) + prompt.len - 1;
        self.splice(end, 0, &.{ ",", textBlock(join(&.{ "\n", text })) });
        return true;
    }

    fn splice(self: *Message, at: usize, len: usize, parts: []const []const u8) void {
        const old = self.text;
        const middle = join(parts);
        self.text = std.mem.concat(gpa, u8, &.{ old[0..at], middle, old[at + len ..] }) catch @trap();
        gpa.free(old);
        if (self.id != null) self.id = json.get(self.text, "id");
    }

    /// Whether nobody wants the answer any more, said before it was passed on: the client has
    /// cancelled the request, or the turn it begins. What was asked for it is cancelled then by itself.
    pub fn cancelled(self: *const Message) bool {
        const lane = self.lane orelse return false;
        if (lane.side != self.side) return false;
        for (lane.queue.items) |text| if (self.isTakenBack(text)) return true;
        return false;
    }

    pub fn isTakenBack(self: *const Message, text: []const u8) bool {
        const id = self.id orelse return false;
        const head = Head.read(text) orelse return false;
        const method = head.method orelse return false;
        if (json.is(method, "session/cancel")) {
            if (self.side != .client) return false;
            const own = (Head.read(self.text) orelse return false).method orelse return false;
            return json.is(own, "session/prompt");
        }
        if (!json.is(method, cancel)) return false;
        return std.mem.eql(u8, id, json.get(head.params orelse return false, "requestId") orelse return false);
    }

    /// Drops the cancellations of it that wait: they are about nothing any more.
    fn forgetCancels(self: *Message) void {
        const lane = self.lane orelse return;
        if (lane.side != self.side) return;
        var at: usize = 0;
        while (at < lane.queue.items.len) {
            const text = lane.queue.items[at];
            const head = Head.read(text) orelse unreachable;
            const about = if (head.method) |method| json.is(method, cancel) else false;
            if (about and self.isTakenBack(text)) gpa.free(lane.queue.orderedRemove(at)) else at += 1;
        }
    }

    /// Cancels what was asked for it.
    pub fn withdraw(self: *Message) void {
        for (walk.pending.items) |*one| {
            if (one.message != self or one.passed or one.withdrawn or one.side == .conductor) continue;
            one.withdrawn = true;
            notify(one.side, cancel, join(&.{ "{\"requestId\":", one.id, "}" }));
        }
    }

    /// Passes it on as it is now. With `then` the answer is handed to that first: it goes back as it
    /// came, unless that calls `answer` or `fail`.
    pub fn next(self: *Message, then: ?Then) void {
        if (self.settled or self.passed) return;
        if (self.side == .conductor) return self.drop();
        write(self.side.other(), &.{self.text});
        if (then) |callback| if (self.id) |id| {
            self.passed = true;
            self.expect(self.side.other(), id, callback, true);
            return self.release();
        };
        self.settle();
    }

    /// Answers a request with raw JSON.
    pub fn answer(self: *Message, result: []const u8) void {
        self.reply("\"result\":", result);
    }

    /// Answers a request with an error.
    pub fn fail(self: *Message, code: i32, text: []const u8) void {
        var digits: [12]u8 = undefined;
        const number = std.fmt.bufPrint(&digits, "{d}", .{code}) catch unreachable;
        self.reply("\"error\":", join(&.{ "{\"code\":", number, ",\"message\":", json.quote(scratch, text), "}" }));
    }

    /// Passes an answer back as it came.
    pub fn pass(self: *Message, given: Answer) void {
        if (self.settled) return;
        write(self.side, &.{given.text});
        self.settle();
    }

    /// Lets a notification go no further. A request has to be answered, so this fails it.
    pub fn drop(self: *Message) void {
        if (self.id != null) return self.fail(-32601, "Method not found");
        self.settle();
    }

    fn reply(self: *Message, member: []const u8, value: []const u8) void {
        if (self.settled) return;
        self.forgetCancels();
        if (self.id) |id| write(self.side, &.{ "{\"jsonrpc\":\"2.0\",\"id\":", id, ",", member, value, "}" });
        self.settle();
    }

    /// Sends a request of one's own, `params` as raw JSON; the message waits for the answer.
    pub fn ask(self: *Message, side: Side, method: []const u8, params: ?[]const u8, then: Then) void {
        const index: usize = switch (side) {
            .client => 0,
            .agent => 1,
            .conductor => 2,
        };
        walk.last_id[index] += 1;
        var digits: [16]u8 = undefined;
        // The conductor's ids are integers, so on its sides ours are strings.
        const format = .{walk.last_id[index]};
        const id = if (side == .conductor)
            std.fmt.bufPrint(&digits, "{d}", format) catch unreachable
        else
            std.fmt.bufPrint(&digits, "\"x{d}\"", format) catch unreachable;
        self.expect(side, id, then, false);
        const given: []const u8 = if (params) |raw| join(&.{ ",\"params\":", raw }) else "";
        write(side, &.{ "{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"method\":", json.quote(scratch, method), given, "}" });
    }

    /// Asks the conductor what time it is.
    pub fn clock(self: *Message, then: Then) void {
        self.ask(.conductor, "clock", null, then);
    }

    fn expect(self: *Message, side: Side, id: []const u8, then: Then, passed: bool) void {
        self.waits += 1;
        const own = gpa.dupe(u8, id) catch @trap();
        walk.pending.append(gpa, .{ .side = side, .id = own, .message = self, .then = then, .passed = passed }) catch @trap();
    }

    fn settle(self: *Message) void {
        self.settled = true;
        self.release();
    }

    fn release(self: *Message) void {
        if (self.lane) |lane| lane.holder = null;
        self.lane = null;
    }

    /// After its handler: what was decided, and what is left to wait for.
    pub fn finish(self: *Message) void {
        if (!self.settled and self.waits == 0) {
            if (self.answered) |text| self.pass(.{ .text = text }) else self.next(null);
        }
        if (!self.settled or self.waits > 0) return;
        if (self.answered) |text| gpa.free(text);
        gpa.free(self.text);
        gpa.destroy(self);
    }
};
