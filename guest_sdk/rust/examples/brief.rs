//! Puts a reminder in front of every prompt. What it does not mention passes unchanged.

#![cfg_attr(target_arch = "wasm32", no_std)]

use conductor_guest::{Message, Proxy};

conductor_guest::proxy!(declare);

pub fn declare(proxy: &mut Proxy) {
    proxy.handle("session/prompt", async |message: &mut Message| {
        message.preface("Answer briefly.");
    });
}
