//! The fuzz target `session`: see `fuzz::session_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::session_target::check(bytes));
