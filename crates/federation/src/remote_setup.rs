//! What a route needs at the other end: its queue, its internal exchange, its bindings, its consumer; one step after another.
//!
//! Enters: answers of the other broker.  Leaves: the next method for it.
//! Owns:   the order of the steps, and the names of what is made there (RabbitMQ's federation plugin has the same).
//! Never:  waits; gives up what is there before the new is.

use crate::limits::{BINDINGS_AT_ONCE, QUEUE_EXPIRES};
use crate::{AckMode, RouteDirection, BrokerIdentity, BindingPropagation, BindingOperation, RouteKind, RouteSpec};
use catalog::ExchangeDefinition;
use catalog::arguments::X_HARRIER_WINDOW;
use session::Outbound;
use slab::Pool;
use wire::method::{Method, basic, confirm, exchange, queue};
use wire::{ShortStr, Table, TableRef, Value};

/// Where a route stands; each but the first, `Here` and the last two waits for the answer to its method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetupStep {
    /// Nothing is asked for yet.
    NotStarted,
    /// `channel.open`.
    OpenChannel,
    /// Whether the exchange is there.
    FindExchange,
    /// It is made like the one here.
    DeclareExchange,
    /// Whether the queue is there that a queue route takes from.
    FindQueue,
    /// The route's own queue.
    DeclareQueue,
    /// Which of its two names the internal exchange had, before this broker began.
    FindInternal,
    /// What an earlier connection left under the new name.
    DeleteInternal,
    /// The internal exchange.
    DeclareInternal,
    /// From it to the queue.
    BindQueue,
    /// How much may be under way.
    Qos,
    /// The destination's confirms.
    Confirm,
    /// It is this broker's turn.
    LocalSide,
    /// Bindings to the internal exchange, some at a time; and those that are still to come, where the route waits for them.
    Bind,
    /// The internal exchange of an earlier connection.
    DeleteOldInternal,
    /// Deliveries.
    Consume,
    /// Messages flow.
    Running,
    /// Its channel is being closed.
    Closing,
}

/// A route at the other end.
pub(crate) struct RemoteSetup {
    pub spec: RouteSpec,
    pub step: SetupStep,
    pub channel: u16,
    /// What the exchange is here.
    local_exchange: Option<ExchangeDefinition>,
    queue: Box<[u8]>,
    /// What its queue is called unless the source names it, and how its internal exchange's names begin: the same at the next
    /// connection, which finds what a connection has left that broke before its queue was joined to it.
    name: Box<[u8]>,
    /// The names of the internal exchange alternate, so that a new one is filled before the old one goes.
    suffix: u8,
    old_suffix: Option<u8>,
    /// Of a dynamic route: what is wanted here.
    pub propagation: Option<Box<BindingPropagation>>,
    /// Of a static route: its binding was asked for, and whether with stamps.
    bound: Option<bool>,
    /// Of a static route: somebody who takes from the exchange here may get messages twice.
    wants_stamps: bool,
    /// Messages that waited at the source, as it said last.
    pub lag: Option<u64>,
    lag_requested: bool,
    /// Bindings are on their way, and the last of them will be answered.
    binding: bool,
    /// Bytes of the connection's output beyond which no more bindings are written at once.
    output_bytes_max: usize,
    /// Those below a broker that has just come back have not asked again yet: what is there already must stay there.
    delayed: bool,
    pub error: Option<Box<str>>,
}

/// Who the two brokers are, for names.
pub(crate) struct LinkParties<'a> {
    pub own: &'a BrokerIdentity,
    pub peer: Option<&'a BrokerIdentity>,
    /// Whether the source knows the type of exchange that leaves out what has been here.
    pub fanout_only: bool,
}

const INTERNAL_PURPOSE: &str = "x-internal-purpose";
const PURPOSE: &str = "federation";
const UPSTREAM_TYPE: &str = "x-federation-upstream";

fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).unwrap_or(ShortStr::EMPTY)
}

impl RemoteSetup {
    /// A route that was there before this broker came back `waits` until it is told not to.
    pub fn new(spec: RouteSpec, waits: bool, output_bytes_max: usize) -> Self {
        RemoteSetup {
            output_bytes_max,
            delayed: waits && spec.direction == RouteDirection::Pull && spec.ack == AckMode::Confirm,
            spec,
            step: SetupStep::NotStarted,
            channel: 0,
            local_exchange: None,
            queue: Box::default(),
            name: Box::default(),
            suffix: 0,
            old_suffix: None,
            propagation: None,
            bound: None,
            wants_stamps: false,
            lag: None,
            lag_requested: false,
            binding: false,
            error: None,
        }
    }

