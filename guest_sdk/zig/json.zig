//! JSON read where it lies. Values are slices of the text itself; scanning validates the grammar
//! of RFC 8259, so what comes from here can be spliced into other JSON byte for byte.

const std = @import("std");

pub const Allocator = std.mem.Allocator;

/// Deeper nesting counts as invalid; hosts limit it to far less.
const max_depth = 4096;

/// The first byte at or after `from` that is not space.
pub fn space(text: []const u8, from: usize) usize {
    var at = from;
    while (at < text.len) : (at += 1) switch (text[at]) {
        ' ', '\t', '\n', '\r' => {},
        else => break,
    };
    return at;
}

/// The first byte of a string's inside that is a quote, a backslash or a control character.
fn plain(text: []const u8, from: usize) usize {
    const Block = @Vector(16, u8);
    var at = from;
    while (at + 16 <= text.len) : (at += 16) {
        const block: Block = text[at..][0..16].*;
        const quotes: @Vector(16, u1) = @bitCast(block == @as(Block, @splat('"')));
        const escapes: @Vector(16, u1) = @bitCast(block == @as(Block, @splat('\\')));
        const low: @Vector(16, u1) = @bitCast(block < @as(Block, @splat(' ')));
        if (@reduce(.Or, quotes | escapes | low) != 0) break;
    }
    while (at < text.len and text[at] >= ' ' and text[at] != '"' and text[at] != '\\') at += 1;
    return at;
}

/// Behind the string at `from`; null if there is no valid one.
fn skipString(text: []const u8, from: usize) ?usize {
    if (from >= text.len or text[from] != '"') return null;
    var at = from + 1;
    while (true) {
        at = plain(text, at);
        if (at >= text.len or text[at] < ' ') return null;
        if (text[at] == '"') return at + 1;
        if (at + 1 >= text.len) return null;
        switch (text[at + 1]) {
            '"', '\\', '/', 'b', 'f', 'n', 'r', 't' => at += 2,
            'u' => {
                if (at + 6 > text.len) return null;
                for (text[at + 2 .. at + 6]) |digit| if (!std.ascii.isHex(digit)) return null;
                at += 6;
            },
            else => return null,
        }
    }
}

fn skipDigits(text: []const u8, from: usize) ?usize {
    var at = from;
    while (at < text.len and std.ascii.isDigit(text[at])) at += 1;
    return if (at == from) null else at;
}

fn skipNumber(text: []const u8, from: usize) ?usize {
    var at = from;
    if (text[at] == '-') at += 1;
    if (at < text.len and text[at] == '0') at += 1 else at = skipDigits(text, at) orelse return null;
    if (at < text.len and text[at] == '.') at = skipDigits(text, at + 1) orelse return null;
    if (at < text.len and (text[at] | 32) == 'e') {
        at += 1;
        if (at < text.len and (text[at] == '+' or text[at] == '-')) at += 1;
        at = skipDigits(text, at) orelse return null;
    }
    return at;
}

fn skipScalar(text: []const u8, at: usize) ?usize {
    const word = switch (text[at]) {
        '"' => return skipString(text, at),
        't' => "true",
        'f' => "false",
        'n' => "null",
        else => return skipNumber(text, at),
    };
    return if (std.mem.startsWith(u8, text[at..], word)) at + word.len else null;
}

/// Behind a member's name and colon.
fn skipName(text: []const u8, from: usize) ?usize {
    const at = space(text, skipString(text, space(text, from)) orelse return null);
    return if (at < text.len and text[at] == ':') at + 1 else null;
}

/// Behind the value at `from`, space before it allowed; null if it is not valid JSON.
pub fn skip(text: []const u8, from: usize) ?usize {
    var in_object: std.StaticBitSet(max_depth) = undefined;
    var depth: usize = 0;
    var at = from;
    while (true) {
        at = space(text, at);
        if (at >= text.len) return null;
        const first = text[at];
        if (first == '{' or first == '[') {
            at = space(text, at + 1);
            if (at >= text.len) return null;
            if (text[at] != first + 2) { // a closing bracket is two behind its opening one
                if (depth == max_depth) return null;
                in_object.setValue(depth, first == '{');
                depth += 1;
                if (first == '{') at = skipName(text, at) orelse return null;
                continue;
            }
            at += 1;
        } else at = skipScalar(text, at) orelse return null;
        while (true) {
            if (depth == 0) return at;
            const object = in_object.isSet(depth - 1);
            at = space(text, at);
            if (at >= text.len) return null;
            const mark = text[at];
            at += 1;
            if (mark == ',') {
                if (object) at = skipName(text, at) orelse return null;
                break;
            }
            if (mark != @as(u8, if (object) '}' else ']')) return null;
            depth -= 1;
        }
    }
}

/// A member of an object: its name with the quotes, and its value.
pub const Member = struct { name: []const u8, value: []const u8 };

