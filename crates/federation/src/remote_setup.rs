//! The setup of a route at the other broker: its queue, internal exchange, bindings and consumer, one step after another.
//!
//! Enters: answers of the other broker.  Leaves: the next method for it.
//! Owns:   the order of the steps, in which the old is removed only after the new exists; the names of what is declared there, which
//!         are those of RabbitMQ's federation plugin.

use crate::binding_requests::BindingRequests;
use crate::setup_methods::{
    delete, durable_declare, federated_consumer_arguments, federated_declare, internal_arguments, passive_declare,
    queue_arguments, short, stamp_arguments,
};
use crate::{AckMode, BrokerIdentity, RouteDirection, RouteEnd, RouteKind, RouteSpec};
use catalog::ExchangeDefinition;
use session::Outbound;
use slab::Pool;
use wire::method::{Method, basic, confirm, exchange, queue};
use wire::{ChannelNumber, ShortStr, Table, TableRef};

/// A step of the setup. Each waits for the answer to its method, except the first, `LocalSide` and the last two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetupStep {
    NotStarted,
    OpenChannel,
    /// A passive `exchange.declare` of the route's exchange.
    FindExchange,
    /// Declares the exchange like the one here, where the source has none.
    DeclareExchange,
    /// A passive `queue.declare` of the queue that a queue route consumes, or that a shovel leads to.
    FindQueue,
    /// Declares that queue where there is none, if the route is to.
    DeclareSharedQueue,
    /// Declares the route's own queue.
    DeclareQueue,
    /// Finds out whether there is an internal exchange with the first of its two names from before this broker restarted.
    FindInternal,
    /// Deletes what an earlier connection left under the new name.
    DeleteInternal,
    DeclareInternal,
    /// Binds the queue to the internal exchange.
    BindQueue,
    Qos,
    /// `confirm.select`, where this broker pushes.
    Confirm,
    /// This broker sets up its own side.
    LocalSide,
    /// Binds the internal exchange to the route's exchange, in rounds. A delayed route waits here.
    Bind,
    /// Deletes the internal exchange of an earlier connection.
    DeleteOldInternal,
    Consume,
    Running,
    Closing,
}

/// The setup of a route at the other broker.
pub(crate) struct RemoteSetup {
    pub spec: RouteSpec,
    pub step: SetupStep,
    pub channel: ChannelNumber,
    /// The definition of the exchange at this broker.
    local_exchange: Option<ExchangeDefinition>,
    /// The queue that is consumed, as the source names it.
    queue: Box<[u8]>,
    internal: InternalExchange,
    pub requests: BindingRequests,
    /// Messages that wait at the source, as of its last answer.
    pub lag: Option<u64>,
    lag_requested: bool,
    /// This broker has just restarted, and brokers downstream have not requested their bindings again: messages stay at the source.
    delayed: bool,
    /// A federated queue wants messages.
    is_wanting: bool,
    /// It has a consumer at the source, on this connection.
    is_consuming: bool,
    pub error: Option<Box<str>>,
}

/// The names of a route's internal exchange.
#[derive(Default)]
struct InternalExchange {
    /// The name of the route's queue unless the source chooses one. It is the same at each connection, so that the next one finds
    /// what a broken one has left.
    prefix: Box<[u8]>,
    /// The names alternate, so that a new exchange is bound before the old one is deleted. 0: none was declared.
    suffix: u8,
    old_suffix: Option<u8>,
    renewal: Renewal,
}

/// What becomes of an internal exchange that was found under the first name.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Renewal {
    #[default]
    None,
    /// This broker may have restarted before all was bound to it, so that one under the second name still counts: all is bound to
    /// it now, and then the other is deleted.
    Completing,
    /// It may have bindings that are not wanted any more: a new one replaces it.
    Replacing,
}

impl InternalExchange {
    fn name_with(&self, suffix: u8) -> Vec<u8> {
        [&*self.prefix, b" ", &[suffix]].concat()
    }

    fn name(&self) -> Vec<u8> {
        self.name_with(self.suffix)
    }
}

