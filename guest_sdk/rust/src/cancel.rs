//! Messages that nobody wants any more.

use crate::channel::{Channel, Handled, Head};
use crate::Side;

pub(crate) const CANCEL: &str = "$/cancel_request";

impl Handled {
    /// Whether a line takes it back: a cancellation of it, or of the turn it begins.
    fn is_taken_back(&self, line: &[u8], head: &Head) -> bool {
        if head.is(line, "session/cancel") {
            return self.turn;
        }
        let id = self.id.as_deref();
        id.is_some() && head.is(line, CANCEL) && head.param(line, &["requestId"]) == id
    }
}

impl Channel {
    /// Whether a message was taken back while it was held here.
    pub fn cancelled(&self, number: u32) -> bool {
        let Some(one) = self.handled.iter().find(|one| one.number == number) else {
            return false;
        };
        let mut lanes = self.lanes.iter();
        let Some(lane) = lanes.find(|lane| lane.holder == Some(number) && lane.side == one.side)
        else {
            return false;
        };
        let by = |line: &[u8]| Head::read(line).is_some_and(|head| one.is_taken_back(line, &head));
        lane.queue.iter().any(|line| by(line))
    }

    /// Drops the cancellations of a message that wait: they are about nothing any more.
    pub fn forget_cancels(&mut self, number: u32) {
        let Some(one) = self.handled.iter().find(|one| one.number == number) else {
            return;
        };
        let mut lanes = self.lanes.iter_mut();
        let held = lanes.find(|lane| lane.holder == Some(number) && lane.side == one.side);
        let about = |line: &[u8]| {
            Head::read(line)
                .is_some_and(|head| head.is(line, CANCEL) && one.is_taken_back(line, &head))
        };
        if let Some(lane) = held {
            lane.queue.retain(|line| !about(line));
        }
    }

    /// Cancels what a message has asked its neighbours, if a line takes it back.
    pub fn withdraw(&mut self, number: u32, side: Side, line: &[u8], head: &Head) {
        let of = |one: &&Handled| one.number == number && one.side == side;
        let back = |one: &Handled| one.is_taken_back(line, head);
        if !self.handled.iter().find(of).is_some_and(back) {
            return;
        }
        for at in 0..self.awaited.len() {
            let one = &mut self.awaited[at];
            let own = one.number == number && !one.passed && !one.withdrawn;
            if !own || one.side == Side::Conductor {
                continue;
            }
            one.withdrawn = true;
            let (side, id) = (one.side, one.id.clone());
            let parts: [&[u8]; 5] = [
                b"{\"jsonrpc\":\"2.0\",\"method\":\"",
                CANCEL.as_bytes(),
                b"\",\"params\":{\"requestId\":",
                &id,
                b"}}",
            ];
            self.write(side, &parts);
        }
    }
}
