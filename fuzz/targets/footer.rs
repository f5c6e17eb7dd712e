//! The fuzz target `footer`: see `fuzz::footer_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::footer_target::check(bytes));
