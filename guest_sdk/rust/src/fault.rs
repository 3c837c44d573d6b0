//! What a panic had to say, kept for the host, which asks for it after the trap.

use core::cell::UnsafeCell;

/// Bytes kept of it.
const ROOM: usize = 1024;

struct Words(UnsafeCell<([u8; ROOM], usize)>);

// A guest has one thread.
unsafe impl Sync for Words {}

static WORDS: Words = Words(UnsafeCell::new(([0; ROOM], 0)));

/// Its address and length; nothing where panics are `alone`: telling them apart would make half as
/// much again of a small module.
pub(crate) fn kept() -> (usize, usize) {
    let (bytes, len) = unsafe { &*WORDS.0.get() };
    (bytes.as_ptr() as usize, *len)
}

/// Has the standard library's panics kept: where they were, and what they say.
#[cfg(not(feature = "alone"))]
pub(crate) fn watch() {
    std::panic::set_hook(alloc::boxed::Box::new(|panic| {
        let said = alloc::string::ToString::to_string(panic);
        let (bytes, len) = unsafe { &mut *WORDS.0.get() };
        *len = said.len().min(ROOM);
        bytes[..*len].copy_from_slice(&said.as_bytes()[..*len]);
    }));
}
