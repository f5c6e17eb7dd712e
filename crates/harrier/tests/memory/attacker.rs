//! A client that sends whatever bytes it likes, and reads only when it wants to know something.

use super::PATIENCE;
use super::broker::LimitedBroker;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use wire::frame::{FRAME_BODY, FRAME_HEADER, FRAME_METHOD, append};
use wire::method::{Method, basic, channel, connection};
use wire::{ChannelNumber, PROTOCOL_HEADER, ShortStr, Table, TableRef, Value};

pub struct Attacker {
    pub stream: TcpStream,
}

/// A short string of a test.
pub fn short(text: &str) -> ShortStr<'_> {
    ShortStr::new(text.as_bytes()).expect("short")
}

pub fn method_frame(channel: u16, method: Method<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode_frame(ChannelNumber(channel), &method, &mut bytes);
    bytes
}

/// `channel.open`.
pub fn open_channel(channel: u16) -> Vec<u8> {
    method_frame(channel, channel::Open {}.into())
}

/// `basic.publish` to a queue, and the header of a body of this size.
pub fn announce(channel: u16, queue: &str, body_bytes: u64) -> Vec<u8> {
    announce_to(channel, ("", queue), &[0, 0], body_bytes)
}

/// `basic.publish` to an exchange with a routing key, without what comes behind it.
pub fn publish_method(channel: u16, (exchange, key): (&str, &str)) -> Vec<u8> {
    let (exchange, routing_key) = (short(exchange), short(key));
    let publish = basic::Publish { exchange, routing_key, mandatory: false, immediate: false };
    method_frame(channel, publish.into())
}

/// The same, and the header with these properties.
pub fn announce_to(channel: u16, to: (&str, &str), properties: &[u8], body_bytes: u64) -> Vec<u8> {
    let mut bytes = publish_method(channel, to);
    let head = [&[0, 60, 0, 0][..], &body_bytes.to_be_bytes(), properties].concat();
    append(FRAME_HEADER, ChannelNumber(channel), &head, &mut bytes);
    bytes
}

/// A body frame.
pub fn body(channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(FRAME_BODY, ChannelNumber(channel), payload, &mut bytes);
    bytes
}

impl Attacker {
    /// Logs in, with a user's name as its password, and opens `/`.
    pub fn connect(broker: &LimitedBroker, user: &str) -> Self {
        let stream = TcpStream::connect(&broker.address).expect("the broker listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        let mut attacker = Attacker { stream };
        let capabilities = Table::new().with("connection.blocked", Value::Bool(true)).expect("short");
        let properties = Table::new().with("capabilities", Value::Table(capabilities)).expect("short").to_bytes();
        let response = format!("\0{user}\0{user}");
        let start_ok = connection::StartOk {
            client_properties: TableRef::new(&properties),
            mechanism: ShortStr::literal("PLAIN"),
            response: response.as_bytes(),
            locale: ShortStr::literal("en_US"),
        };
        attacker.send(&PROTOCOL_HEADER).expect("sent");
        attacker.await_method("connection.start");
        attacker.send(&method_frame(0, start_ok.into())).expect("sent");
        attacker.await_method("connection.tune");
        let tune_ok = connection::TuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 0 };
        attacker.send(&method_frame(0, tune_ok.into())).expect("sent");
        attacker.send(&method_frame(0, connection::Open { virtual_host: short("/") }.into())).expect("sent");
        attacker.await_method("connection.open-ok");
        attacker
    }

    /// Sends all of these bytes, or as many as the broker takes before it ends the connection.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends bytes on another thread, as far as the broker reads them before the connection ends.
    pub fn send_in_background(&self, bytes: Vec<u8>) {
        let mut stream = self.stream.try_clone().expect("another handle");
        std::thread::spawn(move || {
            // The broker may never read all of it, and the connection ends some time.
            let _cut_short = stream.write_all(&bytes);
        });
    }

    /// The name of the next method; `None` when the connection has ended.
    pub fn next_method(&mut self) -> Option<String> {
        self.next_method_frame().map(|(_, method)| Method::decode(&method).expect("a method").name().to_owned())
    }

    /// Channel and reply code of the next `channel.close`; `None` if the connection ends first.
    pub fn await_channel_close(&mut self) -> Option<(u16, u16)> {
        loop {
            let (number, method) = self.next_method_frame()?;
            if let Method::ChannelClose(channel::Close { reply_code, .. }) = Method::decode(&method).expect("a method")
            {
                return Some((number, reply_code));
            }
        }
    }

    /// Channel and payload of the next method; `None` when the connection has ended.
    fn next_method_frame(&mut self) -> Option<(u16, Vec<u8>)> {
        loop {
            let mut head = [0; 7];
            if !self.read(&mut head) {
                return None;
            }
            let mut rest = vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize + 1];
            if !self.read(&mut rest) {
                return None;
            }
            rest.pop();
            if head[0] == FRAME_METHOD {
                return Some((u16::from_be_bytes([head[1], head[2]]), rest));
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the broker says nothing")
            }
            Err(_) => false,
        }
    }

    /// Waits for a method, past others; false if the connection ends first.
    pub fn await_method(&mut self, name: &str) -> bool {
        self.await_any(&[name]).is_some()
    }

    /// Waits for one of several methods; `None` if the connection ends first.
    pub fn await_any(&mut self, names: &[&str]) -> Option<String> {
        std::iter::from_fn(|| self.next_method()).find(|method| names.contains(&method.as_str()))
    }

    pub fn end(self) {
        // The broker may have ended it.
        let _ended = self.stream.shutdown(Shutdown::Both);
    }
}
