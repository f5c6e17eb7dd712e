//! The fuzz target `work`: see `fuzz::work_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::work_target::check(bytes));
