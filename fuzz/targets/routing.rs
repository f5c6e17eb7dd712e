//! The fuzz target `routing`: see `fuzz::routing_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::routing_target::check(bytes));
