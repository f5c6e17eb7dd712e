//! The load generator: publishers, consumers and responders in processes of their own, closed loop and open loop, what they
//! send, and stand-ins for the broker that show what the generator itself can do.
//!
//! Read `scenario` first (a closed loop), then `workload` (a described load) and `role` (what the processes do).
#![forbid(unsafe_code)]

pub mod certificate;
pub mod device_probe;
pub mod interleaved;
pub mod limits;
pub mod patterns;
pub mod perf_table;
pub mod rate_search;
pub mod role;
pub mod scenario;
pub mod workload;