/// The two brokers of a link.
pub(crate) struct LinkParties<'a> {
    pub own: &'a BrokerIdentity,
    pub peer: Option<&'a BrokerIdentity>,
    /// The source does not know the exchange type `x-federation-upstream`.
    pub fanout_only: bool,
}

/// The type of a route's internal exchange. One without a filter sends what has been at the destination, too.
pub(crate) fn internal_type(is_without_filter: bool) -> ShortStr<'static> {
    ShortStr::literal(if is_without_filter { "fanout" } else { "x-federation-upstream" })
}

impl RemoteSetup {
    /// A route that existed before this broker restarted is `delayed` until [`end_delay`](Self::end_delay).
    pub fn new(spec: RouteSpec, delayed: bool, output_bytes_max: usize) -> Self {
        RemoteSetup {
            delayed: delayed && spec.direction == RouteDirection::Pull && spec.ack == AckMode::Confirm,
            spec,
            step: SetupStep::NotStarted,
            channel: ChannelNumber::CONNECTION,
            local_exchange: None,
            queue: Box::default(),
            internal: InternalExchange::default(),
            requests: BindingRequests::new(output_bytes_max),
            lag: None,
            lag_requested: false,
            is_wanting: false,
            is_consuming: false,
            error: None,
        }
    }

    /// The connection is gone, and the setup with it, except for what a confirmed route keeps at the source.
    pub fn disconnect(&mut self) {
        let is_bound = matches!(self.step, SetupStep::DeleteOldInternal | SetupStep::Consume | SetupStep::Running);
        if is_bound && self.internal.suffix != 0 {
            self.internal.old_suffix = Some(self.internal.suffix);
        }
        if !self.is_confirmed() {
            // The queue was deleted with the connection, and with the queue the internal exchange.
            (self.internal.suffix, self.internal.old_suffix) = (0, None);
        }
        if self.internal.renewal == Renewal::Completing && self.step != SetupStep::DeleteOldInternal {
            // Which of the two counts is still unknown.
            (self.internal.suffix, self.internal.old_suffix) = (0, None);
        }
        self.internal.renewal = Renewal::None;
        self.step = SetupStep::NotStarted;
        self.channel = ChannelNumber::CONNECTION;
        self.requests.disconnect();
        self.lag_requested = false;
        self.is_consuming = false;
    }

    /// Begins with opening a channel.
    pub fn begin(&mut self, local_exchange: Option<ExchangeDefinition>) {
        self.local_exchange = local_exchange;
        self.step = SetupStep::OpenChannel;
        self.error = None;
    }

    fn is_confirmed(&self) -> bool {
        self.spec.ack == AckMode::Confirm
    }

    /// What the route's end leaves of its credit.
    fn credit(&self) -> u16 {
        let end = self.spec.options.shovel.as_ref().and_then(|shovel| shovel.end);
        let left = match end {
            Some(RouteEnd::Messages(messages)) => messages,
            Some(RouteEnd::QueueLength) => self.lag.unwrap_or(u64::MAX),
            None => u64::MAX,
        };
        self.spec.credit.min(u16::try_from(left.max(1)).unwrap_or(u16::MAX))
    }

    fn declares_queue(&self) -> bool {
        self.spec.options.federated_queue.is_some()
            || self.spec.options.shovel.as_ref().is_some_and(|shovel| shovel.declares_queue)
    }

    /// A federated queue wants messages, or does not any more: the consumer at the source comes or goes, if everything else is set
    /// up.
    pub fn set_wanting(&mut self, is_wanting: bool, writer: Option<(&mut Outbound, &Pool)>) {
        self.is_wanting = is_wanting;
        if let Some((out, pool)) = writer.filter(|_| self.step == SetupStep::Running) {
            self.send_demand(out, pool);
        }
    }

