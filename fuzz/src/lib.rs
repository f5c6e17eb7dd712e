//! What must hold for any bytes: one module a target, run under a fuzzer by `fuzz/run SECONDS TARGET`.
//!
//! Enters: bytes that a fuzzer chose.  Leaves: nothing, or a panic that names the broken promise.
//! Owns:   the promises of each target, and the samples its corpus begins with.
//! Never:  keeps anything from one input to the next: a failure must repeat from its one file.
//!
//! A target joins with a module here (`check`, `samples`), a line in `TARGETS`, a `targets/NAME.rs` of three lines,
//! its `[[bin]]` in `Cargo.toml`, and `cargo run --bin samples`, in this folder, for its corpus.
#![forbid(unsafe_code)]

pub mod arguments_target;
pub mod certificates_target;
pub mod deaths_target;
pub mod definitions_target;
pub mod footer_target;
pub mod headers_target;
pub mod management_target;
pub mod market_target;
mod one_shard;
pub mod rdma_target;
mod restored_log;
pub mod routing_target;
pub mod session_target;
mod steps;
pub mod store_target;
mod tables;
pub mod wire_target;
pub mod work_target;

/// One target: what is checked, and what its corpus begins with.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the binary and of the corpus folder.
    pub name: &'static str,
    /// Panics if the bytes break a promise.
    pub check: fn(&[u8]),
    /// Names and bytes of samples that reach far into the code.
    pub samples: fn() -> Vec<(String, Vec<u8>)>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "wire", check: wire_target::check, samples: wire_target::samples },
    Target { name: "session", check: session_target::check, samples: session_target::samples },
    Target { name: "arguments", check: arguments_target::check, samples: arguments_target::samples },
    Target { name: "headers", check: headers_target::check, samples: headers_target::samples },
    Target { name: "deaths", check: deaths_target::check, samples: deaths_target::samples },
    Target { name: "definitions", check: definitions_target::check, samples: definitions_target::samples },
    Target { name: "certificates", check: certificates_target::check, samples: certificates_target::samples },
    Target { name: "management", check: management_target::check, samples: management_target::samples },
    Target { name: "market", check: market_target::check, samples: market_target::samples },
    Target { name: "rdma", check: rdma_target::check, samples: rdma_target::samples },
    Target { name: "routing", check: routing_target::check, samples: routing_target::samples },
    Target { name: "store", check: store_target::check, samples: store_target::samples },
    Target { name: "footer", check: footer_target::check, samples: footer_target::samples },
    Target { name: "work", check: work_target::check, samples: work_target::samples },
];

#[cfg(test)]
mod tests {
    use super::TARGETS;

    /// Without a fuzzer: every sample and every prefix of it keeps the promises.
    #[test]
    fn samples_and_their_prefixes_keep_the_promises() {
        for target in TARGETS {
            let samples = (target.samples)();
            assert!(!samples.is_empty(), "{} has no samples", target.name);
            for (_, bytes) in &samples {
                for cut in 0..=bytes.len() {
                    (target.check)(&bytes[..cut]);
                }
            }
        }
    }
}
