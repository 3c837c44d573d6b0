//! Plays a proxy natively: each delivery, and what comes of it, behind its length.

use std::io::{stdin, stdout, Read, Write};

use conductor_guest::Proxy;

#[path = "brief.rs"]
mod brief;
#[path = "datetime.rs"]
mod datetime;
#[path = "probe.rs"]
mod probe;
#[path = "readme.rs"]
mod readme;
#[path = "shout.rs"]
mod shout;

fn main() -> std::io::Result<()> {
    let mut proxy = Proxy::new();
    match std::env::args().nth(1).as_deref() {
        Some("brief") => brief::declare(&mut proxy),
        Some("datetime") => datetime::declare(&mut proxy),
        Some("probe") => probe::declare(&mut proxy),
        Some("readme") => readme::declare(&mut proxy),
        Some("shout") => shout::declare(&mut proxy),
        _ => panic!("which one?"),
    }
    let (mut given, mut said) = (stdin().lock(), stdout().lock());
    let mut length = [0; 4];
    while given.read_exact(&mut length).is_ok() {
        let mut lines = vec![0; u32::from_le_bytes(length) as usize];
        given.read_exact(&mut lines)?;
        let lines = proxy.deliver(&lines);
        said.write_all(&(lines.len() as u32).to_le_bytes())?;
        said.write_all(&lines)?;
        said.flush()?;
    }
    Ok(())
}
