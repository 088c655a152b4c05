//! libFuzzer wrapper of `qq_fuzz::node::node`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::node::node(data));
