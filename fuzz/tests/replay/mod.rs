//! Replays a committed corpus.

use std::fs;
use std::path::Path;

/// Runs each input of a corpus, every cut of it, and each byte of it changed; inputs longer than `varied_len_max` only as
/// they are.
pub(crate) fn replay(name: &str, inputs_min: usize, varied_len_max: usize, target: fn(&[u8])) {
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
        if data.len() > varied_len_max {
            continue;
        }
        for at in 0..data.len() {
            target(&data[..at]);
            let mut varied = data.clone();
            for changed in [0x00, 0x01, 0x40, 0x7f, 0xff, data[at] ^ 0x10] {
                varied[at] = changed;
                target(&varied);
            }
        }
    }
}
