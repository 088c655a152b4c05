//! libFuzzer wrapper of `qq_fuzz::schema::schema`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::schema::schema(data));
