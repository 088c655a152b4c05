//! Replays the committed corpus of the HTTP guard: each input, every cut of it and bytes of it changed.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a corpus is files"
)]

mod replay;

#[test]
fn http_corpus_replays() {
    replay::replay("http", 8, 256, qq_fuzz::http::http);
}
