//! A broker that is not Harrier, for tests of federation: the project's own session in the server's role, and a script that decides
//! what it does with what it is sent.
//!
//! Enters: the connections of a link.  Leaves: what a sound broker would answer, unless the script has something else in mind.
//! Owns:   what has been accepted and settled, on all connections together.

use session::{Event, FaultScope, Greeting, Inbound, Outbound, ProtocolFault, SessionLimits};
use slab::{Pool, PoolOptions};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::method::{basic, confirm, exchange, queue};
use wire::{ChannelNumber, DeliveryTag, Method, ReplyCode, ShortStr, Table, Value};

/// How long nothing comes before late confirms are sent.
const QUIET: Duration = Duration::from_millis(20);

pub const TAG: ShortStr<'static> = ShortStr::literal("consumer");

/// What a foreign broker was sent.
pub enum Request<'a> {
    Publish { exchange: &'a [u8], body: &'a [u8] },
    Method(&'a Method<'a>),
}

/// What it does.
pub enum Reaction {
    /// What a sound broker does.
    Accept,
    /// Accepts a publish, and confirms it when nothing else has come for a while.
    ConfirmLater,
    /// Nothing: a publish is not confirmed.
    Withhold,
    /// Closes the channel of a publish.
    CloseChannel(ReplyCode),
    /// Closes the connection, naming a method.
    Close(ReplyCode, (u16, u16)),
    /// Cuts the connection.
    HangUp,
    /// Accepts it, and sends these bytes.
    Send(Vec<u8>),
}

/// Decides about what comes on a connection, whose number is given.
pub type Script = dyn FnMut(u32, &Request<'_>) -> Reaction + Send;

/// How deliveries were settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settlement {
    Acknowledged { tag: u64, multiple: bool },
    Rejected { tag: u64, requeue: bool },
}

#[derive(Default)]
pub struct ForeignState {
    /// Connections so far.
    pub connections: u32,
    /// The exchange and the body of each publish that was accepted.
    pub accepted: Vec<(String, Vec<u8>)>,
    pub settled: Vec<Settlement>,
    is_stopping: bool,
}

type Shared = Arc<Mutex<ForeignState>>;

pub struct ForeignBroker {
    address: SocketAddr,
    state: Shared,
    thread: JoinHandle<()>,
}

impl ForeignBroker {
    pub fn start(script: impl FnMut(u32, &Request<'_>) -> Reaction + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Shared::default();
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let mut serving = Vec::new();
            loop {
                let (stream, _) = listener.accept().expect("a connection");
                let number = {
                    let mut state = shared.lock().expect("no panic");
                    if state.is_stopping {
                        break;
                    }
                    state.connections += 1;
                    state.connections
                };
                let (state, script) = (Arc::clone(&shared), Arc::clone(&script));
                serving.push(std::thread::spawn(move || ForeignConnection::new(stream, number, state).serve(&script)));
            }
            for thread in serving {
                thread.join().expect("a good end");
            }
        });
        ForeignBroker { address, state, thread }
    }

    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2F", self.address)
    }

    pub fn state(&self) -> MutexGuard<'_, ForeignState> {
        self.state.lock().expect("no panic")
    }

    /// Ends once the other broker has closed its connections.
    pub fn stop(self) {
        self.state().is_stopping = true;
        TcpStream::connect(self.address).expect("it listens");
        self.thread.join().expect("a good end");
    }
}

struct ForeignConnection {
    stream: TcpStream,
    number: u32,
    inbound: Inbound,
    out: Outbound,
    pool: Pool,
    state: Shared,
    published: BTreeMap<u16, u64>,
    /// Publishes that are to be confirmed later.
    late: Vec<(ChannelNumber, DeliveryTag)>,
    hangs_up: bool,
}

/// What only the receiving half can do, after the event that asks for it.
enum Answer {
    None,
    LogIn,
    Open,
    Fail(ProtocolFault),
}

impl ForeignConnection {
    fn new(stream: TcpStream, number: u32, state: Shared) -> Self {
        let can = ["publisher_confirms", "basic.nack"];
        let can = can.iter().fold(Table::new(), |table, name| table.with(name, Value::Bool(true)).expect("short"));
        let properties = Table::new().with("capabilities", Value::Table(can)).expect("short");
        let properties = properties.with("cluster_name", Value::text("foreign")).expect("short");
        let limits = SessionLimits { heartbeat_s: 0, ..SessionLimits::default() };
        ForeignConnection {
            stream,
            number,
            inbound: Inbound::server(&limits, Arc::new(Greeting::new(&properties, "PLAIN"))),
            out: Outbound::new(),
            pool: Pool::new(PoolOptions::default()),
            state,
            published: BTreeMap::new(),
            late: Vec::new(),
            hangs_up: false,
        }
    }

