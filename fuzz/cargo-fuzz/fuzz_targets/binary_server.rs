//! libFuzzer wrapper of `qq_fuzz::binary_connection::binary_server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::binary_connection::binary_server(data));
