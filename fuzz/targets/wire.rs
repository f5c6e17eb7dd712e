//! The fuzz target `wire`: see `fuzz::wire_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::wire_target::check(bytes));
