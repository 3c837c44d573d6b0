//! What a guest says, and the memory it is put together in.

const std = @import("std");
const json = @import("json.zig");

pub const gpa = std.heap.wasm_allocator;
pub var arena: std.heap.ArenaAllocator = .init(gpa);
/// For the length of one delivery; what is kept longer is copied.
pub const scratch: json.Allocator = arena.allocator();
pub var outbox: std.ArrayList(u8) = .empty;

pub const Side = enum(u8) {
    client = 'p',
    agent = 's',
    conductor = 'c',

    pub fn other(side: Side) Side {
        return if (side == .client) .agent else .client;
    }
};

pub fn write(side: Side, parts: []const []const u8) void {
    outbox.append(gpa, @backingInt(side)) catch @trap();
    for (parts) |part| outbox.appendSlice(gpa, part) catch @trap();
    outbox.append(gpa, '\n') catch @trap();
}

/// Sends a notification of one's own, `params` as raw JSON.
pub fn notify(side: Side, method: []const u8, params: []const u8) void {
    write(side, &.{ "{\"jsonrpc\":\"2.0\",\"method\":", json.quote(scratch, method), ",\"params\":", params, "}" });
}

/// Texts put together, for the length of this delivery.
pub fn join(parts: []const []const u8) []u8 {
    return std.mem.concat(scratch, u8, parts) catch @trap();
}
