//! Secrets where nobody else sees them: in files that only their owner can read, and on standard input, since everybody on the
//! machine sees the words of a command line.
#![forbid(unsafe_code)]

mod limits;
pub mod secret_file;
mod secret_input;

pub use secret_input::{read_address, read_password};
