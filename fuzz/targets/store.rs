//! The fuzz target `store`: see `fuzz::store_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::store_target::check(bytes));
