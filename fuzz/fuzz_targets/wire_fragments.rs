#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bentpipe_fuzz::wire::fuzz_fragments(data));
