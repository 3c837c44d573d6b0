//! A library for proxies in Zig, on `channel/1` (docs/channel-abi.md). No imports, no libc.
//!
//!     const guest = @import("guest");
//!
//!     comptime {
//!         guest.proxy(.{ .calls = &.{.{ .method = "session/prompt", .handler = prompt }} });
//!     }
//!
//!     fn prompt(message: *guest.Message) void {
//!         _ = message.prepend(&.{"prompt"}, "{\"type\":\"text\",\"text\":\"Answer in French.\"}");
//!         message.next(null);
//!     }
//!
//! What has no handler passes, byte for byte. A message that a handler neither passed on, answered,
//! dropped nor asked something for is passed on. While one waits for an answer, later messages of
//! its session and direction wait behind it; answers of the client's never do.

const std = @import("std");
pub const json = @import("json.zig");

pub const Side = enum(u8) {
    client = 'p',
    agent = 's',
    conductor = 'c',

    fn other(side: Side) Side {
        return if (side == .client) .agent else .client;
    }
};

/// Called with a message: a request or a notification.
pub const Handler = *const fn (message: *Message) void;
/// Called with the answer to what the message asked for, or was passed on for.
pub const Then = *const fn (message: *Message, answer: Answer) void;

/// What is handled: a method, and of `session/update` a kind of update.
pub const Call = struct { method: []const u8, update: ?[]const u8 = null, handler: Handler };

pub const Proxy = struct {
    calls: []const Call = &.{},
    /// Called with each `configure`; see `setting`.
    configured: ?*const fn () void = null,
};

/// For the length of one delivery; what is kept longer is copied.
pub var scratch: json.Allocator = undefined;

const gpa = std.heap.wasm_allocator;
var arena: std.heap.ArenaAllocator = .init(gpa);
var inbox: []u8 = &.{};
var outbox: std.ArrayList(u8) = .empty;
var calls: []const Call = &.{};
var on_configure: ?*const fn () void = null;
var settings: []u8 = &.{};
var lanes: std.ArrayList(*Lane) = .empty;
/// The lane whose queue is let go on, so it does not hold up what comes from there.
var open: ?*Lane = null;
var pending: std.ArrayList(Pending) = .empty;
var last_id: [3]u32 = @splat(0);

/// Who waits for which answer. `passed`: the answer is owed to the other side.
const Pending = struct { side: Side, id: []u8, message: *Message, then: Then, passed: bool };

/// The messages of one session and direction, held up by one that is being handled.
const Lane = struct {
    side: Side,
    session: []u8,
    holder: ?*Message = null,
    queue: std.ArrayList([]u8) = .empty,

    /// Whether it holds up the request of this id.
    fn has(lane: *const Lane, id: []const u8) bool {
        if (lane.holder) |holder| if (isId(holder.text, id)) return true;
        for (lane.queue.items) |text| if (isId(text, id)) return true;
        return false;
    }

    fn isId(text: []const u8, id: []const u8) bool {
        const head = Head.read(text) orelse return false;
        return head.method != null and std.mem.eql(u8, head.id orelse return false, id);
    }
};

/// Declares the proxy and exports what the host calls. In a `comptime` block, once.
pub fn proxy(comptime declared: Proxy) void {
    const exports = struct {
        fn abi() callconv(.c) u32 {
            calls = declared.calls;
            on_configure = declared.configured;
            scratch = arena.allocator();
            return 1;
        }
    };
    @export(&exports.abi, .{ .name = "channel_abi" });
    @export(&reserve, .{ .name = "channel_reserve" });
    @export(&deliver, .{ .name = "channel_deliver" });
}

fn reserve(len: u32) callconv(.c) [*]u8 {
    if (inbox.len < len) {
        gpa.free(inbox);
        inbox = &.{};
        inbox = gpa.alloc(u8, len) catch @trap();
    }
    return inbox.ptr;
}

