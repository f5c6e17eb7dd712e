//! The Python module `harrier._harrier`: connections, deliveries and bodies, on the client of this tree.
//!
//! Enters: calls of the Python sources beside it, which have pika's words.  Leaves: Python objects and exceptions.
//! Owns:   one client a connection, on the thread that opened it.
//!
//! Python's interpreter lock is released wherever a call may wait.

// `forbid` would not let `buffer` say otherwise: Python's buffer protocol hands out addresses.
#![deny(unsafe_code)]

mod basic_properties;
mod buffer;
mod calls;
mod connection;
mod delivery;
mod errors;
mod limits;
mod outgoing_body;
mod signals;
mod thread_clients;
mod values;

use pyo3::prelude::*;

#[pymodule]
mod _harrier {
    #[pymodule_export]
    use crate::basic_properties::BasicProperties;
    #[pymodule_export]
    use crate::buffer::{Block, LentBody};
    #[pymodule_export]
    use crate::connection::{ChannelHandle, PythonConnection};
    #[pymodule_export]
    use crate::delivery::Delivery;
}
