//! The fuzz target `management`: see `fuzz::management_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::management_target::check(bytes));
