//! The greeting: how a server introduces itself.
//!
//! Enters: server properties, mechanisms, locales.  Leaves: the frame of `connection.start`, written once.
//! Owns:   that frame, shared by all connections.

use wire::{ChannelNumber, Method, Table, TableRef, TooLong, Value, method::connection};

/// `connection.start`, ready to send.
#[derive(Debug)]
pub struct Greeting {
    properties: Table,
    frame: Box<[u8]>,
    mechanisms: Box<str>,
}

impl Greeting {
    /// A greeting. `mechanisms` is a list with spaces between: `PLAIN AMQPLAIN`.
    pub fn new(server_properties: &Table, mechanisms: &str) -> Self {
        let properties = server_properties.to_bytes();
        let start = Method::from(connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: TableRef::new(&properties),
            mechanisms: mechanisms.as_bytes(),
            locales: b"en_US",
        });
        let mut frame = Vec::with_capacity(start.frame_len());
        wire::encode_frame(ChannelNumber::CONNECTION, &start, &mut frame);
        Self { properties: server_properties.clone(), frame: frame.into(), mechanisms: mechanisms.into() }
    }

    /// The same with one property more.
    ///
    /// # Errors
    /// A name of more than 255 bytes.
    pub fn with_property(&self, name: &str, value: Value) -> Result<Self, TooLong> {
        Ok(Self::new(&self.properties.clone().with(name, value)?, &self.mechanisms))
    }

    /// The same with other mechanisms.
    pub fn with_mechanisms(&self, mechanisms: &str) -> Self {
        Self::new(&self.properties, mechanisms)
    }

    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Whether it offers a mechanism.
    pub fn offers(&self, mechanism: &[u8]) -> bool {
        self.mechanisms.split(' ').any(|offered| offered.as_bytes() == mechanism)
    }
}
