//! The C library `libharrier`: Harrier's client behind functions of C, and the header that declares them.
//!
//! Enters: calls of C programs, on the thread that opened a connection.  Leaves: status codes, texts, borrowed memory.
//! Owns:   what crosses the boundary, and that no panic does; the protocol and all waits are the client's.
#![deny(unsafe_code)]

mod channel_api;
mod connection_api;
mod connections;
mod field_api;
mod foreign;
#[cfg(test)]
mod header;
mod limits;
mod message_api;
mod property_api;
mod status;
mod types;
mod values;
