//! Replays the committed corpora of the codec's and the filters' targets: each input, every cut of it, and each byte of it changed.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a corpus is files"
)]

mod replay;

use replay::replay;

/// Inputs above this size are replayed as they are only.
const VARIED_MAX: usize = 512;

#[test]
fn types_corpus_replays() {
    replay("types", 40, VARIED_MAX, qq_fuzz::types::types);
}

#[test]
fn frames_corpus_replays() {
    replay("frames", 30, VARIED_MAX, qq_fuzz::frames::frames);
}

#[test]
fn sections_corpus_replays() {
    replay("sections", 30, VARIED_MAX, qq_fuzz::sections::sections);
}

/// Compiling takes long in a debug build: only short inputs are varied.
#[test]
fn schema_corpus_replays() {
    replay("schema", 40, 48, qq_fuzz::schema::schema);
}

#[test]
fn selector_corpus_replays() {
    replay("selector", 30, VARIED_MAX, qq_fuzz::selector::selector);
}
