//! The fuzz target `deaths`: see `fuzz::deaths_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::deaths_target::check(bytes));
