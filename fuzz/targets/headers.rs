//! The fuzz target `headers`: see `fuzz::headers_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::headers_target::check(bytes));
