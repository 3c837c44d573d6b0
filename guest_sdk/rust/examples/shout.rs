//! Makes the agent shout: what it says passes in capitals.

#![cfg_attr(target_arch = "wasm32", no_std)]

use conductor_guest::{Message, Proxy};

conductor_guest::proxy!(declare);

pub fn declare(proxy: &mut Proxy) {
    proxy.update("agent_message_chunk", shout);
}

async fn shout(message: &mut Message) {
    let path = ["update", "content", "text"];
    let Some(text) = message.text(&path) else {
        return;
    };
    let loud = text.to_uppercase();
    if loud != text {
        message.set_text(&path, &loud);
    }
}