    /// A connection is over: everything that is not kept there begins anew.
    pub fn disconnect(&mut self) {
        if matches!(self.step, SetupStep::DeleteOldInternal | SetupStep::Consume | SetupStep::Running) {
            self.old_suffix = Some(self.suffix);
        }
        if !self.is_confirmed() {
            // Its queue has gone with the connection, and everything that led there.
            (self.suffix, self.old_suffix) = (0, None);
        }
        self.step = SetupStep::NotStarted;
        self.channel = 0;
        self.bound = None;
        self.binding = false;
        self.lag_requested = false;
    }

    /// Begins with what the exchange is here.
    pub fn begin(&mut self, like: Option<ExchangeDefinition>) {
        self.local_exchange = like;
        self.step = SetupStep::OpenChannel;
        self.error = None;
    }

    fn internal(&self, suffix: u8) -> Vec<u8> {
        [&*self.name, b" ", &[suffix]].concat()
    }

    fn is_confirmed(&self) -> bool {
        self.spec.ack == AckMode::Confirm
    }

    /// The step that follows on this one.
    fn next_step(&self) -> SetupStep {
        let pulls = self.spec.direction == RouteDirection::Pull;
        let of_queue = matches!(self.spec.kind, RouteKind::Queue { .. });
        let limited = self.is_confirmed() && self.spec.credit > 0;
        match self.step {
            SetupStep::NotStarted => SetupStep::OpenChannel,
            SetupStep::OpenChannel if pulls && of_queue => SetupStep::FindQueue,
            SetupStep::OpenChannel => SetupStep::FindExchange,
            SetupStep::FindExchange | SetupStep::DeclareExchange if pulls => SetupStep::DeclareQueue,
            SetupStep::FindExchange | SetupStep::DeclareExchange if self.is_confirmed() => SetupStep::Confirm,
            SetupStep::FindExchange | SetupStep::DeclareExchange | SetupStep::Confirm => SetupStep::LocalSide,
            SetupStep::DeclareQueue if self.is_confirmed() && self.suffix == 0 => SetupStep::FindInternal,
            SetupStep::DeclareQueue | SetupStep::FindInternal => SetupStep::DeleteInternal,
            SetupStep::DeleteInternal => SetupStep::DeclareInternal,
            SetupStep::DeclareInternal => SetupStep::BindQueue,
            SetupStep::FindQueue | SetupStep::BindQueue if limited => SetupStep::Qos,
            SetupStep::FindQueue | SetupStep::BindQueue | SetupStep::Qos => SetupStep::LocalSide,
            SetupStep::LocalSide if pulls => SetupStep::Bind,
            SetupStep::Bind if self.old_suffix.is_some() => SetupStep::DeleteOldInternal,
            SetupStep::Bind | SetupStep::DeleteOldInternal => SetupStep::Consume,
            SetupStep::LocalSide | SetupStep::Consume | SetupStep::Running => SetupStep::Running,
            SetupStep::Closing => SetupStep::Closing,
        }
    }

    /// The answer that was awaited has come; `queue` is the name in a `queue.declare-ok`, `messages` its count.
    /// Answers whether something follows at once.
    pub fn on_answer(&mut self, queue: Option<(&[u8], u32)>) -> bool {
        if self.binding {
            self.binding = false;
            self.lag = queue.map(|(_, messages)| u64::from(messages));
            return self.step == SetupStep::Bind || self.has_pending_bindings();
        }
        if std::mem::take(&mut self.lag_requested) {
            self.lag = queue.map(|(_, messages)| u64::from(messages));
            // What changed meanwhile has waited for this answer.
            return self.has_pending_bindings();
        }
        if let Some((name, messages)) = queue {
            self.queue = name.into();
            self.lag = Some(u64::from(messages));
        }
        if self.step == SetupStep::FindInternal {
            // It is there under the first name.
            (self.suffix, self.old_suffix) = (b'A', Some(b'A'));
        }
        match self.step {
            SetupStep::NotStarted | SetupStep::LocalSide | SetupStep::Running | SetupStep::Closing => false,
            _ => {
                self.step = self.next_step();
                true
            }
        }
    }

    /// Whether it is only waiting for those below to ask again.
    pub fn is_delayed(&self) -> bool {
        self.delayed && self.step == SetupStep::Bind
    }

