//! What is under way in a proxy: what it says, waits for, and holds back.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;

use crate::cancel::CANCEL;
use crate::json::{self, Place};
use crate::{strings, Message, Side};

/// A handler under way; in the end it gives its message back.
pub(crate) type Task = Pin<Box<dyn Future<Output = Message>>>;
/// Where an answer is put for the handler that waits for it.
pub(crate) type Slot = Rc<RefCell<Option<Vec<u8>>>>;
pub(crate) type Shared = Rc<RefCell<Channel>>;

/// A message in a handler's hands, by number.
pub(crate) struct Handled {
    pub number: u32,
    pub side: Side,
    pub id: Option<Vec<u8>>,
    pub session: Vec<u8>,
    /// Whether it begins a turn.
    pub turn: bool,
    /// None while it runs.
    pub task: Option<Task>,
}

/// An answer that is waited for. `passed`: it is owed to the other side.
pub(crate) struct Awaited {
    pub side: Side,
    pub id: Vec<u8>,
    pub number: u32,
    slot: Slot,
    pub passed: bool,
    pub withdrawn: bool,
}

/// The messages of one session and direction, held up by one that is being handled.
pub(crate) struct Lane {
    number: u32,
    pub side: Side,
    session: Vec<u8>,
    pub holder: Option<u32>,
    pub queue: VecDeque<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Channel {
    pub out: Vec<u8>,
    /// The last `configure`.
    pub settings: Vec<u8>,
    pub handled: Vec<Handled>,
    pub awaited: Vec<Awaited>,
    pub lanes: Vec<Lane>,
    /// The lane whose queue is let go on, so it does not hold up what comes from there.
    open: Option<u32>,
    numbers: u32,
    asked: [u32; 3],
}

/// What stands in a decoded text for half an emoji: U+FFFD.
const HALF: &[u8] = "\u{fffd}".as_bytes();

/// Where the members are that say what a message is.
#[derive(Default)]
pub(crate) struct Head {
    pub id: Option<Place>,
    pub method: Option<Place>,
    pub params: Option<Place>,
}

impl Head {
    /// `None` if the line is no valid object.
    pub fn read(line: &[u8]) -> Option<Head> {
        let mut head = Head::default();
        json::members(line, 0..line.len(), &mut |name, value| {
            if strings::is(name, "id") {
                head.id = Some(value);
            } else if strings::is(name, "method") {
                head.method = Some(value);
            } else if strings::is(name, "params") {
                head.params = Some(value);
            }
        })?;
        Some(head)
    }

    /// The raw id.
    pub fn id<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        Some(&line[self.id.clone()?])
    }

    pub fn is(&self, line: &[u8], method: &str) -> bool {
        self.method
            .clone()
            .is_some_and(|place| strings::is(&line[place], method))
    }

    /// What is there in the params.
    pub fn param<'a>(&self, line: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
        Some(&line[json::find(line, self.params.clone()?, path)?])
    }

    /// The session it belongs to, empty for none.
    pub fn session(&self, line: &[u8]) -> Vec<u8> {
        let raw = self.param(line, &["sessionId"]).unwrap_or_default();
        match strings::decode(raw) {
            // U+FFFD may stand for half an emoji, and those of two sessions may differ.
            Some(text) if !text.as_bytes().windows(3).any(|one| one == HALF) => text.into_bytes(),
            _ => raw.to_vec(),
        }
    }
}

impl Channel {
    pub fn write(&mut self, side: Side, parts: &[&[u8]]) {
        self.out
            .reserve(parts.iter().map(|part| part.len()).sum::<usize>() + 2);
        self.out.push(side.byte());
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self.out.push(b'\n');
    }

    /// Passes a line on undecoded.
    pub fn pass(&mut self, side: Side, line: &[u8]) {
        if let Some(other) = side.other() {
            self.write(other, &[line]);
        }
    }

    /// A number for a message, or a lane.
    pub fn number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    /// An id for a request of one's own. The conductor's are integers, so on its sides ours are texts.
    pub fn own_id(&mut self, side: Side) -> Vec<u8> {
        let count = &mut self.asked[side as usize];
        *count += 1;
        let digits = count.to_string();
        match side {
            Side::Conductor => digits.into_bytes(),
            _ => [b"\"x", digits.as_bytes(), b"\""].concat(),
        }
    }

    pub fn expect(&mut self, side: Side, id: Vec<u8>, number: u32, passed: bool) -> Slot {
        let slot = Slot::default();
        let awaited = Awaited {
            side,
            id,
            number,
            slot: Rc::clone(&slot),
            passed,
            withdrawn: false,
        };
        self.awaited.push(awaited);
        slot
    }

    /// Whether a message waits for any answer.
    pub fn waits(&self, number: u32) -> bool {
        self.awaited.iter().any(|one| one.number == number)
    }