    fn serve(mut self, script: &Mutex<Box<Script>>) {
        let mut unread = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        loop {
            let wait = (!self.late.is_empty()).then_some(QUIET);
            self.stream.set_read_timeout(wait).expect("a socket");
            let direct = self.inbound.direct();
            let read = match direct.is_empty() {
                true => self.stream.read(&mut chunk).inspect(|&bytes| unread.extend_from_slice(&chunk[..bytes])),
                false => self.stream.read(direct).inspect(|&bytes| self.inbound.direct_filled(bytes)),
            };
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    for (channel, tag) in self.late.drain(..) {
                        self.out.ack(&self.pool, channel, tag, false);
                    }
                    if !self.send() {
                        return;
                    }
                    continue;
                }
                // A connection that breaks has ended.
                Err(_) => 0,
            };
            if bytes == 0 {
                return;
            }
            self.take(&mut unread, script);
            if self.hangs_up || !self.send() || self.inbound.is_done() {
                return;
            }
        }
    }

    /// Returns false if the connection is broken.
    fn send(&mut self) -> bool {
        while !self.out.is_empty() {
            let next = self.out.gather_mut(&self.pool);
            if next.parts().any(|part| self.stream.write_all(part).is_err()) {
                return false;
            }
            next.clear();
        }
        true
    }

    fn take(&mut self, unread: &mut Vec<u8>, script: &Mutex<Box<Script>>) {
        let mut at = 0;
        while !self.hangs_up {
            let mut input = &unread[at..];
            let before = input.len();
            let ForeignConnection { inbound, out, pool, published, late, state, number, hangs_up, .. } = self;
            let answer = match inbound.next(&mut input, out, pool) {
                Ok(None) => {
                    at += before - input.len();
                    break;
                }
                Ok(Some(event)) => {
                    let mut script = script.lock().expect("no panic");
                    let mut state = state.lock().expect("no panic");
                    let mut reply = Reply { number: *number, out, pool, published, late, state: &mut state, hangs_up };
                    reply.answer(event, &mut **script)
                }
                Err(fault) => Answer::Fail(fault),
            };
            at += before - input.len();
            match answer {
                Answer::None => {}
                Answer::LogIn => inbound.login_accepted(out, pool),
                Answer::Open => inbound.open_accepted(out, pool),
                Answer::Fail(fault) => _ = inbound.fail(&fault, out, pool),
            }
        }
        unread.drain(..at);
    }
}

/// The sending side, apart from the receiving one that events borrow from.
struct Reply<'a> {
    number: u32,
    out: &'a mut Outbound,
    pool: &'a Pool,
    published: &'a mut BTreeMap<u16, u64>,
    late: &'a mut Vec<(ChannelNumber, DeliveryTag)>,
    state: &'a mut ForeignState,
    hangs_up: &'a mut bool,
}

impl Reply<'_> {
    fn answer(&mut self, event: Event<'_>, script: &mut Script) -> Answer {
        match event {
            Event::Login { .. } => Answer::LogIn,
            Event::Open { .. } => Answer::Open,
            Event::Publish { channel, exchange, body, .. } => {
                let tag = self.published.entry(channel.0).or_default();
                *tag += 1;
                let tag = DeliveryTag(*tag);
                let body = body.bytes();
                let reaction = script(self.number, &Request::Publish { exchange, body });
                let is_late = matches!(reaction, Reaction::ConfirmLater);
                self.react(channel, reaction, |reply| {
                    reply.state.accepted.push((String::from_utf8_lossy(exchange).into(), body.into()));
                    match is_late {
                        true => reply.late.push((channel, tag)),
                        false => reply.out.ack(reply.pool, channel, tag, false),
                    }
                })
            }
            Event::Method { channel, method } => {
                self.react(channel, script(self.number, &Request::Method(&method)), |reply| {
                    reply.accept(channel, &method);
                })
            }
            _ => Answer::None,
        }
    }

    fn react(&mut self, channel: ChannelNumber, reaction: Reaction, accept: impl FnOnce(&mut Self)) -> Answer {
        match reaction {
            Reaction::Accept | Reaction::ConfirmLater => accept(self),
            Reaction::Send(bytes) => {
                accept(self);
                self.out.frames(self.pool, &bytes);
            }
            Reaction::Withhold => {}
            Reaction::HangUp => *self.hangs_up = true,
            Reaction::CloseChannel(code) => {
                self.published.remove(&channel.0);
                let text = "as the script says";
                return Answer::Fail(ProtocolFault::new(code, channel, basic::Publish::ID, text));
            }
            Reaction::Close(code, method) => {
                let fault = ProtocolFault::new(code, ChannelNumber::CONNECTION, method, "as the script says");
                return Answer::Fail(ProtocolFault { scope: FaultScope::Connection, ..fault });
            }
        }
        Answer::None
    }

    fn accept(&mut self, channel: ChannelNumber, method: &Method<'_>) {
        let answer: Method<'_> = match method {
            Method::ExchangeDeclare(_) => exchange::DeclareOk {}.into(),
            Method::ConfirmSelect(_) => confirm::SelectOk {}.into(),
            Method::QueueDeclare(declare) => {
                queue::DeclareOk { queue: declare.queue, message_count: 0, consumer_count: 0 }.into()
            }
            Method::BasicQos(_) => basic::QosOk {}.into(),
            Method::BasicConsume(_) => basic::ConsumeOk { consumer_tag: TAG }.into(),
            Method::BasicAck(ack) => {
                let settlement = Settlement::Acknowledged { tag: ack.delivery_tag.0, multiple: ack.multiple };
                return self.state.settled.push(settlement);
            }
            Method::BasicReject(reject) => {
                let settlement = Settlement::Rejected { tag: reject.delivery_tag.0, requeue: reject.requeue };
                return self.state.settled.push(settlement);
            }
            Method::BasicNack(nack) => {
                let settlement = Settlement::Rejected { tag: nack.delivery_tag.0, requeue: nack.requeue };
                return self.state.settled.push(settlement);
            }
            _ => return,
        };
        self.out.method(self.pool, channel, &answer);
    }
}
