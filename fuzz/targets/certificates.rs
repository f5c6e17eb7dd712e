//! The fuzz target `certificates`: see `fuzz::certificates_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::certificates_target::check(bytes));
