//! libFuzzer wrapper of `qq_fuzz::connection::connection_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::connection::connection_client(data));
