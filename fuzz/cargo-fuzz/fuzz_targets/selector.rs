//! libFuzzer wrapper of `qq_fuzz::selector::selector`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::selector::selector(data));
