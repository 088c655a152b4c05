//! `COVERAGE.md` is what `amqp-conform --coverage` prints. To renew it:
//! `cargo run -p qq-conformance --bin amqp-conform -- --coverage > conformance/COVERAGE.md`

#[test]
fn coverage_file_is_current() {
    let kept = include_str!("../COVERAGE.md");
    let made = qq_conformance::coverage::table();
    assert!(
        kept == made,
        "COVERAGE.md is stale; see the head of tests/coverage.rs"
    );
}
