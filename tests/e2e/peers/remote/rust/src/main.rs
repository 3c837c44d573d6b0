//! The Rust SDK over HTTP and WebSocket.
//!
//! `rust-peers serve PROGRAM ARGUMENT…` serves that agent and writes its address on one line;
//! `rust-peers client ADDRESS new|load` plays the scenario and writes what it saw as JSON.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, LoadSessionRequest, NewSessionRequest, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, SessionUpdate, TextContent,
};
use agent_client_protocol::{AcpAgent, AcpAgentConfig, Agent, Client};
use agent_client_protocol_http::{AcpHttpServer, HttpClient};
use serde_json::json;
use tokio::net::TcpListener;

const PROMPT: &str = "Grüße, 世界";
const KEPT: &str = "kept-1";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("serve") if words.len() > 1 => serve(&words[1..]).await,
        Some("client") if words.len() == 3 => client(&words[1], words[2] == "load").await,
        _ => Err("rust-peers serve PROGRAM ARGUMENT… | rust-peers client ADDRESS new|load".into()),
    }
}

async fn serve(command: &[String]) -> Result<(), Box<dyn Error>> {
    let config = AcpAgentConfig::new(&command[0]).args(&command[1..]);
    let app = AcpHttpServer::new(move || AcpAgent::new(config.clone())).into_router();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/acp", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn client(address: &str, load: bool) -> Result<(), Box<dyn Error>> {
    let texts: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = texts.clone();
    let played = Client
        .v1()
        .on_receive_notification(
            async move |said: SessionNotification, _connection| {
                let chunk = match said.update {
                    SessionUpdate::AgentMessageChunk(chunk) => chunk,
                    SessionUpdate::UserMessageChunk(chunk) => chunk,
                    _ => return Ok(()),
                };
                if let ContentBlock::Text(text) = chunk.content {
                    heard.lock().expect("no panic before").push(text.text);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |asked: RequestPermissionRequest, responder, _connection| {
                let chosen = SelectedPermissionOutcome::new(asked.options[0].option_id.clone());
                let outcome = RequestPermissionOutcome::Selected(chosen);
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(
            HttpClient::with_endpoint(address)?,
            async move |agent: ConnectionTo<Agent>| {
                let first = InitializeRequest::new(ProtocolVersion::V1);
                agent.send_request(first).block_task().await?;
                let folder = PathBuf::from("/");
                let session = if load {
                    let wanted = LoadSessionRequest::new(KEPT, folder);
                    agent.send_request(wanted).block_task().await?;
                    KEPT.into()
                } else {
                    let wanted = NewSessionRequest::new(folder);
                    agent.send_request(wanted).block_task().await?.session_id
                };
                let replayed = std::mem::take(&mut *texts.lock().expect("no panic before"));
                let prompt = vec![ContentBlock::Text(TextContent::new(PROMPT))];
                let asked = PromptRequest::new(session, prompt);
                let answer = agent.send_request(asked).block_task().await?;
                let texts = texts.lock().expect("no panic before").clone();
                Ok(json!({"replayed": replayed, "texts": texts, "stop": answer.stop_reason}))
            },
        )
        .await;
    println!("{}", played.unwrap_or_else(|error| json!({"error": error.to_string()})));
    Ok(())
}
