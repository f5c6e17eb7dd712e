//! As much AMQP as a hostile peer needs to be offered a body, or to offer one. It never closes cleanly.

use super::format::DATA;
use super::peer::HostilePeer;
use wire::frame::{FRAME_HEADER, FRAME_METHOD, append};
use wire::method::{Method, basic, channel, connection};
use wire::{ChannelNumber, PROTOCOL_HEADER, ShortStr, Table, TableRef, Value};

/// The peer's side of an AMQP connection.
#[derive(Default)]
pub struct Talk {
    unread: Vec<u8>,
}

fn frame(channel: ChannelNumber, method: Method<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode_frame(channel, &method, &mut bytes);
    bytes
}

/// Authenticates as `guest`.
pub fn start_ok(claims_token: bool) -> Vec<u8> {
    let capabilities = Table::new().with("harrier.rdma_token", Value::Bool(claims_token)).expect("short");
    let properties = Table::new().with("capabilities", Value::Table(capabilities)).expect("short").to_bytes();
    let start_ok = connection::StartOk {
        client_properties: TableRef::new(&properties),
        mechanism: ShortStr::literal("PLAIN"),
        response: b"\0guest\0guest",
        locale: ShortStr::literal("en_US"),
    };
    frame(ChannelNumber::CONNECTION, start_ok.into())
}

/// Accepts the tuning, and opens the virtual host.
pub fn tune_ok_and_open(tune: &connection::Tune) -> Vec<u8> {
    let tune_ok = connection::TuneOk { channel_max: tune.channel_max, frame_max: tune.frame_max, heartbeat: 0 };
    let open = connection::Open { virtual_host: ShortStr::literal("/") };
    [frame(ChannelNumber::CONNECTION, tune_ok.into()), frame(ChannelNumber::CONNECTION, open.into())].concat()
}

impl Talk {
    /// The payload of the broker's next method frame.
    fn method(&mut self, peer: &mut HostilePeer) -> Vec<u8> {
        loop {
            if let Some((found, bytes)) = wire::frame::split(&self.unread, u32::MAX).expect("whole frames") {
                let (kind, payload) = (found.kind, found.payload.to_vec());
                self.unread.drain(..bytes);
                assert_eq!(kind, FRAME_METHOD);
                return payload;
            }
            let message = peer.next(DATA, "an answer of AMQP");
            self.unread.extend(message.payload);
        }
    }

    /// Logs in, and opens channel 1.
    pub fn open(peer: &mut HostilePeer) {
        let mut talk = Talk::default();
        peer.stream(&PROTOCOL_HEADER);
        assert!(matches!(Method::decode(&talk.method(peer)), Ok(Method::ConnectionStart(_))));
        peer.stream(&start_ok(false));
        let tune = talk.method(peer);
        let Ok(Method::ConnectionTune(tune)) = Method::decode(&tune) else { panic!("connection.tune") };
        peer.stream(&tune_ok_and_open(&tune));
        assert!(matches!(Method::decode(&talk.method(peer)), Ok(Method::ConnectionOpenOk(_))));
        peer.stream(&frame(ChannelNumber(1), channel::Open {}.into()));
        assert!(matches!(Method::decode(&talk.method(peer)), Ok(Method::ChannelOpenOk(_))));
    }

    /// Consumes from a queue without acknowledgements.
    pub fn consume(peer: &mut HostilePeer, queue: &str) {
        let empty = Table::new().to_bytes();
        let consume = basic::Consume {
            queue: ShortStr::new(queue.as_bytes()).expect("short"),
            consumer_tag: ShortStr::literal("c"),
            no_local: false,
            no_ack: true,
            exclusive: false,
            no_wait: false,
            arguments: TableRef::new(&empty),
        };
        // The reply may share a message with the first delivery.
        peer.stream(&frame(ChannelNumber(1), consume.into()));
    }
}

/// Announces a message and one frame of its body, whose bytes are still to come.
pub fn begin_publish(queue: &str, body_bytes: u64, frame_bytes: u32) -> Vec<u8> {
    let publish = basic::Publish {
        exchange: ShortStr::literal(""),
        routing_key: ShortStr::new(queue.as_bytes()).expect("short"),
        mandatory: false,
        immediate: false,
    };
    let mut bytes = frame(ChannelNumber(1), publish.into());
    let mut head = vec![0, 60, 0, 0];
    head.extend(body_bytes.to_be_bytes());
    head.extend([0, 0]);
    append(FRAME_HEADER, ChannelNumber(1), &head, &mut bytes);
    bytes.extend([3, 0, 1]);
    bytes.extend(frame_bytes.to_be_bytes());
    bytes
}
