//! A library for sandboxed proxies of conductor, on `channel/1` (docs/channel-abi.md): lines of
//! JSON in, lines of JSON out. No imports, no dependencies, no `std`.
//!
//! ```
//! use conductor_guest::{Message, Proxy};
//!
//! conductor_guest::proxy!(declare);
//!
//! fn declare(proxy: &mut Proxy) {
//!     proxy.handle("session/prompt", async |message: &mut Message| {
//!         message.preface("Answer in French.");
//!     });
//! }
//! ```
//!
//! What has no handler passes, byte for byte. A handler may wait for answers; when it ends, what it
//! neither passed on, answered nor dropped is passed on. While one waits, later messages of its
//! session and direction wait behind it; answers of the client's never do.

#![no_std]

extern crate alloc;
#[cfg(all(not(feature = "alone"), target_arch = "wasm32"))]
extern crate std;

#[cfg(all(feature = "alone", target_arch = "wasm32"))]
mod alone;
mod answer;
mod cancel;
mod channel;
#[cfg(target_arch = "wasm32")]
mod fault;
#[cfg(all(feature = "alone", target_arch = "wasm32"))]
mod heap;
pub mod json;
mod message;
mod proxy;
mod scan;
mod strings;

#[doc(hidden)]
pub mod exports;

pub use answer::{Answer, Failure};
pub use message::Message;
pub use proxy::Proxy;

use alloc::string::String;

/// Who says something, or is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The predecessor, towards the editor.
    Client,
    /// The successor, towards the agent.
    Agent,
    /// The conductor itself.
    Conductor,
}

impl Side {
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Side::Client => b'p',
            Side::Agent => b's',
            Side::Conductor => b'c',
        }
    }

    pub(crate) const fn of(byte: u8) -> Option<Side> {
        match byte {
            b'p' => Some(Side::Client),
            b's' => Some(Side::Agent),
            b'c' => Some(Side::Conductor),
            _ => None,
        }
    }

    /// Where a message goes on to; the conductor's go nowhere.
    pub(crate) const fn other(self) -> Option<Side> {
        match self {
            Side::Client => Some(Side::Agent),
            Side::Agent => Some(Side::Client),
            Side::Conductor => None,
        }
    }
}

/// A text block of a prompt, as JSON.
pub fn text(said: &str) -> String {
    let mut block = String::from("{\"type\":\"text\",\"text\":");
    block.push_str(&json::quote(said));
    block.push('}');
    block
}

/// Exports what a host calls. It takes a function, or a closure without captures, that is given the
/// [`Proxy`] once and says what is handled. Nothing is exported where it is not built for WebAssembly.
#[macro_export]
macro_rules! proxy {
    ($declare:expr) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            static GUEST: $crate::exports::Guest = $crate::exports::Guest::new();

            #[unsafe(no_mangle)]
            extern "C" fn channel_abi() -> u32 {
                GUEST.load($declare)
            }

            #[unsafe(no_mangle)]
            extern "C" fn channel_reserve(len: usize) -> usize {
                GUEST.reserve(len)
            }

            #[unsafe(no_mangle)]
            extern "C" fn channel_fault() -> u64 {
                GUEST.fault()
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn channel_deliver(at: *const u8, len: usize) -> u64 {
                unsafe { GUEST.deliver(at, len) }
            }
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn(&mut $crate::Proxy) = $declare;
    };
}

/// The code of [`Message::fail`] where a component lets something not go on; -32000 would have
/// editors show a login.
pub const REFUSED: i64 = -31900;
