//! libFuzzer wrapper of `qq_fuzz::frames::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::frames::frames(data));
