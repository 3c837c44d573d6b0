//! The proxy: who handles what, and the walk of a line.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};

use crate::channel::{Handled, Head, Shared, Task};
use crate::{scan, strings, Message, Side};

const UPDATE: &str = "session/update";

/// What a proxy handles, and what is under way in it.
#[derive(Default)]
pub struct Proxy {
    channel: Shared,
    handlers: Vec<Handler>,
}

struct Handler {
    method: &'static str,
    /// One kind of update only.
    update: Option<&'static str>,
    start: Box<dyn Fn(Message) -> Task>,
}

impl Proxy {
    /// One that passes everything.
    pub fn new() -> Proxy {
        Proxy::default()
    }

    /// Declares who handles requests and notifications of a method, from any side. `configure` can be
    /// handled too; the settings are known by then.
    pub fn handle<F>(&mut self, method: &'static str, handler: F)
    where
        F: AsyncFn(&mut Message) + 'static,
    {
        self.declare(method, None, handler);
    }

    /// Declares who handles one kind of update of the agent's; it goes before a handler of all of
    /// `session/update`.
    pub fn update<F>(&mut self, kind: &'static str, handler: F)
    where
        F: AsyncFn(&mut Message) + 'static,
    {
        self.declare(UPDATE, Some(kind), handler);
    }

    fn declare<F>(&mut self, method: &'static str, update: Option<&'static str>, handler: F)
    where
        F: AsyncFn(&mut Message) + 'static,
    {
        let handler = Rc::new(handler);
        let start = Box::new(move |mut message: Message| -> Task {
            let handler = Rc::clone(&handler);
            Box::pin(async move {
                handler(&mut message).await;
                message
            })
        });
        self.handlers.push(Handler {
            method,
            update,
            start,
        });
    }

    /// Takes the lines of one delivery; what the proxy has to say. What a host does, for tests.
    pub fn deliver(&mut self, lines: &[u8]) -> Vec<u8> {
        self.run(lines);
        self.channel.borrow().out.clone()
    }

    /// The same; where what it has to say begins, and its length, until the next.
    pub(crate) fn run(&mut self, lines: &[u8]) -> (usize, usize) {
        self.channel.borrow_mut().out.clear();
        let mut rest = lines;
        while !rest.is_empty() {
            let end = scan::line(rest, 0);
            if let [side, line @ ..] = &rest[..end] {
                if let (Some(side), false) = (Side::of(*side), line.is_empty()) {
                    self.receive(side, line);
                    self.drain();
                }
            }
            rest = &rest[rest.len().min(end + 1)..];
        }
        let channel = self.channel.borrow();
        (channel.out.as_ptr() as usize, channel.out.len())
    }

    /// Lets go on what waits for nobody any more.
    fn drain(&self) {
        let mut at = 0;
        loop {
            let held = self.channel.borrow_mut().next_held(&mut at);
            let Some((side, line)) = held else { return };
            self.receive(side, &line);
        }
    }

    fn receive(&self, side: Side, line: &[u8]) {
        let mut channel = self.channel.borrow_mut();
        let Some(head) = Head::read(line) else {
            return channel.pass(side, line);
        };
        if head.method.is_none() {
            let number = channel.answered(side, line, &head);
            drop(channel);
            if let Some(number) = number {
                self.go_on(number);
            }
        } else if !channel.wait(side, line, &head) {
            drop(channel);
            self.dispatch(side, line, &head);
        }
    }

    fn dispatch(&self, side: Side, line: &[u8], head: &Head) {
        if side == Side::Conductor && head.is(line, "configure") {
            self.channel.borrow_mut().settings = line.to_vec();
        }
        if let Some(handler) = self.handler(line, head) {
            return self.start(handler, side, line, head);
        }
        if side != Side::Conductor {
            return self.channel.borrow_mut().pass(side, line);
        }
        Message::new(Rc::clone(&self.channel), side, line, head, 0).discard();
    }

    fn handler(&self, line: &[u8], head: &Head) -> Option<&Handler> {
        let of = |handler: &&Handler| head.is(line, handler.method);
        let kind = |handler: &&Handler| {
            let said = head.param(line, &["update", "sessionUpdate"]);
            said.is_some_and(|said| handler.update.is_some_and(|kind| strings::is(said, kind)))
        };
        let mut all = self.handlers.iter();
        all.clone()
            .filter(|handler| handler.update.is_some())
            .find(|handler| of(handler) && kind(handler))
            .or_else(|| all.find(|handler| handler.update.is_none() && of(handler)))
    }

    fn start(&self, handler: &Handler, side: Side, line: &[u8], head: &Head) {
        let id = head.id(line).map(<[u8]>::to_vec);
        let session = head.session(line);
        let turn = side == Side::Client && head.is(line, "session/prompt");
        let number = {
            let mut channel = self.channel.borrow_mut();
            let number = channel.number();
            if side != Side::Conductor {
                channel.hold(number, side, &session);
            }
            number
        };
        let message = Message::new(Rc::clone(&self.channel), side, line, head, number);
        let task = Some((handler.start)(message));
        self.channel.borrow_mut().handled.push(Handled {
            number,
            side,
            id,
            session,
            turn,
            task,
        });
        self.go_on(number);
    }

    /// Lets a handler go on to where it waits next, or ends.
    fn go_on(&self, number: u32) {
        let taken = self
            .channel
            .borrow_mut()
            .task(number)
            .and_then(Option::take);
        let Some(mut task) = taken else {
            return; // the answer came too late for it
        };
        match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(message) => {
                message.finish();
                self.channel.borrow_mut().end(number);
            }
            Poll::Pending => {
                let mut channel = self.channel.borrow_mut();
                assert!(
                    channel.waits(number),
                    "a handler waits for what is not of this library"
                );
                if let Some(place) = channel.task(number) {
                    *place = Some(task);
                }
            }
        }
    }
}
