//! libFuzzer wrapper of `qq_fuzz::http::http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::http::http(data));
