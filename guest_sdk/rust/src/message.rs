//! A request or notification in a handler's hands.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::answer::{self, Answer, Failure, Waiting};
use crate::channel::{Head, Shared};
use crate::json::{self, Place};
use crate::{strings, text, Side};

/// Whether a text begins so that no agent takes it for a command; what is no text does.
fn is_plain(text: &str) -> bool {
    match text.as_bytes() {
        [b'"', b'\\', second, ..] => *second == b'"',
        [b'"', byte, ..] => !matches!(
            byte,
            b' ' | b'/' | b'$' | b'!' | b'#' | b':' | b'@' | b'&' | b'~' | b'%' | b'^' | b'*' | b'+'
            | b'-' | b'.' | b'?' | 0x7f
            // What is not seen, and what looks like a mark, is among what begins so.
            | 0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xef | 0xf3
        ),
        _ => true,
    }
}

/// Whether a prompt begins with a text that no agent takes for a command, or has none. A command must
/// begin its prompt, and agents have marks of their own for them. What comes with it before its first
/// text counts too: some agents read that first. A skill is a command in a block of its own.
fn begins_plainly(prompt: &str) -> bool {
    for block in json::elements(prompt).unwrap_or_default() {
        let at = |path: &[&str]| json::get(block, path).unwrap_or_default();
        let said = at(&["text"]);
        if !is_plain(said) || !is_plain(at(&["resource", "text"])) {
            return false;
        }
        match json::text(at(&["type"])).as_deref() {
            Some("skill") => return false,
            Some("text") if said.starts_with('"') && said.len() > 2 => return true,
            _ => {}
        }
    }
    true
}

/// A request or notification in a handler's hands.
pub struct Message {
    channel: Shared,
    side: Side,
    line: Vec<u8>,
    /// Where the params are in it.
    params: Option<Place>,
    id: Option<Vec<u8>>,
    pub(crate) number: u32,
    settled: bool,
    passed: bool,
    answered: Option<Vec<u8>>,
}

impl Message {
    pub(crate) fn new(
        channel: Shared,
        side: Side,
        line: &[u8],
        head: &Head,
        number: u32,
    ) -> Message {
        let id = head.id(line).map(<[u8]>::to_vec);
        let (line, params) = (line.to_vec(), head.params.clone());
        let (settled, passed, answered) = (false, false, None);
        Message {
            channel,
            side,
            line,
            params,
            id,
            number,
            settled,
            passed,
            answered,
        }
    }

    /// Who said it.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Whether it is a request; if not, it is a notification.
    pub fn is_request(&self) -> bool {
        self.id.is_some()
    }

    /// The raw id; `None` for a notification.
    pub fn id(&self) -> Option<&str> {
        core::str::from_utf8(self.id.as_deref()?).ok()
    }

    /// The raw JSON of what is there in the params.
    pub fn raw(&self, path: &[&str]) -> Option<&str> {
        core::str::from_utf8(&self.line[self.place(path)?]).ok()
    }

    /// A text in the params, decoded; `None` if it is none.
    pub fn text(&self, path: &[&str]) -> Option<String> {
        strings::decode(&self.line[self.place(path)?])
    }

    /// Replaces a value in the params by raw JSON; all other bytes stay. False if there is none.
    pub fn set(&mut self, path: &[&str], value: &str) -> bool {
        let place = self.place(path);
        if let Some(place) = place.clone() {
            self.splice(place, value, "");
        }
        place.is_some()
    }

    /// The same with a text.
    pub fn set_text(&mut self, path: &[&str], text: &str) -> bool {
        self.set(path, &json::quote(text))
    }

    /// Puts raw JSON in front of the elements of an array in the params. False if there is none.
    pub fn prepend(&mut self, path: &[&str], element: &str) -> bool {
        let Some(Place { start, .. }) = self.place(path) else {
            return false;
        };
        if self.line[start] != b'[' {
            return false;
        }
        let at = start + 1;
        let first = self.line[json::space(&self.line, at)];
        self.splice(at..at, element, if first == b']' { "" } else { "," });
        true
    }

    /// Puts a text in front of a prompt; behind one that may be a command, on a line of its own. False
    /// if there is no prompt.
    pub fn preface(&mut self, said: &str) -> bool {
        let prompt = self.raw(&["prompt"]).filter(|raw| raw.starts_with('['));
        if prompt.is_none_or(begins_plainly) {
            return self.prepend(&["prompt"], &text(said));
        }
        let Some(Place { end, .. }) = self.place(&["prompt"]) else {
            return false;
        };
        let element = [",", &text(&["\n", said].concat())].concat();
        self.splice(end - 1..end - 1, &element, "");
        true
    }

    /// Passes it on as it is now; the answer goes back by itself.
    pub fn pass(&mut self) {
        if self.settled || self.passed {
            return;
        }
        match self.side.other() {
            Some(other) => self.channel.borrow_mut().write(other, &[&self.line]),
            None => return self.discard(),
        }
        self.settle();
    }