    /// Consumes at the source, or ceases to, as the federated queue wants it. Neither is answered, so that either may follow the other
    /// at once.
    fn send_demand(&mut self, out: &mut Outbound, pool: &Pool) {
        let Some(federated) = &self.spec.options.federated_queue else { return };
        if self.is_consuming == self.is_wanting {
            return;
        }
        self.is_consuming = self.is_wanting;
        let consumer_tag = short(federated.consumer_tag.as_bytes());
        if !self.is_consuming {
            return out.method(pool, self.channel, &basic::Cancel { consumer_tag, no_wait: true }.into());
        }
        let arguments = federated_consumer_arguments().to_bytes();
        let consume = basic::Consume {
            queue: short(&self.queue),
            consumer_tag,
            no_local: false,
            no_ack: !self.is_confirmed(),
            exclusive: false,
            no_wait: true,
            arguments: TableRef::new(&arguments),
        };
        out.method(pool, self.channel, &consume.into());
    }

    /// The step after this one.
    fn next_step(&self) -> SetupStep {
        let pulls = self.spec.direction == RouteDirection::Pull;
        let limited = self.is_confirmed() && self.spec.credit > 0;
        match self.step {
            SetupStep::NotStarted => SetupStep::OpenChannel,
            SetupStep::OpenChannel if self.spec.remote_queue().is_some() => SetupStep::FindQueue,
            SetupStep::OpenChannel => SetupStep::FindExchange,
            SetupStep::FindExchange | SetupStep::DeclareExchange if pulls => SetupStep::DeclareQueue,
            SetupStep::FindExchange
            | SetupStep::DeclareExchange
            | SetupStep::FindQueue
            | SetupStep::DeclareSharedQueue
                if !pulls && self.is_confirmed() =>
            {
                SetupStep::Confirm
            }
            SetupStep::FindExchange | SetupStep::DeclareExchange | SetupStep::Confirm => SetupStep::LocalSide,
            SetupStep::FindQueue | SetupStep::DeclareSharedQueue if !pulls => SetupStep::LocalSide,
            SetupStep::DeclareQueue if self.is_confirmed() && self.internal.suffix == 0 => SetupStep::FindInternal,
            SetupStep::FindInternal if self.internal.renewal == Renewal::Completing => SetupStep::BindQueue,
            SetupStep::DeclareQueue | SetupStep::FindInternal => SetupStep::DeleteInternal,
            SetupStep::DeleteInternal => SetupStep::DeclareInternal,
            SetupStep::DeclareInternal => SetupStep::BindQueue,
            SetupStep::BindQueue if self.internal.renewal == Renewal::Replacing => SetupStep::Bind,
            SetupStep::FindQueue | SetupStep::DeclareSharedQueue | SetupStep::BindQueue if limited => SetupStep::Qos,
            SetupStep::FindQueue | SetupStep::DeclareSharedQueue | SetupStep::BindQueue | SetupStep::Qos => {
                SetupStep::LocalSide
            }
            SetupStep::LocalSide if pulls => SetupStep::Bind,
            SetupStep::Bind if self.internal.old_suffix.is_some() => SetupStep::DeleteOldInternal,
            SetupStep::DeleteOldInternal if self.internal.renewal == Renewal::Completing => SetupStep::DeleteInternal,
            SetupStep::Bind if self.spec.options.federated_queue.is_some() => SetupStep::Running,
            SetupStep::Bind | SetupStep::DeleteOldInternal => SetupStep::Consume,
            SetupStep::LocalSide | SetupStep::Consume | SetupStep::Running => SetupStep::Running,
            SetupStep::Closing => SetupStep::Closing,
        }
    }

    /// The awaited answer arrived: of a `queue.declare-ok`, the queue's name and how many messages it has. Returns whether the next
    /// method can be sent at once.
    pub fn on_answer(&mut self, queue: Option<(&[u8], u32)>) -> bool {
        if self.requests.in_flight {
            self.requests.in_flight = false;
            self.lag = queue.map(|(_, messages)| u64::from(messages));
            return self.step == SetupStep::Bind || self.requests.is_pending(&self.spec);
        }
        if std::mem::take(&mut self.lag_requested) {
            self.lag = queue.map(|(_, messages)| u64::from(messages));
            // Bindings that changed in the meantime have waited for this answer.
            return self.requests.is_pending(&self.spec);
        }
        if let Some((name, messages)) = queue {
            self.queue = name.into();
            self.lag = Some(u64::from(messages));
        }
        if self.step == SetupStep::FindInternal {
            // There may be another one under the second name.
            (self.internal.suffix, self.internal.old_suffix) = (b'A', Some(b'B'));
            self.internal.renewal = Renewal::Completing;
        }
        match self.step {
            SetupStep::NotStarted | SetupStep::LocalSide | SetupStep::Running | SetupStep::Closing => false,
            _ => {
                self.step = self.next_step();
                true
            }
        }
    }

