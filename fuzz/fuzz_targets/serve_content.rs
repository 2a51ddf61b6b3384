#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bentpipe_fuzz::serve::fuzz_content(data));
