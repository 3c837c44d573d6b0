//! Writes the JSON Schemas of all messages of ACP, versions 1 and 2, with what is unstable, without
//! the descriptions: `cargo run -- FOLDER`.

use std::{env, fs, path::PathBuf};

use agent_client_protocol_schema::{v1, v2};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json, to_string_pretty};

macro_rules! definitions {
    ($version:ident: $($kind:ident),*) => {{
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        $(let _ = generator.subschema_for::<$version::$kind>();)*
        json!({"$defs": generator.take_definitions(true)})
    }};
}

macro_rules! all {
    ($version:ident) => {
        definitions!($version: AgentRequest, AgentResponse, AgentNotification, ClientRequest,
            ClientResponse, ClientNotification, ProtocolLevelNotification, ProxyRequest,
            ProxyResponse, ProxyNotification)
    };
}

/// Takes out the texts for people.
fn bare(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(name, held)| {
                !(held.is_string() && ["description", "title"].contains(&name.as_str()))
            })
            .map(|(name, held)| (name, bare(held)))
            .collect(),
        Value::Array(values) => values.into_iter().map(bare).collect(),
        other => other,
    }
}

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| ".".into()));
    for (name, schema) in [("v1.json", all!(v1)), ("v2.json", all!(v2))] {
        let text = to_string_pretty(&bare(schema)).expect("JSON");
        fs::write(folder.join(name), text + "\n")?;
    }
    Ok(())
}
