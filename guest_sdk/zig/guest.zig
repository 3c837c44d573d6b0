//! A library for proxies in Zig, on `channel/1` (docs/architecture.md#the-channel). No imports, no libc.
//!
//!     const guest = @import("guest");
//!
//!     comptime {
//!         guest.proxy(.{ .calls = &.{.{ .method = "session/prompt", .handler = prompt }} });
//!     }
//!
//!     fn prompt(message: *guest.Message) void {
//!         _ = message.preface("Answer in French.");
//!         message.next(null);
//!     }
//!
//! What has no handler passes, byte for byte. A message that a handler neither passed on, answered,
//! dropped nor asked something for is passed on. While one waits for an answer, later messages of
//! its session and direction wait behind it; answers of the client's never do.

const std = @import("std");
pub const json = @import("json.zig");
const channel = @import("channel.zig");
const message = @import("message.zig");
const walk = @import("walk.zig");

pub const Answer = message.Answer;
pub const Call = walk.Call;
pub const Handler = message.Handler;
pub const Message = message.Message;
pub const Side = channel.Side;
pub const Then = message.Then;
pub const join = channel.join;
/// The code of `fail` where a component lets something not go on; -32000 would have editors show a
/// login.
pub const refused: i32 = -31900;
pub const notify = channel.notify;
pub const scratch = channel.scratch;

pub const Proxy = struct {
    calls: []const Call = &.{},
    /// Called with each `configure`; see `setting`.
    configured: ?*const fn () void = null,
};

var inbox: []u8 = &.{};

/// Declares the proxy and exports what the host calls. In a `comptime` block, once.
pub fn proxy(comptime declared: Proxy) void {
    const exports = struct {
        fn abi() callconv(.c) u32 {
            walk.calls = declared.calls;
            walk.on_configure = declared.configured;
            return 1;
        }
    };
    @export(&exports.abi, .{ .name = "channel_abi" });
    @export(&reserve, .{ .name = "channel_reserve" });
    @export(&deliver, .{ .name = "channel_deliver" });
    @export(&fault, .{ .name = "channel_fault" });
}

/// What a panic had to say: the host asks for it after the trap. A module has it by
/// `pub const panic = guest.panic;` in its root file.
pub const panic = std.debug.FullPanic(fail);
var words: [512]u8 = undefined;
var worded: usize = 0;

fn fail(text: []const u8, address: ?usize) noreturn {
    _ = address;
    worded = @min(text.len, words.len);
    @memcpy(words[0..worded], text[0..worded]);
    @trap();
}

fn fault() callconv(.c) u64 {
    return @as(u64, @intFromPtr(&words)) << 32 | worded;
}

fn reserve(len: u32) callconv(.c) [*]u8 {
    if (inbox.len < len) {
        channel.gpa.free(inbox);
        inbox = &.{};
        inbox = channel.gpa.alloc(u8, len) catch @trap();
    }
    return inbox.ptr;
}

fn deliver(at: [*]u8, len: u32) callconv(.c) u64 {
    channel.outbox.clearRetainingCapacity();
    var lines = std.mem.splitScalar(u8, at[0..len], '\n');
    while (lines.next()) |line| if (line.len > 1) {
        walk.receive(@fromBackingInt(@intCast(line[0])), line[1..]);
        walk.drain();
    };
    _ = channel.arena.reset(.retain_capacity);
    return @as(u64, @intFromPtr(channel.outbox.items.ptr)) << 32 | channel.outbox.items.len;
}

/// The raw JSON of a setting, the user's choice; null if it was not made.
pub fn setting(name: []const u8) ?[]const u8 {
    return json.find(walk.settings, &.{ "params", "config", name });
}

/// Writes to the conductor's log: `debug`, `info`, `warn` or `error`.
pub fn log(level: []const u8, text: []const u8) void {
    const parts = [_][]const u8{
        "{\"level\":", json.quote(scratch, level), ",\"message\":", json.quote(scratch, text), "}",
    };
    notify(.conductor, "log", join(&parts));
}
