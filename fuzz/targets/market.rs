//! The fuzz target `market`: see `fuzz::market_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::market_target::check(bytes));
