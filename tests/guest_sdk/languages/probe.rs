//! The proxy that probe.txt describes.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

use alloc::format;

use conductor_guest::{json, Message, Proxy, Side};

conductor_guest::proxy!(declare);

pub fn declare(proxy: &mut Proxy) {
    proxy.handle("session/new", async |message: &mut Message| {
        if let Ok(result) = message.next().await {
            message.answer(&format!("{{\"wrapped\":{result}}}"));
        }
    });
    proxy.handle("session/list", async |message: &mut Message| {
        message.answer("{\"sessions\":[]}");
    });
    proxy.handle("session/delete", async |message: &mut Message| {
        let session = message.raw(&["sessionId"]).unwrap_or_default();
        message.fail(-32001, &format!("never {session}"));
    });
    proxy.handle("session/prompt", async |message: &mut Message| {
        let word = message.setting("word").unwrap_or("null".into());
        let params = format!("{{\"word\":{word}}}");
        let _ = message.ask(Side::Agent, "_probe/warm", Some(&params)).await;
    });
    proxy.handle("session/fork", async |message: &mut Message| {
        let _ = message.ask(Side::Agent, "_probe/slow", None).await;
        if message.cancelled() {
            message.fail(-32800, "Request cancelled");
        }
    });
    proxy.handle("_probe/ask", async |message: &mut Message| {
        let params = Some("{\"key\":\"k\"}");
        if let Ok(kept) = message.ask(Side::Conductor, "kv/get", params).await {
            message.answer(json::get(&kept, &["value"]).unwrap_or("null"));
        }
    });
    proxy.handle("configure", async |message: &mut Message| {
        if let Some(kept) = message.raw(&["kept"]) {
            message.notify(Side::Conductor, "keep", &format!("{{\"b\":{kept}}}"));
        }
    });
    proxy.update("plan", async |message: &mut Message| message.discard());
    proxy.update("usage_update", async |message: &mut Message| {
        let _ = message
            .ask(Side::Conductor, "kv/get", Some("{\"key\":\"k\"}"))
            .await;
    });
    proxy.handle("timer/fired", async |message: &mut Message| {
        message.notify(Side::Client, "_probe/fired", "{\"n\":1.0}");
        message.log("info", "fired");
    });
}