    /// They have had their time. Answers whether something is to be said.
    pub fn end_delay(&mut self) -> bool {
        let had_nothing_else = self.is_delayed() && !self.binding;
        self.delayed = false;
        had_nothing_else
    }

    /// What this step was for is done without an answer.
    pub fn advance(&mut self) {
        self.step = self.next_step();
    }

    /// Its channel was closed by the other broker. Answers whether it goes on with a new one.
    pub fn on_channel_closed(&mut self, code: u16, text: &str) -> bool {
        const NOT_FOUND: u16 = 404;
        let pulls = self.spec.direction == RouteDirection::Pull;
        match self.step {
            SetupStep::FindExchange if code == NOT_FOUND && pulls && self.local_exchange.is_some() => {
                self.step = SetupStep::DeclareExchange;
                true
            }
            SetupStep::FindInternal if code == NOT_FOUND => {
                // It had the second name, or none.
                self.old_suffix = Some(b'B');
                self.step = SetupStep::DeleteInternal;
                true
            }
            SetupStep::Closing => false,
            _ => {
                self.disconnect();
                self.error = Some(text.into());
                false
            }
        }
    }

    /// Says what this step has to say. Answers false where it is not the other broker's turn.
    pub fn send_step(&mut self, parties: &LinkParties<'_>, out: &mut Outbound, pool: &Pool) -> bool {
        let say = |out: &mut Outbound, method: Method<'_>| out.method(pool, self.channel, &method);
        match self.step {
            SetupStep::NotStarted | SetupStep::OpenChannel | SetupStep::LocalSide | SetupStep::Closing => return false,
            SetupStep::FindExchange => {
                let exchange = short(self.spec.exchange.as_bytes());
                // A destination is told by the way that a link asks; other makes look at no argument.
                let claim = match self.spec.direction {
                    RouteDirection::Push => window(self.spec.forced).to_bytes(),
                    RouteDirection::Pull => Vec::new(),
                };
                let (kind, arguments) = (ShortStr::literal("direct"), TableRef::new(&claim));
                let (durable, auto_delete, internal, no_wait) = (false, false, false, false);
                let passive = true;
                say(
                    out,
                    exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments }
                        .into(),
                );
            }
            SetupStep::DeclareExchange => {
                let Some(like) = &self.local_exchange else { return false };
                let arguments = like.arguments.as_deref().map(Table::to_bytes).unwrap_or_default();
                let declare = exchange::Declare {
                    exchange: short(self.spec.exchange.as_bytes()),
                    kind: short(like.kind.name().as_bytes()),
                    passive: false,
                    durable: like.durable,
                    auto_delete: like.auto_delete,
                    internal: like.internal,
                    no_wait: false,
                    arguments: TableRef::new(&arguments),
                };
                say(out, declare.into());
            }
            SetupStep::FindQueue => {
                if let RouteKind::Queue { queue } = &self.spec.kind {
                    say(out, find_queue(queue.as_bytes()).into());
                }
            }
            SetupStep::DeclareQueue => {
                let (keeps, durable) = (self.is_confirmed(), self.spec.durable);
                self.name = queue_name(&self.spec, parties.own);
                let name = if keeps { self.name.clone() } else { Box::default() };
                let arguments = queue_arguments(keeps && !durable).to_bytes();
                let declare = queue::Declare {
                    queue: short(&name),
                    passive: false,
                    durable: keeps && durable,
                    exclusive: !keeps,
                    auto_delete: !keeps,
                    no_wait: false,
                    arguments: TableRef::new(&arguments),
                };
                say(out, declare.into());
            }
            SetupStep::FindInternal => {
                let name = self.internal(b'A');
                let (kind, arguments) = (ShortStr::literal("direct"), TableRef::EMPTY);
                let (durable, auto_delete, internal, no_wait) = (false, false, false, false);
                let (exchange, passive) = (short(&name), true);
                say(
                    out,
                    exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments }
                        .into(),
                );
            }
            SetupStep::DeleteInternal => {
                self.suffix = if self.old_suffix == Some(b'A') { b'B' } else { b'A' };
                if let Some(mirror) = &mut self.propagation {
                    mirror.begin(parties.peer.cloned(), char::from(self.suffix));
                }
                let name = self.internal(self.suffix);
                let delete = exchange::Delete { exchange: short(&name), if_unused: false, no_wait: false };
                out.method(pool, self.channel, &delete.into());
            }
            SetupStep::DeclareInternal => {
                let name = self.internal(self.suffix);
                let arguments = internal_arguments(parties.own, self.spec.hops_max).to_bytes();
                let declare = exchange::Declare {
                    exchange: short(&name),
                    kind: ShortStr::literal(if parties.fanout_only { "fanout" } else { UPSTREAM_TYPE }),
                    passive: false,
                    durable: true,
                    auto_delete: true,
                    internal: true,
                    no_wait: false,
                    arguments: TableRef::new(&arguments),
                };
                say(out, declare.into());
            }
            SetupStep::Bind if self.has_pending_bindings() => self.send_bindings(out, pool),
            SetupStep::Bind if self.delayed => return false,
            SetupStep::Bind => {
                self.step = self.next_step();
                return self.send_step(parties, out, pool);
            }
            SetupStep::BindQueue => {
                let internal = self.internal(self.suffix);
                let bind = queue::Bind {
                    queue: short(&self.queue),
                    exchange: short(&internal),
                    routing_key: ShortStr::EMPTY,
                    no_wait: false,
                    arguments: TableRef::EMPTY,
                };
                say(out, bind.into());
            }
            SetupStep::DeleteOldInternal => {
                let old = self.old_suffix.take().unwrap_or_default();
                let name = self.internal(old);
                let delete = exchange::Delete { exchange: short(&name), if_unused: false, no_wait: false };
                out.method(pool, self.channel, &delete.into());
            }
            SetupStep::Qos => {
                let qos = basic::Qos { prefetch_size: 0, prefetch_count: self.spec.credit, global: false };
                say(out, qos.into());
            }
            SetupStep::Confirm => say(out, confirm::Select { no_wait: false }.into()),
            SetupStep::Consume => {
                let consume = basic::Consume {
                    queue: short(&self.queue),
                    consumer_tag: ShortStr::EMPTY,
                    no_local: false,
                    no_ack: !self.is_confirmed(),
                    exclusive: false,
                    no_wait: false,
                    arguments: TableRef::EMPTY,
                };
                say(out, consume.into());
            }
            SetupStep::Running => self.send_bindings(out, pool),
        }
        true
    }

    /// Whether there may be bindings to ask for.
    fn has_pending_bindings(&self) -> bool {
        match (&self.spec.kind, &self.propagation) {
            _ if self.spec.direction == RouteDirection::Push => false,
            (RouteKind::Static { .. }, _) => self.bound != Some(self.requests_stamps()),
            (_, Some(mirror)) => mirror.is_due(),
            _ => false,
        }
    }

    /// Whether what a static route carries is to be stamped.
    fn requests_stamps(&self) -> bool {
        self.spec.forced || self.wants_stamps
    }

    /// Whether messages of the exchange here go where they may come twice.
    pub fn set_wants_stamps(&mut self, asks: bool) {
        self.wants_stamps = asks;
    }

    /// The next few bindings, and something that is answered behind them.
    pub fn send_bindings(&mut self, out: &mut Outbound, pool: &Pool) {
        if self.binding || self.lag_requested || !self.has_pending_bindings() {
            return;
        }
        let internal = self.internal(self.suffix);
        let (destination, source) = (short(&internal), short(self.spec.exchange.as_bytes()));
        let no_wait = true;
        if let RouteKind::Static { key } = &self.spec.kind {
            let routing_key = short(key.as_bytes());
            let stamps = self.requests_stamps();
            let arguments = static_arguments(stamps).to_bytes();
            let bind =
                exchange::Bind { destination, source, routing_key, no_wait, arguments: TableRef::new(&arguments) };
            out.method(pool, self.channel, &bind.into());
            // The new binding is there before the old one goes.
            if let Some(before) = self.bound.replace(stamps) {
                let arguments = static_arguments(before).to_bytes();
                let arguments = TableRef::new(&arguments);
                let unbind = exchange::Unbind { destination, source, routing_key, no_wait, arguments };
                out.method(pool, self.channel, &unbind.into());
            }
        }
        let mut left = BINDINGS_AT_ONCE;
        // A broker whose own output is full reads nothing. If the source's were full of deliveries at the same time, each end would
        // wait for the other to read.
        while let Some(mirror) = self.propagation.as_mut().filter(|_| left > 0 && out.bytes() < self.output_bytes_max)
            && let Some(BindingOperation { bind, key, arguments }) = mirror.next_operation()
        {
            left -= 1;
            let routing_key = short(key);
            let method: Method<'_> = match bind {
                true => exchange::Bind { destination, source, routing_key, no_wait, arguments }.into(),
                false => exchange::Unbind { destination, source, routing_key, no_wait, arguments }.into(),
            };
            out.method(pool, self.channel, &method);
        }
        self.binding = true;
        out.method(pool, self.channel, &find_queue(&self.queue).into());
    }

    /// Asks what waits at the source, unless something else is awaited.
    pub fn request_lag(&mut self, out: &mut Outbound, pool: &Pool) {
        let pulls = self.spec.direction == RouteDirection::Pull;
        if pulls && self.step == SetupStep::Running && !self.binding && !self.lag_requested {
            self.lag_requested = true;
            out.method(pool, self.channel, &find_queue(&self.queue).into());
        }
    }

    /// The route ends: what it has made there goes.
    pub fn tear_down(&mut self, out: &mut Outbound, pool: &Pool) {
        let made = !matches!(self.step, SetupStep::NotStarted | SetupStep::OpenChannel | SetupStep::Closing);
        if made && self.spec.direction == RouteDirection::Pull && !matches!(self.spec.kind, RouteKind::Queue { .. }) {
            for suffix in [Some(self.suffix), self.old_suffix].into_iter().flatten().filter(|suffix| *suffix != 0) {
                let name = self.internal(suffix);
                let delete = exchange::Delete { exchange: short(&name), if_unused: false, no_wait: true };
                out.method(pool, self.channel, &delete.into());
            }
            // A queue that the source names is the one that was declared last on the channel, known or not.
            let keeps = self.is_confirmed();
            let declared = !matches!(self.step, SetupStep::FindExchange | SetupStep::DeclareExchange);
            let may_be_there = if keeps { !self.name.is_empty() } else { declared };
            if may_be_there {
                let queue = if keeps { short(&self.name) } else { ShortStr::EMPTY };
                let delete = queue::Delete { queue, if_unused: false, if_empty: false, no_wait: true };
                out.method(pool, self.channel, &delete.into());
            }
        }
        self.step = SetupStep::Closing;
    }
}

