//! libFuzzer wrapper of `qq_fuzz::sections::sections`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::sections::sections(data));