    /// Whether it only waits for brokers downstream to request their bindings again.
    pub fn is_delayed(&self) -> bool {
        self.delayed && self.step == SetupStep::Bind
    }

    /// Brokers downstream have had their time. Returns whether the next method can be sent at once.
    pub fn end_delay(&mut self) -> bool {
        let can_go_on = self.is_delayed() && !self.requests.in_flight;
        self.delayed = false;
        can_go_on
    }

    /// This step is done without an answer.
    pub fn advance(&mut self) {
        self.step = self.next_step();
    }

    /// Whether this broker has set up its side of the route, or is about to.
    pub fn has_local_side(&self) -> bool {
        self.internal.renewal == Renewal::Replacing
            || matches!(
                self.step,
                SetupStep::LocalSide
                    | SetupStep::Bind
                    | SetupStep::DeleteOldInternal
                    | SetupStep::Consume
                    | SetupStep::Running
            )
    }

    /// The other broker has closed the channel. Returns whether the setup continues on a new one.
    pub fn on_channel_closed(&mut self, code: u16, text: &str) -> bool {
        const NOT_FOUND: u16 = 404;
        let pulls = self.spec.direction == RouteDirection::Pull;
        match self.step {
            SetupStep::FindExchange if code == NOT_FOUND && pulls && self.local_exchange.is_some() => {
                self.step = SetupStep::DeclareExchange;
                true
            }
            SetupStep::FindQueue if code == NOT_FOUND && self.declares_queue() => {
                self.step = SetupStep::DeclareSharedQueue;
                true
            }
            SetupStep::FindInternal if code == NOT_FOUND => {
                // It exists under the second name, or not at all.
                self.internal.old_suffix = Some(b'B');
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

    /// Sends the method of this step. Returns false if the step has none.
    pub fn send_step(&mut self, parties: &LinkParties<'_>, out: &mut Outbound, pool: &Pool) -> bool {
        let channel = self.channel;
        let send = |out: &mut Outbound, method: Method<'_>| out.method(pool, channel, &method);
        match self.step {
            SetupStep::NotStarted | SetupStep::OpenChannel | SetupStep::LocalSide | SetupStep::Closing => return false,
            SetupStep::FindExchange => {
                let exchange = short(self.spec.remote_exchange().as_bytes());
                // The argument tells a destination that this connection is a link; other brokers ignore it.
                let arguments = match self.spec.direction {
                    RouteDirection::Push => stamp_arguments(self.spec.forced).to_bytes(),
                    RouteDirection::Pull => Vec::new(),
                };
                let (kind, arguments) = (ShortStr::literal("direct"), TableRef::new(&arguments));
                let (durable, auto_delete, internal, no_wait) = (false, false, false, false);
                let passive = true;
                send(
                    out,
                    exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments }
                        .into(),
                );
            }
            SetupStep::DeclareExchange => {
                let Some(local) = &self.local_exchange else { return false };
                let arguments = local.arguments.as_deref().map(Table::to_bytes).unwrap_or_default();
                let declare = exchange::Declare {
                    exchange: short(self.spec.remote_exchange().as_bytes()),
                    kind: short(local.kind.name().as_bytes()),
                    passive: false,
                    durable: local.durable,
                    auto_delete: local.auto_delete,
                    internal: local.internal,
                    no_wait: false,
                    arguments: TableRef::new(&arguments),
                };
                send(out, declare.into());
            }
            SetupStep::FindQueue => {
                if let Some(queue) = self.spec.remote_queue() {
                    send(out, passive_declare(queue.as_bytes()).into());
                }
            }
            SetupStep::DeclareSharedQueue => {
                let Some(queue) = self.spec.remote_queue() else { return false };
                match &self.spec.options.federated_queue {
                    Some(like) => {
                        let arguments = like.arguments.to_bytes();
                        send(out, federated_declare(queue.as_bytes(), like, &arguments).into());
                    }
                    None => send(out, durable_declare(queue.as_bytes()).into()),
                }
            }
            SetupStep::DeclareQueue => {
                let (is_confirmed, durable) = (self.is_confirmed(), self.spec.durable);
                self.internal.prefix = queue_name(&self.spec, parties.own);
                let name = if is_confirmed { self.internal.prefix.clone() } else { Box::default() };
                let arguments = queue_arguments(is_confirmed && !durable, &self.spec).to_bytes();
                let declare = queue::Declare {
                    queue: short(&name),
                    passive: false,
                    durable: is_confirmed && durable,
                    exclusive: !is_confirmed,
                    auto_delete: !is_confirmed,
                    no_wait: false,
                    arguments: TableRef::new(&arguments),
                };
                send(out, declare.into());
            }
            SetupStep::FindInternal => {
                let name = self.internal.name_with(b'A');
                let (kind, arguments) = (ShortStr::literal("direct"), TableRef::EMPTY);
                let (durable, auto_delete, internal, no_wait) = (false, false, false, false);
                let (exchange, passive) = (short(&name), true);
                send(
                    out,
                    exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments }
                        .into(),
                );
            }
            SetupStep::DeleteInternal => {
                if self.internal.renewal == Renewal::Completing {
                    self.internal.renewal = Renewal::Replacing;
                    self.internal.old_suffix = Some(self.internal.suffix);
                }
                self.internal.suffix = if self.internal.old_suffix == Some(b'A') { b'B' } else { b'A' };
                self.requests.begin(parties.peer, self.internal.suffix);
                let name = self.internal.name();
                let delete = exchange::Delete { exchange: short(&name), if_unused: false, no_wait: false };
                out.method(pool, self.channel, &delete.into());
            }
            SetupStep::DeclareInternal => {
                let name = self.internal.name();
                let arguments = internal_arguments(parties.own, self.spec.hops_max).to_bytes();
                let declare = exchange::Declare {
                    exchange: short(&name),
                    kind: internal_type(parties.fanout_only || !self.spec.is_traced()),
                    passive: false,
                    durable: true,
                    auto_delete: true,
                    internal: true,
                    no_wait: false,
                    arguments: TableRef::new(&arguments),
                };
                send(out, declare.into());
            }
            SetupStep::Bind if self.requests.is_pending(&self.spec) => self.send_bindings(out, pool),
            SetupStep::Bind if self.delayed => return false,
            SetupStep::Bind => {
                self.step = self.next_step();
                return self.send_step(parties, out, pool);
            }
            SetupStep::BindQueue => {
                if self.internal.renewal == Renewal::Completing {
                    self.requests.begin(parties.peer, self.internal.suffix);
                }
                let internal = self.internal.name();
                let bind = queue::Bind {
                    queue: short(&self.queue),
                    exchange: short(&internal),
                    routing_key: ShortStr::EMPTY,
                    no_wait: false,
                    arguments: TableRef::EMPTY,
                };
                send(out, bind.into());
            }
            SetupStep::DeleteOldInternal => {
                let old_suffix = self.internal.old_suffix.take().unwrap_or_default();
                let name = self.internal.name_with(old_suffix);
                let delete = exchange::Delete { exchange: short(&name), if_unused: false, no_wait: false };
                out.method(pool, self.channel, &delete.into());
            }
            SetupStep::Qos => {
                let qos = basic::Qos { prefetch_size: 0, prefetch_count: self.credit(), global: false };
                send(out, qos.into());
            }
            SetupStep::Confirm => send(out, confirm::Select { no_wait: false }.into()),
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
                send(out, consume.into());
            }
            SetupStep::Running => {
                self.send_bindings(out, pool);
                self.send_demand(out, pool);
            }
        }
        true
    }

