//! Replays the corpus of the node target.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a corpus is files"
)]

use std::fs;
use std::path::Path;

#[test]
fn node_corpus_replays() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/node");
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(
        paths.len() >= 13,
        "the corpus of node lost inputs: {} left",
        paths.len()
    );
    for path in paths {
        println!("{}", path.display());
        qq_fuzz::node::node(&fs::read(&path).unwrap());
    }
}