    /// Where the task of a message under way is kept.
    pub fn task(&mut self, number: u32) -> Option<&mut Option<Task>> {
        let mut all = self.handled.iter_mut();
        all.find(|one| one.number == number)
            .map(|one| &mut one.task)
    }

    /// Forgets a message whose handler has ended. Answers to what it passed on go back by themselves,
    /// those to its own requests are still taken.
    pub fn end(&mut self, number: u32) {
        self.awaited
            .retain(|one| !(one.passed && one.number == number));
        self.handled.retain(|one| one.number != number);
        self.release(number);
    }

    pub fn hold(&mut self, number: u32, side: Side, session: &[u8]) {
        let known = self
            .lanes
            .iter_mut()
            .find(|lane| lane.side == side && lane.session == session);
        if let Some(lane) = known {
            lane.holder = Some(number);
            return;
        }
        let (lane, holder) = (self.number(), Some(number));
        let (session, queue) = (session.to_vec(), VecDeque::new());
        self.lanes.push(Lane {
            number: lane,
            side,
            session,
            holder,
            queue,
        });
    }

    pub fn release(&mut self, number: u32) {
        for lane in &mut self.lanes {
            if lane.holder == Some(number) {
                lane.holder = None;
            }
        }
    }

    /// Has a message wait in its lane; false if there is none that holds it up.
    pub fn wait(&mut self, side: Side, line: &[u8], head: &Head) -> bool {
        if side == Side::Conductor || self.lanes.is_empty() {
            return false;
        }
        let lane = if head.is(line, CANCEL) {
            head.param(line, &["requestId"])
                .and_then(|id| self.lane_of(side, id))
        } else {
            self.lane(side, Some(&head.session(line)))
        };
        if let Some(holder) = lane.and_then(|at| self.lanes[at].holder) {
            self.withdraw(holder, side, line, head);
        }
        self.queue(lane, line)
    }

    fn queue(&mut self, lane: Option<usize>, line: &[u8]) -> bool {
        if let Some(at) = lane {
            self.lanes[at].queue.push_back(line.to_vec());
        }
        lane.is_some()
    }

    /// The lane that holds up a side, of one session or of any.
    fn lane(&self, side: Side, session: Option<&[u8]>) -> Option<usize> {
        let of = |lane: &Lane| session.is_none_or(|session| lane.session == session);
        let holds = |lane: &Lane| lane.side == side && self.open != Some(lane.number) && of(lane);
        self.lanes.iter().position(holds)
    }

    /// The lane that holds up the request of this id.
    fn lane_of(&self, side: Side, id: &[u8]) -> Option<usize> {
        let asks = |line: &Vec<u8>| {
            Head::read(line).is_some_and(|head| head.method.is_some() && head.id(line) == Some(id))
        };
        let held = |number: u32| {
            let mut all = self.handled.iter();
            all.any(|one| one.number == number && one.side == side && one.id.as_deref() == Some(id))
        };
        let has = |lane: &Lane| lane.holder.is_some_and(held) || lane.queue.iter().any(asks);
        let holds = |lane: &Lane| lane.side == side && self.open != Some(lane.number) && has(lane);
        self.lanes.iter().position(holds)
    }

    /// Takes an answer: the number of the message whose handler goes on with it.
    pub fn answered(&mut self, side: Side, line: &[u8], head: &Head) -> Option<u32> {
        let id = head.id(line);
        let is = |one: &Awaited| one.side == side && id == Some(&one.id[..]);
        let Some(at) = self.awaited.iter().position(is) else {
            // An answer that ends a turn must not overtake what came before it.
            let lane = if side == Side::Agent {
                self.lane(side, None)
            } else {
                None
            };
            if !self.queue(lane, line) {
                self.pass(side, line);
            }
            return None;
        };
        let number = self.awaited[at].number;
        if self.awaited[at].passed {
            let handled = self.handled.iter().find(|one| one.number == number)?;
            let session = handled.session.clone();
            let lane = self.lane(side, Some(&session));
            if self.queue(lane, line) {
                return None;
            }
            self.hold(number, side, &session);
        }
        let awaited = self.awaited.remove(at);
        *awaited.slot.borrow_mut() = Some(line.to_vec());
        Some(number)
    }

    /// Opens the next lane that nobody holds, at or after a place, and takes a line from it. Lanes
    /// that are empty go.
    pub fn next_held(&mut self, from: &mut usize) -> Option<(Side, Vec<u8>)> {
        self.open = None;
        while let Some(lane) = self.lanes.get_mut(*from) {
            if lane.holder.is_some() {
                *from += 1;
            } else if let Some(line) = lane.queue.pop_front() {
                self.open = Some(lane.number);
                return Some((lane.side, line));
            } else {
                self.lanes.remove(*from);
                *from = 0; // what went on may have freed an earlier one
            }
        }
        None
    }
}
