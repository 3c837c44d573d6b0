//! JSON read where it lies. Values are parts of the text itself; scanning validates the grammar of
//! RFC 8259, so what comes from here can be spliced into other JSON byte for byte.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::scan::plain;
pub use crate::strings::quote;
use crate::strings::{decode, is};

/// Where a value lies in a text.
pub(crate) type Place = Range<usize>;

/// Deeper nesting counts as invalid; hosts limit it to far less.
const MAX_DEPTH: usize = 4096;

/// The raw JSON that a path of names leads to, through objects; of repeated members the last one.
pub fn get<'a>(object: &'a str, path: &[&str]) -> Option<&'a str> {
    Some(&object[find(object.as_bytes(), 0..object.len(), path)?])
}

/// The same, if it is a text, decoded.
pub fn get_text(object: &str, path: &[&str]) -> Option<String> {
    text(get(object, path)?)
}

/// A text decoded; `None` if the value is none. U+FFFD stands for half an emoji (a lone surrogate),
/// which no `String` can hold.
pub fn text(value: &str) -> Option<String> {
    decode(value.as_bytes())
}

/// The elements of an array, raw; `None` if it is none.
pub fn elements(array: &str) -> Option<Vec<&str>> {
    let text = array.as_bytes();
    let mut found = Vec::new();
    let mut at = space(text, 0);
    if text.get(at) != Some(&b'[') {
        return None;
    }
    at = space(text, at + 1);
    if text.get(at) != Some(&b']') {
        loop {
            let start = space(text, at);
            let end = value_end(text, start)?;
            found.push(&array[start..end]);
            at = space(text, end);
            match text.get(at)? {
                b',' => at += 1,
                b']' => break,
                _ => return None,
            }
        }
    }
    (space(text, at + 1) == text.len()).then_some(found)
}

/// Raw JSON without newlines, which end a message; in JSON they are nothing but space.
pub(crate) fn one_line(raw: &str) -> Cow<'_, str> {
    if raw.contains('\n') {
        raw.replace('\n', " ").into()
    } else {
        raw.into()
    }
}

/// Behind the space at a place.
pub(crate) fn space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Behind the string at a place; `None` if there is no valid one.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = plain(text, at);
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {}
            _ => return None,
        }
        at += match text.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' if text.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        }
    }
}

fn digits_end(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while matches!(text.get(at), Some(b'0'..=b'9')) {
        at += 1;
    }
    (at > from).then_some(at)
}

fn number_end(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match text.get(at) {
        Some(b'0') => at + 1,
        _ => digits_end(text, at)?,
    };
    if text.get(at) == Some(&b'.') {
        at = digits_end(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = digits_end(text, at)?;
    }
    Some(at)
}

fn scalar_end(text: &[u8], at: usize) -> Option<usize> {
    let word: &[u8] = match text.get(at)? {
        b'"' => return string_end(text, at),
        b't' => b"true",
        b'f' => b"false",
        b'n' => b"null",
        _ => return number_end(text, at),
    };
    text[at..].starts_with(word).then_some(at + word.len())
}

/// Behind a member's name and colon.
fn name_end(text: &[u8], at: usize) -> Option<usize> {
    let at = space(text, string_end(text, space(text, at))?);
    (text.get(at) == Some(&b':')).then_some(at + 1)
}

/// Behind the value at a place, space before it allowed; `None` if it is not valid JSON.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = space(text, at);
    if !matches!(text.get(at)?, b'{' | b'[') {
        return scalar_end(text, at);
    }
    let mut objects = [0u32; MAX_DEPTH / 32]; // a bit for each open bracket
    let mut depth = 0;
    loop {
        at = space(text, at);
        let first = *text.get(at)?;
        if first == b'{' || first == b'[' {
            at = space(text, at + 1);
            if *text.get(at)? != first + 2 {
                // A closing bracket is two behind its opening one.
                let word = objects.get_mut(depth / 32)?;
                *word = *word & !(1 << (depth % 32)) | u32::from(first == b'{') << (depth % 32);
                depth += 1;
                if first == b'{' {
                    at = name_end(text, at)?;
                }
                continue;
            }
            at += 1;
        } else {
            at = scalar_end(text, at)?;
        }
        loop {
            if depth == 0 {
                return Some(at);
            }
            let object = objects[(depth - 1) / 32] >> ((depth - 1) % 32) & 1 == 1;
            at = space(text, at);
            let mark = *text.get(at)?;
            at += 1;
            if mark == b',' {
                if object {
                    at = name_end(text, at)?;
                }
                break;
            }
            if mark != if object { b'}' } else { b']' } {
                return None;
            }
            depth -= 1;
        }
    }
}

/// Shows each member of the object that fills a place: its name, quoted, and where its value is.
/// `None` if there is no object, or no valid one.
pub(crate) fn members(
    text: &[u8],
    place: Place,
    found: &mut dyn FnMut(&[u8], Place),
) -> Option<()> {
    let text = &text[..place.end];
    let mut at = space(text, place.start);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    at = space(text, at + 1);
    if text.get(at) != Some(&b'}') {
        loop {
            let name = space(text, at);
            let behind = string_end(text, name)?;
            let colon = space(text, behind);
            if text.get(colon) != Some(&b':') {
                return None;
            }
            let start = space(text, colon + 1);
            let end = value_end(text, start)?;
            found(&text[name..behind], start..end);
            at = space(text, end);
            match text.get(at)? {
                b',' => at += 1,
                b'}' => break,
                _ => return None,
            }
        }
    }
    (space(text, at + 1) == text.len()).then_some(())
}

/// Where the value is that a path of names leads to, from a place.
pub(crate) fn find(text: &[u8], place: Place, path: &[&str]) -> Option<Place> {
    let mut place = place;
    for wanted in path {
        let mut last = None;
        members(text, place, &mut |name, value| {
            if is(name, wanted) {
                last = Some(value);
            }
        })?;
        place = last?;
    }
    Some(place)
}