/// Walks the members of an object; afterwards `valid` tells whether it was one, and no more.
pub const Members = struct {
    text: []const u8,
    at: usize = 0,
    begun: bool = false,
    valid: bool = false,

    pub fn next(self: *Members) ?Member {
        const text = self.text;
        var at = space(text, self.at);
        self.at = text.len;
        if (at >= text.len) return null;
        if (!self.begun) {
            if (text[at] != '{') return null;
            at = space(text, at + 1);
            if (at >= text.len) return null;
        }
        if (text[at] == '}') {
            self.valid = space(text, at + 1) == text.len;
            return null;
        }
        if (self.begun) {
            if (text[at] != ',') return null;
            at = space(text, at + 1);
        }
        self.begun = true;
        const behind = skipString(text, at) orelse return null;
        const colon = space(text, behind);
        if (colon >= text.len or text[colon] != ':') return null;
        const start = space(text, colon + 1);
        const end = skip(text, start) orelse return null;
        self.at = end;
        return .{ .name = text[at..behind], .value = text[start..end] };
    }
};

/// The value of a member by its name, the last one if it is repeated.
pub fn get(object: []const u8, name: []const u8) ?[]const u8 {
    var found: ?[]const u8 = null;
    var walk: Members = .{ .text = object };
    while (walk.next()) |member| if (is(member.name, name)) {
        found = member.value;
    };
    return if (walk.valid) found else null;
}

/// The value that a path of names leads to.
pub fn find(object: []const u8, path: []const []const u8) ?[]const u8 {
    var value = object;
    for (path) |name| value = get(value, name) orelse return null;
    return value;
}

/// Where a part of a text begins in it.
pub fn offset(text: []const u8, part: []const u8) usize {
    return @intFromPtr(part.ptr) - @intFromPtr(text.ptr);
}

pub fn isString(value: []const u8) bool {
    return value.len > 0 and value[0] == '"';
}

/// One character of a string's inside, escapes resolved; surrogates may be alone.
const Units = struct {
    inside: []const u8,
    at: usize = 0,

    fn next(self: *Units, buffer: *[4]u8) ?[]const u8 {
        if (self.at >= self.inside.len) return null;
        const byte = self.inside[self.at];
        self.at += 1;
        buffer[0] = byte;
        if (byte != '\\') return buffer[0..1];
        const name = self.inside[self.at];
        self.at += 1;
        buffer[0] = switch (name) {
            'b' => 8,
            'f' => 12,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode(buffer),
            else => name,
        };
        return buffer[0..1];
    }

    fn unicode(self: *Units, buffer: *[4]u8) []const u8 {
        var code: u21 = self.hex(self.at);
        self.at += 4;
        const rest = self.inside[self.at..];
        if (code >> 10 == 0x36 and rest.len >= 6 and rest[0] == '\\' and rest[1] == 'u') {
            const low = self.hex(self.at + 2);
            if (low >> 10 == 0x37) {
                code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
                self.at += 6;
            }
        }
        const size = std.unicode.wtf8Encode(code, buffer) catch unreachable;
        return buffer[0..size];
    }

    fn hex(self: *Units, at: usize) u21 {
        return std.fmt.parseInt(u16, self.inside[at..][0..4], 16) catch unreachable;
    }
};

/// What is read where a surrogate stands alone.
pub const replacement = "\u{fffd}";

/// Whether a valid value is this string, however it is escaped.
pub fn is(value: []const u8, text: []const u8) bool {
    if (!isString(value)) return false;
    var units: Units = .{ .inside = value[1 .. value.len - 1] };
    var buffer: [4]u8 = undefined;
    var done: usize = 0;
    while (units.next(&buffer)) |bytes| {
        if (!std.mem.startsWith(u8, text[done..], bytes)) return false;
        done += bytes.len;
    }
    return done == text.len;
}

/// A string value decoded; null if it is none. U+FFFD stands for half an emoji (a lone surrogate).
pub fn decode(gpa: Allocator, value: []const u8) ?[]u8 {
    if (!isString(value)) return null;
    const decoded = gpa.alloc(u8, value.len) catch @panic("out of memory");
    var units: Units = .{ .inside = value[1 .. value.len - 1] };
    var buffer: [4]u8 = undefined;
    var used: usize = 0;
    while (units.next(&buffer)) |unit| {
        const half = unit.len == 3 and unit[0] == 0xed and unit[1] >= 0xa0;
        const bytes = if (half) replacement else unit;
        @memcpy(decoded[used..][0..bytes.len], bytes);
        used += bytes.len;
    }
    return decoded[0..used];
}

/// A text as a JSON string. Escapes only what has to be.
pub fn quote(gpa: Allocator, text: []const u8) []u8 {
    var size: usize = 2;
    for (text) |byte| size += escaped(byte).len;
    const quoted = gpa.alloc(u8, size) catch @panic("out of memory");
    quoted[0] = '"';
    var used: usize = 1;
    for (text) |byte| {
        const escape = escaped(byte);
        if (escape.len == 1) quoted[used] = byte else @memcpy(quoted[used..][0..escape.len], escape);
        used += escape.len;
    }
    quoted[used] = '"';
    return quoted;
}

/// What stands for a byte inside a string; one byte: it stands for itself.
fn escaped(byte: u8) []const u8 {
    return switch (byte) {
        '"' => "\\\"",
        '\\' => "\\\\",
        8 => "\\b",
        12 => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        else => if (byte < ' ') controls[byte] else " ",
    };
}

const controls: [32]*const [6]u8 = table: {
    var made: [32]*const [6]u8 = undefined;
    for (&made, 0..) |*one, byte| one.* = std.fmt.comptimePrint("\\u{x:0>4}", .{byte});
    break :table made;
};
