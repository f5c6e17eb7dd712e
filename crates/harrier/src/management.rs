//! The management API of a running broker, on a thread of its own.

mod broker_source;
mod limits;
mod live_tables;
mod rated;
mod report_reader;