    /// Sends the next round of bindings, unless an answer is awaited.
    pub fn send_bindings(&mut self, out: &mut Outbound, pool: &Pool) {
        if !self.requests.in_flight && !self.lag_requested && self.requests.is_pending(&self.spec) {
            self.requests.send(&self.spec, (&self.internal.name(), &self.queue), self.channel, out, pool);
        }
    }

    /// Asks the source how many messages wait, unless another answer is awaited.
    pub fn request_lag(&mut self, out: &mut Outbound, pool: &Pool) {
        let pulls = self.spec.direction == RouteDirection::Pull;
        if pulls && self.step == SetupStep::Running && !self.requests.in_flight && !self.lag_requested {
            self.lag_requested = true;
            out.method(pool, self.channel, &passive_declare(&self.queue).into());
        }
    }

    /// Whether methods of the route's own may be sent on its channel.
    pub fn has_open_channel(&self) -> bool {
        !matches!(self.step, SetupStep::NotStarted | SetupStep::OpenChannel | SetupStep::Closing)
    }

    /// The route is removed: deletes what it has declared.
    pub fn tear_down(&mut self, out: &mut Outbound, pool: &Pool) {
        if self.has_open_channel() && has_own_queue(&self.spec) {
            let InternalExchange { suffix, old_suffix, .. } = self.internal;
            for suffix in [Some(suffix), old_suffix].into_iter().flatten().filter(|suffix| *suffix != 0) {
                let name = self.internal.name_with(suffix);
                let gone = exchange::Delete { exchange: short(&name), if_unused: false, no_wait: true };
                out.method(pool, self.channel, &gone.into());
            }
            let is_confirmed = self.is_confirmed();
            let declared = !matches!(self.step, SetupStep::FindExchange | SetupStep::DeclareExchange);
            let may_exist = if is_confirmed { !self.internal.prefix.is_empty() } else { declared };
            if may_exist {
                // The source has named one that is not confirmed.
                let name = if is_confirmed { &*self.internal.prefix } else { b"" };
                out.method(pool, self.channel, &delete(name).into());
            }
        }
        self.step = SetupStep::Closing;
    }
}

