//! Replays the committed corpora of the binary protocol's targets: each input, every cut of it, bytes of it changed,
//! and other cuts and commands over the same bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a corpus is files"
)]

use std::fs;
use std::path::Path;

/// Inputs above this size are replayed as they are only.
const VARIED_MAX: usize = 192;

fn replay(name: &str, inputs_min: usize, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    assert!(
        paths.len() >= inputs_min,
        "the corpus of {name} lost inputs: {} left",
        paths.len()
    );
    for path in paths {
        println!("{}", path.display());
        let data = fs::read(&path).expect("readable");
        target(&data);
        if data.len() > VARIED_MAX {
            continue;
        }
        for at in 0..data.len() {
            target(&data[..at]);
            let mut varied = data.clone();
            for changed in [0x00, 0x01, 0x7f, 0xff, data[at] ^ 0x10] {
                varied[at] = changed;
                target(&varied);
            }
        }
    }
}

#[test]
fn frames_corpus_replays() {
    replay("binary_frames", 180, qq_fuzz::binary_frames::binary_frames);
}

#[test]
fn server_corpus_replays() {
    replay(
        "binary_server",
        110,
        qq_fuzz::binary_connection::binary_server,
    );
}

#[test]
fn client_corpus_replays() {
    replay(
        "binary_client",
        130,
        qq_fuzz::binary_connection::binary_client,
    );
}
