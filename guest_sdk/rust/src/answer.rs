//! What comes of a request, and waiting for it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::channel::Slot;
use crate::json;

/// What a request came to: its result as raw JSON, or its error.
pub type Answer = Result<String, Failure>;

/// The error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error's object as it was said; `null` where there is none, and nothing to wait for.
    pub raw: String,
}

impl Failure {
    pub(crate) fn none() -> Failure {
        Failure { raw: "null".into() }
    }

    /// Its code, if it has one.
    pub fn code(&self) -> Option<i64> {
        json::get(&self.raw, &["code"])?.parse().ok()
    }

    /// Its message, empty if it has none.
    pub fn message(&self) -> String {
        json::get_text(&self.raw, &["message"]).unwrap_or_default()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message())
    }
}

/// An answer by its line.
pub(crate) fn read(line: &[u8]) -> Answer {
    let Ok(line) = core::str::from_utf8(line) else {
        return Err(Failure::none());
    };
    match (json::get(line, &["result"]), json::get(line, &["error"])) {
        (Some(result), _) => Ok(result.into()),
        (None, Some(raw)) => Err(Failure { raw: raw.into() }),
        (None, None) => Err(Failure::none()),
    }
}

/// Waits for the line of an answer.
pub(crate) struct Waiting(pub Slot);

impl Future for Waiting {
    type Output = Vec<u8>;

    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Vec<u8>> {
        self.0
            .borrow_mut()
            .take()
            .map_or(Poll::Pending, Poll::Ready)
    }
}
