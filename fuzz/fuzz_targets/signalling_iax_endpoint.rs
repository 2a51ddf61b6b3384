#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bentpipe_fuzz::signalling::fuzz_iax_endpoint(data));