/// A queue's name is a short string to which the suffix of an exchange can be added.
const NAME_BYTES_MAX: usize = 255 - 2;
/// FNV-1a of 64 bits (RFC 9923): the same in every version of this program.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Whether a route declares a queue for itself at the source.
fn has_own_queue(spec: &RouteSpec) -> bool {
    spec.direction == RouteDirection::Pull && !matches!(spec.kind, RouteKind::Queue { .. })
}

/// The queue of a route that outlives its connection.
pub(crate) fn lasting_queue(spec: &RouteSpec, downstream: &BrokerIdentity) -> Option<Box<[u8]>> {
    (has_own_queue(spec) && spec.ack == AckMode::Confirm).then(|| queue_name(spec, downstream))
}

/// The name of a route's queue: what it collects, and for which broker.
pub(crate) fn queue_name(spec: &RouteSpec, downstream: &BrokerIdentity) -> Box<[u8]> {
    let mut name = match &spec.options.shovel {
        None => format!("federation: {} -> {}", spec.source_exchange(), downstream.cluster_name),
        Some(shovel) => format!("shovel: {}/{} -> {}", shovel.vhost, shovel.name, downstream.cluster_name),
    };
    if let RouteKind::Static { key } = &spec.kind {
        name.push_str(&format!(" key {key}"));
    }
    if &*downstream.vhost != "/" {
        name.push_str(&format!(":vhost:{}", downstream.vhost));
    }
    if spec.options.shovel.is_none() && spec.source_exchange() != &*spec.exchange {
        name.push_str(&format!(":exchange:{}", spec.exchange));
    }
    if name.len() <= NAME_BYTES_MAX {
        return name.into_bytes().into();
    }
    // The hash distinguishes names; the beginning is for people.
    let hash = name.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    let mut end = NAME_BYTES_MAX - 17;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} {hash:016x}", &name[..end]).into_bytes().into()
}

#[cfg(test)]
mod tests;
