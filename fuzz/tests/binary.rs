//! Replays the committed corpora of the binary protocol's targets: each input, every cut of it, bytes of it changed,
//! and other cuts and commands over the same bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a corpus is files"
)]

mod replay;

use replay::replay;

/// Inputs above this size are replayed as they are only.
const VARIED_MAX: usize = 192;

#[test]
fn frames_corpus_replays() {
    replay(
        "binary_frames",
        180,
        VARIED_MAX,
        qq_fuzz::binary_frames::binary_frames,
    );
}

#[test]
fn server_corpus_replays() {
    replay(
        "binary_server",
        110,
        VARIED_MAX,
        qq_fuzz::binary_connection::binary_server,
    );
}

#[test]
fn client_corpus_replays() {
    replay(
        "binary_client",
        130,
        VARIED_MAX,
        qq_fuzz::binary_connection::binary_client,
    );
}
