#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bentpipe_fuzz::offline::fuzz_inspect(data));
