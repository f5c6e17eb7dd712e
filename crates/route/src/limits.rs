//! Limits of what is read and asked.

use std::time::Duration;

/// Bytes of a file that declares a topology.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Brokers that are probed.
pub const BROKERS_MAX: usize = 256;
/// How long a broker's answers may take, unless it is said.
pub const TIMEOUT: Duration = Duration::from_secs(10);
