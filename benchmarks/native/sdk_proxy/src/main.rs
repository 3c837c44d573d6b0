//! A proxy on the Rust SDK with no handler of its own, so each message takes
//! the SDK's default path. What it costs is what any SDK proxy costs at least.

use agent_client_protocol::{Error, Proxy, Stdio};

#[tokio::main]
async fn main() -> Result<(), Error> {
    Proxy.v1().name("passthrough").connect_to(Stdio::new()).await
}