    /// Passes a request on as it is now, and waits for the answer. That goes back as it came, unless
    /// the handler ends it otherwise. What has no answer to come is passed on too, and comes to an
    /// error at once.
    pub async fn next(&mut self) -> Answer {
        let (Some(id), Some(other)) = (self.id.clone(), self.side.other()) else {
            self.pass();
            return Err(Failure::none());
        };
        if self.settled || self.passed {
            return Err(Failure::none());
        }
        self.passed = true;
        let slot = {
            let mut channel = self.channel.borrow_mut();
            channel.write(other, &[&self.line]);
            channel.release(self.number);
            channel.expect(other, id, self.number, true)
        };
        let line = Waiting(slot).await;
        let answer = answer::read(&line);
        self.answered = Some(line);
        answer
    }

    /// Answers a request with raw JSON.
    pub fn answer(&mut self, result: &str) {
        self.reply("\"result\":", result);
    }

    /// Answers a request with an error.
    pub fn fail(&mut self, code: i64, text: &str) {
        let mut error = String::from("{\"code\":");
        error.push_str(&code.to_string());
        error.push_str(",\"message\":");
        error.push_str(&json::quote(text));
        error.push('}');
        self.reply("\"error\":", &error);
    }

    /// Lets a notification go no further. A request has to be answered, so this fails it.
    pub fn discard(&mut self) {
        self.fail(-32601, "Method not found");
    }

    /// Sends a request of the handler's own, its params as raw JSON, and waits for the answer.
    pub async fn ask(&self, side: Side, method: &str, params: Option<&str>) -> Answer {
        let method = json::quote(method);
        let params = params.map(json::one_line);
        let slot = {
            let mut channel = self.channel.borrow_mut();
            let id = channel.own_id(side);
            let (member, params) = params
                .as_deref()
                .map_or(("", ""), |raw| (",\"params\":", raw));
            channel.write(
                side,
                &[
                    b"{\"jsonrpc\":\"2.0\",\"id\":",
                    &id,
                    b",\"method\":",
                    method.as_bytes(),
                    member.as_bytes(),
                    params.as_bytes(),
                    b"}",
                ],
            );
            channel.expect(side, id, self.number, false)
        };
        answer::read(&Waiting(slot).await)
    }

    /// Asks the conductor what time it is.
    pub async fn clock(&self) -> Answer {
        self.ask(Side::Conductor, "clock", None).await
    }

    /// Sends a notification of the handler's own, its params as raw JSON.
    pub fn notify(&self, side: Side, method: &str, params: &str) {
        let method = json::quote(method);
        let parts = [
            "{\"jsonrpc\":\"2.0\",\"method\":",
            &method,
            ",\"params\":",
            &json::one_line(params),
            "}",
        ];
        self.channel
            .borrow_mut()
            .write(side, &parts.map(str::as_bytes));
    }

    /// Writes to the conductor's log: `debug`, `info`, `warn` or `error`.
    pub fn log(&self, level: &str, text: &str) {
        let (level, text) = (json::quote(level), json::quote(text));
        let params = ["{\"level\":", &level, ",\"message\":", &text, "}"].concat();
        self.notify(Side::Conductor, "log", &params);
    }

    /// The raw JSON of a setting, the user's choice; `None` if it was not made.
    pub fn setting(&self, name: &str) -> Option<String> {
        let channel = self.channel.borrow();
        let settings = core::str::from_utf8(&channel.settings).ok()?;
        Some(json::get(settings, &["params", "config", name])?.into())
    }

    /// Whether nobody wants the answer any more, said before it was passed on: the client has cancelled
    /// the request, or the turn it begins. What was asked for it is cancelled then by itself.
    pub fn cancelled(&self) -> bool {
        self.channel.borrow().cancelled(self.number)
    }

    /// Does what is left to do when the handler has ended.
    pub(crate) fn finish(mut self) {
        if self.settled {
            return;
        }
        if let Some(line) = self.answered.take() {
            self.channel.borrow_mut().write(self.side, &[&line]);
            self.settle();
        }
        self.pass();
    }

    fn place(&self, path: &[&str]) -> Option<Place> {
        json::find(&self.line, self.params.clone()?, path)
    }

    /// Replaces a part of the params.
    fn splice(&mut self, place: Place, value: &str, comma: &str) {
        let value = json::one_line(value);
        let more = value.len() + comma.len();
        let mut line = Vec::with_capacity(self.line.len() - place.len() + more);
        line.extend_from_slice(&self.line[..place.start]);
        line.extend_from_slice(value.as_bytes());
        line.extend_from_slice(comma.as_bytes());
        line.extend_from_slice(&self.line[place.end..]);
        self.line = line;
        if let Some(params) = &mut self.params {
            params.end = params.end + more - place.len();
        }
    }

    fn reply(&mut self, member: &str, value: &str) {
        if self.settled {
            return;
        }
        self.channel.borrow_mut().forget_cancels(self.number);
        if let Some(id) = &self.id {
            let value = json::one_line(value);
            let parts = [
                b"{\"jsonrpc\":\"2.0\",\"id\":",
                &id[..],
                b",",
                member.as_bytes(),
                value.as_bytes(),
                b"}",
            ];
            self.channel.borrow_mut().write(self.side, &parts);
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.settled = true;
        self.channel.borrow_mut().release(self.number);
    }
}
