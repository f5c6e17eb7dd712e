//! The fuzz target `definitions`: see `fuzz::definitions_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::definitions_target::check(bytes));