/// Bytes of a queue's name here: a short string with room for the suffix of an exchange.
const NAME_BYTES_MAX: usize = 255 - 2;
/// FNV-1a of 64 bits (RFC 9923): the same in every version of this program.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The name of a route's queue: what it takes, and for whom.
pub(crate) fn queue_name(spec: &RouteSpec, downstream: &BrokerIdentity) -> Box<[u8]> {
    let mut name = format!("federation: {} -> {}", spec.exchange, downstream.cluster_name);
    if let RouteKind::Static { key } = &spec.kind {
        name.push_str(&format!(" key {key}"));
    }
    if &*downstream.vhost != "/" {
        name.push_str(&format!(":vhost:{}", downstream.vhost));
    }
    if name.len() <= NAME_BYTES_MAX {
        return name.into_bytes().into();
    }
    // The whole of it makes the difference, and its beginning is for people.
    let hash = name.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut end = NAME_BYTES_MAX - 17;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} {hash:016x}", &name[..end]).into_bytes().into()
}

fn find_queue(name: &[u8]) -> queue::Declare<'_> {
    queue::Declare {
        queue: short(name),
        passive: true,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: TableRef::EMPTY,
    }
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .fold(Table::new(), |table, (name, value)| table.with(name, value).expect("the names of arguments are short"))
}

/// What the binding of a static route is made with.
pub(crate) fn static_arguments(stamps: bool) -> Table {
    if stamps { window(true) } else { Table::new() }
}

fn window(needed: bool) -> Table {
    table([(X_HARRIER_WINDOW, Value::Bool(needed))])
}

/// What the queue of a route is declared with.
pub(crate) fn queue_arguments(expires: bool) -> Table {
    let purpose = table([(INTERNAL_PURPOSE, Value::text(PURPOSE))]);
    let expires_ms = Value::I64(QUEUE_EXPIRES.as_millis() as i64);
    if expires { purpose.with("x-expires", expires_ms).expect("a short name") } else { purpose }
}

/// What the internal exchange of a route is declared with.
pub(crate) fn internal_arguments(downstream: &BrokerIdentity, hops_max: u16) -> Table {
    table([
        (INTERNAL_PURPOSE, Value::text(PURPOSE)),
        ("x-max-hops", Value::I64(i64::from(hops_max))),
        ("x-downstream-name", Value::text(&downstream.cluster_name)),
        ("x-downstream-vhost", Value::text(&downstream.vhost)),
    ])
}
