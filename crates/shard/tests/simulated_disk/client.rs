//! A client over a simulated link: what it was confirmed, what it got, and how its connection ended.

use link::sim::{SimConnection, SimLink, SimOptions, SimSide, pair};
use link::{Link, ReceiveOutcome};
use session::{BodyOut, Event, Inbound, Outbound, PublishHead, SessionLimits};
use shard::Shard;
use slab::{Pool, PoolOptions};
use std::time::Instant;
use wire::method::{Method, basic, confirm, connection, tx};
use wire::{ChannelNumber, DeliveryTag, Properties, ShortStr, Table, TableRef, Value};

pub const CHANNEL: ChannelNumber = ChannelNumber(1);

pub struct StoredClient {
    link: SimLink,
    cable: SimConnection,
    slot: broker::ConnectionSlot,
    inbound: Inbound,
    out: Outbound,
    kept: Vec<u8>,
    pool: Pool,
    is_open: bool,
    /// Its channel has transactions, and no confirms.
    pub transacts: bool,
    /// How many commits were answered.
    pub committed: u64,
    /// The tag of the last publish that was confirmed.
    pub confirmed: u64,
    /// The numbers of messages that it got, and whether they were delivered before.
    pub got: Vec<(u64, bool)>,
    /// The queue was empty when it asked.
    pub found_none: bool,
    /// Why it may not publish.
    pub blocked: Option<String>,
    /// The code with which its connection was closed.
    pub closed: Option<u16>,
}

enum Step {
    Tune(connection::Tune),
    LogIn,
    OpenChannel,
    Open,
    Confirmed(DeliveryTag),
    Committed,
    Got(u64, bool),
    None,
    Blocked(Option<String>),
    Closed(u16),
    Other,
}

fn step_of(event: Event<'_>) -> Step {
    match event {
        Event::Start(_) => Step::LogIn,
        Event::Tune(tune) => Step::Tune(tune),
        Event::OpenOk => Step::OpenChannel,
        Event::ChannelOpened { .. } => Step::Open,
        Event::Method { method: Method::BasicAck(ack), .. } => Step::Confirmed(ack.delivery_tag),
        Event::Method { method: Method::BasicGetEmpty(_), .. } => Step::None,
        Event::Method { method: Method::TxCommitOk(_), .. } => Step::Committed,
        Event::Method { .. } => Step::Other,
        Event::GetOk { redelivered, body, .. } => {
            let number = body.bytes()[..8].try_into().expect("eight bytes");
            Step::Got(u64::from_le_bytes(number), redelivered)
        }
        Event::Blocked { reason } => Step::Blocked(Some(String::from_utf8_lossy(reason.as_bytes()).into_owned())),
        Event::Unblocked => Step::Blocked(None),
        Event::CloseRequested { code, .. } => Step::Closed(code),
        other => panic!("{other:?}"),
    }
}

impl StoredClient {
    /// Connects, and logs in with the next exchanges. The connection takes so many bytes that nobody has read.
    pub fn connect(shard: &mut Shard, window_bytes: usize, now: Instant) -> Self {
        let (link, far, cable) = pair(&SimOptions { window_bytes, ..SimOptions::faultless() });
        let slot = shard.accept(Box::new(far), now);
        let (out, pool) = (Outbound::new(), Pool::new(PoolOptions::default()));
        let inbound = Inbound::client(&SessionLimits::default());
        let mut client = StoredClient {
            link,
            cable,
            slot,
            inbound,
            out,
            kept: Vec::new(),
            pool,
            is_open: false,
            transacts: false,
            committed: 0,
            confirmed: 0,
            got: Vec::new(),
            found_none: false,
            blocked: None,
            closed: None,
        };
        client.out.protocol_header(&client.pool);
        client
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn publish(&mut self, queue: &str, number: u64, bytes: usize) {
        let mut body = number.to_le_bytes().to_vec();
        body.resize(bytes, number as u8);
        let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
        let head = PublishHead { exchange: b"", routing_key: queue.as_bytes(), mandatory: false, immediate: false };
        self.out.publish(&self.pool, CHANNEL, &head, &properties, BodyOut::Copy(&body));
    }

    pub fn get(&mut self, queue: &str, no_ack: bool) {
        let queue = ShortStr::new(queue.as_bytes()).expect("a short name");
        self.method(basic::Get { queue, no_ack });
    }

    pub fn method<'a>(&mut self, method: impl Into<Method<'a>>) {
        self.out.method(&self.pool, CHANNEL, &method.into());
    }

    /// Whether everything that was written is sent.
    pub fn has_sent_all(&self) -> bool {
        self.out.is_empty()
    }

    /// Sends what was written, as far as the connection takes it, and has the shard know.
    pub fn send(&mut self, shard: &mut Shard) {
        if !self.out.is_empty() {
            self.link.send(self.out.gather_mut(&self.pool)).expect("the link is whole");
        }
        self.cable.step();
        let edges = self.cable.take_edges(SimSide::Right);
        if edges.any() {
            shard.on_readiness(self.slot, edges.readable, edges.writable, edges.closed);
        }
    }

    /// Reads what comes.
    pub fn read(&mut self) {
        self.cable.step();
        let mut scratch = vec![0; 300_000];
        loop {
            let have = self.kept.len();
            scratch[..have].copy_from_slice(&self.kept);
            let bytes = match self.link.receive(&mut [], &mut scratch[have..]).expect("the link is whole") {
                ReceiveOutcome::Bytes { bytes, .. } => bytes,
                ReceiveOutcome::Idle | ReceiveOutcome::Closed => return,
            };
            let mut input = &scratch[..have + bytes];
            while let Some(event) = self.inbound.next(&mut input, &mut self.out, &self.pool).expect("no fault") {
                let step = step_of(event);
                self.take(step);
            }
            self.kept = input.to_vec();
        }
    }

    fn take(&mut self, step: Step) {
        let (inbound, out, pool) = (&mut self.inbound, &mut self.out, &self.pool);
        match step {
            Step::LogIn => {
                let can = Table::new().with("connection.blocked", Value::Bool(true)).expect("short");
                let properties = Table::new().with("capabilities", Value::Table(can)).expect("short").to_bytes();
                inbound.log_in("PLAIN", b"\0guest\0guest", TableRef::new(&properties), out, pool);
            }
            Step::Tune(tune) => {
                inbound.tune(&tune, &SessionLimits::default(), out, pool);
                inbound.open(ShortStr::literal("/"), out, pool);
            }
            Step::OpenChannel => assert_eq!(inbound.open_channel(out, pool), Some(CHANNEL)),
            Step::Open => {
                self.is_open = true;
                match self.transacts {
                    true => out.method(pool, CHANNEL, &tx::Select {}.into()),
                    false => out.method(pool, CHANNEL, &confirm::Select { no_wait: false }.into()),
                }
            }
            Step::Confirmed(DeliveryTag(tag)) => {
                assert!(tag > self.confirmed, "confirms come in their order");
                self.confirmed = tag;
            }
            Step::Committed => self.committed += 1,
            Step::Got(number, redelivered) => self.got.push((number, redelivered)),
            Step::None => self.found_none = true,
            Step::Blocked(reason) => self.blocked = reason,
            Step::Closed(code) => self.closed = Some(code),
            Step::Other => {}
        }
    }
}
