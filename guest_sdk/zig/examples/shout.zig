//! Makes the agent shout: what it says passes in capitals (of ASCII, this being Zig).

const std = @import("std");
const guest = @import("guest");

comptime {
    guest.proxy(.{ .calls = &.{
        .{ .method = "session/update", .update = "agent_message_chunk", .handler = shout },
    } });
}

fn shout(message: *guest.Message) void {
    const path = [_][]const u8{ "update", "content", "text" };
    const text = message.getText(&path) orelse return;
    const loud = std.ascii.allocUpperString(guest.scratch, text) catch return;
    if (!std.mem.eql(u8, loud, text)) _ = message.setText(&path, loud);
}
