//! The fuzz target `arguments`: see `fuzz::arguments_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::arguments_target::check(bytes));
