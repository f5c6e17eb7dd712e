//! The fuzz target `rdma`: see `fuzz::rdma_target`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::rdma_target::check(bytes));
