//! The way of a line: who handles it, what waits for what, and in which order.

const std = @import("std");
const channel = @import("channel.zig");
const json = @import("json.zig");
const messages = @import("message.zig");

const Handler = messages.Handler;
const Message = messages.Message;
const Side = channel.Side;
const Then = messages.Then;
const gpa = channel.gpa;
const scratch = channel.scratch;
const write = channel.write;

pub const cancel = "$/cancel_request";

/// What is handled: a method, and of `session/update` a kind of update.
pub const Call = struct { method: []const u8, update: ?[]const u8 = null, handler: Handler };

pub var calls: []const Call = &.{};
pub var on_configure: ?*const fn () void = null;
/// The last `configure`.
pub var settings: []u8 = &.{};
pub var pending: std.ArrayList(Pending) = .empty;
/// Of our own requests, by side.
pub var last_id: [3]u32 = @splat(0);
var lanes: std.ArrayList(*Lane) = .empty;
/// The lane whose queue is let go on, so it does not hold up what comes from there.
var open: ?*Lane = null;

/// Who waits for which answer. `passed`: the answer is owed to the other side.
pub const Pending = struct {
    side: Side,
    id: []u8,
    message: *Message,
    then: Then,
    passed: bool,
    withdrawn: bool = false,
};

/// The messages of one session and direction, held up by one that is being handled.
pub const Lane = struct {
    side: Side,
    session: []u8,
    holder: ?*Message = null,
    queue: std.ArrayList([]u8) = .empty,

    /// Whether it holds up the request of this id.
    fn has(lane: *const Lane, id: []const u8) bool {
        if (lane.holder) |holder| if (holder.side == lane.side and isId(holder.text, id)) return true;
        for (lane.queue.items) |text| if (isId(text, id)) return true;
        return false;
    }

    fn isId(text: []const u8, id: []const u8) bool {
        const head = Head.read(text) orelse return false;
        return head.method != null and std.mem.eql(u8, head.id orelse return false, id);
    }
};

pub const Head = struct {
    id: ?[]const u8 = null,
    method: ?[]const u8 = null,
    params: ?[]const u8 = null,

    pub fn read(text: []const u8) ?Head {
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
        const text = json.decode(scratch, raw) orelse return raw;
        // It may stand for half an emoji, and those of two sessions may differ.
        return if (std.mem.indexOf(u8, text, json.replacement) == null) text else raw;
    }
};

pub fn receive(side: Side, text: []const u8) void {
    const head = Head.read(text) orelse return pass(side, text);
    if (head.method == null) return answered(side, text, head);
    if (side != .conductor) if (laneFor(side, head)) |lane| {
        if (lane.holder) |holder| if (holder.side == side and holder.isTakenBack(text)) holder.withdraw();
        return wait(lane, text);
    };
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
    if (json.is(head.method.?, cancel)) {
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
        if (one.passed) {
            hold(one.message, side, session);
            one.message.answered = gpa.dupe(u8, text) catch @trap();
        }
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
        if (on_configure) |callback| callback();
    }
    if (handlerOf(method, head)) |handler| {
        const message = gpa.create(Message) catch @trap();
        message.* = .{ .side = side, .text = gpa.dupe(u8, text) catch @trap(), .id = null };
        if (head.id != null) message.id = json.get(message.text, "id");
        if (side != .conductor) hold(message, side, head.session());
        handler(message);
        return message.finish();
    }
    if (side != .conductor) return pass(side, text);
    if (head.id) |id| write(side, &.{ "{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}" });
}

/// One of a kind of update goes before one of all updates.
fn handlerOf(method: []const u8, head: Head) ?Handler {
    var found: ?Handler = null;
    for (calls) |call| if (json.is(method, call.method)) {
        const kind = call.update orelse {
            if (found == null) found = call.handler;
            continue;
        };
        const said = json.find(head.params orelse continue, &.{ "update", "sessionUpdate" });
        if (json.is(said orelse continue, kind)) return call.handler;
    };
    return found;
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
pub fn drain() void {
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
