//! The RDMA device itself between two processes, without AMQP or a broker.
//!
//! `segment_driver` has both sides of a segment, `connect` their handshake.

pub mod connect;
pub mod device;
pub mod endpoint;
mod segment_driver;
pub mod verbs_request;
