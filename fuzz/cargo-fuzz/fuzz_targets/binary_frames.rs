//! libFuzzer wrapper of `qq_fuzz::binary_frames::binary_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| qq_fuzz::binary_frames::binary_frames(data));
