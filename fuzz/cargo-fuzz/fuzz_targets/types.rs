//! libFuzzer wrapper of `qq_fuzz::types::types`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::types::types(data));
