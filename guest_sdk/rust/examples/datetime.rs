//! Puts the date and the time in front of every prompt: agents guess them otherwise.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;
use core::cell::Cell;

use conductor_guest::{json, Message, Proxy, Side};

conductor_guest::proxy!(declare);

pub fn declare(proxy: &mut Proxy) {
    let warned = Cell::new(false);
    proxy.handle("session/prompt", async move |message: &mut Message| {
        let array = message
            .raw(&["prompt"])
            .is_some_and(|raw| raw.starts_with('['));
        if message.side() != Side::Client || !message.is_request() || !array {
            return;
        }
        match message.clock().await {
            Ok(now) => {
                let said = |name| json::get_text(&now, &[name]);
                if let (Some(date), Some(time)) = (said("date"), said("time")) {
                    let element = format!("<current-date date=\"{date}\" time=\"{time}\"/>");
                    message.preface(&element);
                }
            }
            Err(failure) if !warned.replace(true) => {
                let reason = "no clock, prompts go on without the date";
                message.log("warn", &format!("datetime: {reason}: {failure}"));
            }
            Err(_) => {}
        }
    });
}