fn deliver(at: [*]u8, len: u32) callconv(.c) u64 {
    outbox.clearRetainingCapacity();
    var lines = std.mem.splitScalar(u8, at[0..len], '\n');
    while (lines.next()) |line| if (line.len > 1) {
        receive(@fromBackingInt(@intCast(line[0])), line[1..]);
        drain();
    };
    _ = arena.reset(.retain_capacity);
    return @as(u64, @intFromPtr(outbox.items.ptr)) << 32 | outbox.items.len;
}

/// The raw JSON of a setting, the user's choice; null if it was not made.
pub fn setting(name: []const u8) ?[]const u8 {
    return json.find(settings, &.{ "params", "config", name });
}

/// Sends a notification of one's own, `params` as raw JSON.
pub fn notify(side: Side, method: []const u8, params: []const u8) void {
    write(side, &.{ "{\"jsonrpc\":\"2.0\",\"method\":", json.quote(scratch, method), ",\"params\":", params, "}" });
}

/// Writes to the conductor's log: `debug`, `info`, `warn` or `error`.
pub fn log(level: []const u8, text: []const u8) void {
    const parts = [_][]const u8{
        "{\"level\":", json.quote(scratch, level), ",\"message\":", json.quote(scratch, text), "}",
    };
    notify(.conductor, "log", join(&parts));
}

/// Texts put together, for the length of this delivery.
pub fn join(parts: []const []const u8) []u8 {
    return std.mem.concat(scratch, u8, parts) catch @trap();
}

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

