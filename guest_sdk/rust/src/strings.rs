//! Strings of JSON: what they stand for, and how they are written.

use alloc::string::String;
use alloc::vec::Vec;

/// A text as JSON. Escapes only what has to be.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        quoted.push_str(&text[from..at]);
        from = at + 1;
        quoted.push('\\');
        match byte {
            8 => quoted.push('b'),
            9 => quoted.push('t'),
            10 => quoted.push('n'),
            12 => quoted.push('f'),
            13 => quoted.push('r'),
            b'"' | b'\\' => quoted.push(byte.into()),
            _ => {
                quoted.push_str(if byte < 16 { "u000" } else { "u001" });
                quoted.push(b"0123456789abcdef"[usize::from(byte & 15)].into());
            }
        }
    }
    quoted.push_str(&text[from..]);
    quoted.push('"');
    quoted
}

/// Whether a valid value is this text, however it is escaped.
pub(crate) fn is(value: &[u8], text: &str) -> bool {
    let Some(inside) = inside(value) else {
        return false;
    };
    if inside == text.as_bytes() {
        return !inside.contains(&b'\\');
    }
    // An escape is longer than what it stands for.
    inside.len() > text.len()
        && inside.contains(&b'\\')
        && decode(value).is_some_and(|decoded| decoded == text)
}

/// What is between the quotes of a valid value, if it is a string.
fn inside(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// A valid value decoded; `None` if it is no text. U+FFFD stands for a surrogate that is alone.
pub(crate) fn decode(value: &[u8]) -> Option<String> {
    let mut rest = inside(value)?;
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        decoded.extend_from_slice(&rest[..at]);
        let name = *rest.get(at + 1)?;
        rest = &rest[at + 2..];
        decoded.push(match name {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = unicode(&mut rest)?;
                decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            other => other,
        });
    }
    decoded.extend_from_slice(rest);
    String::from_utf8(decoded).ok()
}

/// The character behind `\u`, which may take two of them; what it took is taken off.
fn unicode(rest: &mut &[u8]) -> Option<char> {
    let mut code = hex(rest)?;
    if (0xd800..0xdc00).contains(&code) {
        let mut behind = rest.strip_prefix(b"\\u").unwrap_or_default();
        if let Some(low @ 0xdc00..0xe000) = hex(&mut behind) {
            code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
            *rest = behind;
        }
    }
    Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
}

fn hex(rest: &mut &[u8]) -> Option<u32> {
    let digits = core::str::from_utf8(rest.get(..4)?).ok()?;
    *rest = &rest[4..];
    u32::from_str_radix(digits, 16).ok()
}
