//! Replays the committed corpora of the connection targets.

#![expect(clippy::disallowed_methods, reason = "corpora are files")]

use std::fs;
use std::path::Path;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is there") {
        let path = entry.expect("readable").path();
        let data = fs::read(&path).expect("readable");
        println!("{}", path.display());
        target(&data);
        // Other cuts and commands over the same bytes.
        for seed in 0..16_u16 {
            let mut varied = data.clone();
            if let Some(start) = varied.first_chunk_mut::<2>() {
                *start = (u16::from_be_bytes(*start) ^ (seed << 8 | seed)).to_be_bytes();
                target(&varied);
            }
        }
        count += 1;
    }
    assert!(count > 0, "an empty corpus tests nothing");
}

#[test]
fn connection_server() {
    replay("connection_server", qq_fuzz::connection::connection_server);
}

#[test]
fn connection_client() {
    replay("connection_client", qq_fuzz::connection::connection_client);
}