/// A request or notification in a handler's hands.
pub const Message = struct {
    side: Side,
    text: []u8,
    /// The raw id; null for a notification.
    id: ?[]const u8,
    lane: ?*Lane = null,
    settled: bool = false,
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

    fn splice(self: *Message, at: usize, len: usize, parts: []const []const u8) void {
        const old = self.text;
        const middle = join(parts);
        self.text = std.mem.concat(gpa, u8, &.{ old[0..at], middle, old[at + len ..] }) catch @trap();
        gpa.free(old);
        if (self.id != null) self.id = json.get(self.text, "id");
    }

    /// Passes it on as it is now. With `then` the answer is not passed back, but handed to that:
    /// it calls `answer`, `fail` or `pass`.
    pub fn next(self: *Message, then: ?Then) void {
        if (self.settled) return;
        if (self.side == .conductor) return self.drop();
        write(self.side.other(), &.{self.text});
        if (then) |callback| if (self.id) |id| {
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
        last_id[index] += 1;
        var digits: [16]u8 = undefined;
        // The conductor's ids are integers, so on its sides ours are strings.
        const format = .{last_id[index]};
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
        pending.append(gpa, .{ .side = side, .id = own, .message = self, .then = then, .passed = passed }) catch @trap();
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
    fn finish(self: *Message) void {
        if (!self.settled and self.waits == 0) self.next(null);
        if (!self.settled or self.waits > 0) return;
        gpa.free(self.text);
        gpa.destroy(self);
    }
};

fn write(side: Side, parts: []const []const u8) void {
    outbox.append(gpa, @backingInt(side)) catch @trap();
    for (parts) |part| outbox.appendSlice(gpa, part) catch @trap();
    outbox.append(gpa, '\n') catch @trap();
}

const Head = struct {
    id: ?[]const u8 = null,
    method: ?[]const u8 = null,
    params: ?[]const u8 = null,

    fn read(text: []const u8) ?Head {
        var head: Head = .{};
        var walk: json.Members = .{ .text = text };
        while (walk.next()) |member| {
            if (json.is(member.name, "id")) head.id = member.value;
            if (json.is(member.name, "method")) head.method = member.value;
            if (json.is(member.name, "params")) head.params = member.value;
        }
        return if (walk.valid) head else null;
    }

    fn session(head: Head) []const u8 {
        const raw = json.get(head.params orelse return "", "sessionId") orelse return "";
        return json.decode(scratch, raw) orelse raw;
    }
};

fn receive(side: Side, text: []const u8) void {
    const head = Head.read(text) orelse return pass(side, text);
    if (head.method == null) return answered(side, text, head);
    if (side != .conductor) if (laneFor(side, head)) |lane| return wait(lane, text);
    dispatch(side, text, head);
}

fn pass(side: Side, text: []const u8) void {
    if (side != .conductor) write(side.other(), &.{text});
}

fn wait(lane: *Lane, text: []const u8) void {
    lane.queue.append(gpa, gpa.dupe(u8, text) catch @trap()) catch @trap();
}

/// The lane a message has to wait in, if any.
fn laneFor(side: Side, head: Head) ?*Lane {
    if (lanes.items.len == 0) return null;
    if (json.is(head.method.?, "$/cancel_request")) {
        const id = json.get(head.params orelse "", "requestId") orelse return null;
        for (lanes.items) |lane| if (lane != open and lane.side == side and lane.has(id)) return lane;
        return null;
    }
    return blocked(side, head.session());
}

fn find(side: Side, session: []const u8) ?*Lane {
    for (lanes.items) |lane| if (lane.side == side and std.mem.eql(u8, lane.session, session)) return lane;
    return null;
}

fn blocked(side: Side, session: []const u8) ?*Lane {
    const lane = find(side, session) orelse return null;
    return if (lane == open) null else lane;
}

fn answered(side: Side, text: []const u8, head: Head) void {
    const id = head.id orelse return pass(side, text);
    for (pending.items, 0..) |one, index| if (one.side == side and std.mem.eql(u8, one.id, id)) {
        const session = (Head.read(one.message.text) orelse unreachable).session();
        if (one.passed) if (blocked(side, session)) |lane| return wait(lane, text);
        _ = pending.orderedRemove(index);
        gpa.free(one.id);
        one.message.waits -= 1;
        if (one.passed) hold(one.message, side, session);
        one.then(one.message, .{ .text = text });
        return one.message.finish();
    };
    // An answer that ends a turn must not overtake what came before it.
    if (side == .agent) for (lanes.items) |lane| if (lane != open and lane.side == side) return wait(lane, text);
    pass(side, text);
}

fn dispatch(side: Side, text: []const u8, head: Head) void {
    const method = head.method.?;
    if (side == .conductor and json.is(method, "configure")) {
        gpa.free(settings);
        settings = gpa.dupe(u8, text) catch @trap();
        return if (on_configure) |callback| callback();
    }
    for (calls) |call| if (json.is(method, call.method) and isUpdate(call, head)) {
        const message = gpa.create(Message) catch @trap();
        message.* = .{ .side = side, .text = gpa.dupe(u8, text) catch @trap(), .id = null };
        if (head.id != null) message.id = json.get(message.text, "id");
        if (side != .conductor) hold(message, side, head.session());
        call.handler(message);
        return message.finish();
    };
    if (side != .conductor) return pass(side, text);
    if (head.id) |id| write(side, &.{ "{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}" });
}

fn isUpdate(call: Call, head: Head) bool {
    const kind = call.update orelse return true;
    const said = json.find(head.params orelse return false, &.{ "update", "sessionUpdate" });
    return json.is(said orelse return false, kind);
}

fn hold(message: *Message, side: Side, session: []const u8) void {
    const lane = find(side, session) orelse made: {
        const lane = gpa.create(Lane) catch @trap();
        lane.* = .{ .side = side, .session = gpa.dupe(u8, session) catch @trap() };
        lanes.append(gpa, lane) catch @trap();
        break :made lane;
    };
    lane.holder = message;
    message.lane = lane;
}

/// Lets go on what waits for nobody any more.
fn drain() void {
    var index: usize = 0;
    while (index < lanes.items.len) {
        const lane = lanes.items[index];
        while (lane.holder == null and lane.queue.items.len > 0) {
            const text = lane.queue.orderedRemove(0);
            open = lane;
            receive(lane.side, text);
            open = null;
            gpa.free(text);
        }
        if (lane.holder != null) {
            index += 1;
            continue;
        }
        _ = lanes.orderedRemove(index);
        lane.queue.deinit(gpa);
        gpa.free(lane.session);
        gpa.destroy(lane);
        index = 0; // what went on may have freed an earlier one
    }
}
