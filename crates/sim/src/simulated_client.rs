//! A client with what it knows: its connection, channels, consumers, unsettled deliveries and pending requests.

use crate::client_connection::{ClientConnection, ClientEvent};
use crate::features::ModelTime;
use broker::ChannelStats;
use link::sim::{SimConnection, SimSide};
use std::collections::BTreeMap;
use wire::ChannelNumber;

/// How publishes of a channel are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PublishMode {
    /// Not at all.
    Plain,
    Confirm,
    /// They wait for the commit.
    Tx,
}

/// A request whose answer a channel waits for.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientRequest {
    /// `queue.declare` of a new queue.
    Declare(usize),
    /// `queue.declare`, passive.
    DeclarePassive(usize),
    /// `queue.declare` of an existing queue; whether with equal arguments.
    Redeclare(usize, bool),
    /// `queue.delete`; whether only if unused or empty.
    Delete(usize, bool),
    /// `queue.purge`.
    Purge(usize),
    /// `queue.bind` or `exchange.bind`: the binding, and the index of its lifetime.
    Bind(usize, usize),
    /// `queue.unbind` or `exchange.unbind`: the binding, and the index of its lifetime.
    Unbind(usize, usize),
    /// `exchange.declare`.
    DeclareExchange(usize),
    /// `exchange.delete`.
    DeleteExchange(usize),
    /// `basic.consume`: the index of the consumer.
    Consume(usize),
    /// `basic.cancel`.
    Cancel(usize),
    /// `basic.get`: the queue, and whether it needs no acknowledgement.
    Get(usize, bool),
    /// `basic.qos` for consumers that start later.
    Prefetch(u32),
    /// `basic.qos` for the channel.
    PrefetchShared(u32),
    /// `channel.flow`.
    Flow(bool),
    /// `basic.recover`.
    Recover,
    /// `confirm.select` or `tx.select`.
    Select(PublishMode),
    /// `tx.commit`.
    Commit,
    /// `tx.rollback`.
    Rollback,
}

/// A pending request, and what its answer proves.
pub struct PendingRequest {
    pub request: ClientRequest,
    pub sent: ModelTime,
    /// How many of the channel's unproven publishes were sent before.
    pub unproven_publishes: usize,
    /// How many of its unproven settlements were sent before.
    pub unproven_settlements: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerState {
    /// `basic.consume` was sent.
    Requested,
    /// It consumes.
    Active,
    /// It was cancelled, and that is not answered.
    Cancelling,
    Gone,
}

pub struct ChannelConsumer {
    /// Identifies the consumer among all of a run.
    pub uid: u64,
    /// Its tag; empty until the broker has named it.
    pub tag: String,
    pub queue: usize,
    /// It needs no acknowledgement.
    pub no_ack: bool,
    /// It consumes exclusively.
    pub exclusive: bool,
    /// Unsettled deliveries that it may have; zero is no limit.
    pub prefetch: u32,
    /// Deliveries that are not settled.
    pub unsettled: u32,
    pub state: ConsumerState,
}

/// A delivery that its channel has not settled.
#[derive(Clone, Copy, Debug)]
pub struct UnsettledDelivery {
    pub queue: usize,
    pub message: u64,
    /// The consumer; `None` for `basic.get`.
    pub consumer: Option<usize>,
    /// A settlement of the open transaction names it.
    pub staged: bool,
    /// When it arrived, in simulated time.
    pub since_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelState {
    /// `channel.open` was sent.
    Opening,
    Open,
    /// The client has closed it.
    Closing,
    Gone,
}

/// How a delivery is settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settlement {
    /// Acknowledged.
    Done,
    /// Rejected for good.
    Rejected,
    /// It goes back.
    Requeue,
}

pub struct ClientChannel {
    /// Its number on the connection.
    pub number: ChannelNumber,
    /// Identifies the channel among all of a run.
    pub uid: u32,
    pub state: ChannelState,
    pub mode: PublishMode,
    /// The tag of the last delivery.
    pub last_tag: u64,
    /// Deliveries that are not settled.
    pub unsettled: BTreeMap<u64, UnsettledDelivery>,
    pub consumers_unsettled: u32,
    /// Its consumers, including those that are gone.
    pub consumers: Vec<ChannelConsumer>,
    /// The request whose answer it waits for.
    pub pending: Option<PendingRequest>,
    /// The request whose answer it waited for when its client closed it.
    pub closed_behind: Option<ClientRequest>,
    /// A message was sent on it.
    pub has_published: bool,
    /// What it has sent and received, as the broker counts it.
    pub counts: ChannelStats,
    /// The number of publishes in confirm mode.
    pub published: u64,
    /// Publishes that are not confirmed.
    pub unconfirmed: BTreeMap<u64, u64>,
    /// Publishes that only a later answer proves.
    pub unproven_publishes: Vec<u64>,
    /// Settlements that only a later answer proves: queue, message, and whether it was rejected.
    pub unproven_settlements: Vec<(usize, u64, bool)>,
    /// Publishes of the open transaction.
    pub staged: Vec<u64>,
    /// Settlements of the open transaction.
    pub staged_settlements: Vec<(u64, Settlement)>,
    /// Publishes of the commit that is under way.
    pub committing: Vec<u64>,
    /// Prefetch of consumers that start later.
    pub prefetch: u32,
    /// Prefetch of the channel; zero is no limit.
    pub prefetch_shared: u32,
    /// `channel.flow` is active.
    pub flow: bool,
    /// When it first requested messages that it must settle, in simulated time.
    pub owing_since_us: Option<u64>,
    /// The broker may have closed it before it received the client's `channel.close`.
    pub doubtful: bool,
    /// Violations, unless the broker has closed the channel already and its `channel.close` is under way; and when they
    /// were noticed.
    pub suspicions: Vec<(ModelTime, String)>,
}

impl ClientChannel {
    /// A channel that is being opened.
    pub fn new(number: ChannelNumber, uid: u32) -> Self {
        ClientChannel {
            number,
            uid,
            state: ChannelState::Opening,
            mode: PublishMode::Plain,
            last_tag: 0,
            unsettled: BTreeMap::new(),
            consumers_unsettled: 0,
            consumers: Vec::new(),
            pending: None,
            closed_behind: None,
            has_published: false,
            counts: ChannelStats::default(),
            published: 0,
            unconfirmed: BTreeMap::new(),
            unproven_publishes: Vec::new(),
            unproven_settlements: Vec::new(),
            staged: Vec::new(),
            staged_settlements: Vec::new(),
            committing: Vec::new(),
            prefetch: 0,
            prefetch_shared: 0,
            flow: true,
            owing_since_us: None,
            doubtful: false,
            suspicions: Vec::new(),
        }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.state == ChannelState::Open
    }

    /// Whether messages of a queue may be on their way to it.
    pub fn may_receive_from(&self, queue: usize) -> bool {
        let has_get = self
            .pending
            .as_ref()
            .is_some_and(|pending| matches!(pending.request, ClientRequest::Get(from, _) if from == queue));
        has_get
            || self.consumers.iter().any(|consumer| consumer.queue == queue && consumer.state != ConsumerState::Gone)
    }

    /// It waits for the answer to a request. What it sent before is proven by that answer.
    pub fn await_reply(&mut self, request: ClientRequest, now: ModelTime) {
        let (unproven_publishes, unproven_settlements) =
            (self.unproven_publishes.len(), self.unproven_settlements.len());
        self.pending = Some(PendingRequest { request, sent: now, unproven_publishes, unproven_settlements });
    }

    /// Records a publish, by the channel's mode.
    pub fn record_publish(&mut self, id: u64) {
        self.has_published = true;
        self.counts.publish += 1;
        match self.mode {
            PublishMode::Plain => self.unproven_publishes.push(id),
            PublishMode::Confirm => {
                self.published += 1;
                self.unconfirmed.insert(self.published, id);
            }
            PublishMode::Tx => self.staged.push(id),
        }
    }

    /// The broker confirms a publish, or all up to it. Returns the messages, or a violation.
    pub fn confirm(&mut self, tag: u64, multiple: bool) -> Result<Vec<u64>, String> {
        if !self.unconfirmed.contains_key(&tag) {
            return Err(format!("channel {}: a confirm of {tag}, which was not awaited", self.uid));
        }
        let first = if multiple { 0 } else { tag };
        let confirmed: Vec<(u64, u64)> = self.unconfirmed.range(first..=tag).map(|(&tag, &id)| (tag, id)).collect();
        confirmed.iter().for_each(|(tag, _)| _ = self.unconfirmed.remove(tag));
        Ok(confirmed.into_iter().map(|(_, id)| id).collect())
    }

    /// Whether it is open and waits for no answer.
    pub fn is_idle(&self) -> bool {
        self.is_open() && self.pending.is_none()
    }
}

/// The state of a connection, as its client knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionState {
    /// The client logs in.
    Opening,
    Open,
    /// The client has closed it.
    Closing,
    Gone,
}

/// What a client does in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ClientRole {
    /// Everything.
    Any,
    /// It declares queues and consumes from them.
    Consumer,
    /// It publishes.
    Publisher,
}

impl ClientRole {
    /// Its name in traces.
    pub fn name(self) -> &'static str {
        match self {
            ClientRole::Any => "client",
            ClientRole::Consumer => "consumer",
            ClientRole::Publisher => "publisher",
        }
    }
}

/// A client with what it knows.
pub struct SimulatedClient {
    /// Its end of the connection.
    pub connection: ClientConnection,
    /// The cable of the connection; the client is on the left.
    pub cable: SimConnection,
    /// Identifies the connection among all of a run.
    pub uid: u32,
    pub broker: usize,
    pub role: ClientRole,
    /// How far the connection is.
    pub state: ConnectionState,
    /// The broker has sent `connection.blocked`.
    pub blocked: bool,
    /// Its channels, in the order of opening, without those that ended.
    pub channels: Vec<ClientChannel>,
    /// Its connection was cut, or will be: it may end at any moment.
    pub cut: bool,
    /// Requests answered.
    pub replies: u64,
}

impl SimulatedClient {
    /// Whether it has a channel, and that is open.
    pub fn has_open_channel(&self) -> bool {
        self.channels.first().is_some_and(ClientChannel::is_open)
    }

    /// The position of a channel by its number on the connection.
    pub fn channel_by_number(&self, number: ChannelNumber) -> Option<usize> {
        self.channels.iter().position(|channel| channel.number == number)
    }

    /// Its connection or one of its channels has changed its state.
    pub fn on_event(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::Opened if self.state == ConnectionState::Opening => self.state = ConnectionState::Open,
            ClientEvent::ChannelOpened(number) => {
                if let Some(channel) = self.channel_by_number(*number) {
                    self.channels[channel].state = ChannelState::Open;
                }
            }
            ClientEvent::Blocked | ClientEvent::BlockedByDisk => self.blocked = true,
            ClientEvent::Unblocked => self.blocked = false,
            ClientEvent::Reply(..) => self.replies += 1,
            _ => {}
        }
    }

    /// At rest: what it still waits for, in words.
    pub fn waits_for(&self) -> Option<String> {
        if self.state != ConnectionState::Open {
            return Some(format!("is still {:?}", self.state));
        }
        if !self.connection.out.is_empty() {
            return Some(format!("could not send {} bytes", self.connection.out.bytes()));
        }
        self.channels.iter().find_map(|channel| {
            let uid = channel.uid;
            if let Some(pending) = &channel.pending {
                return Some(format!("waits for an answer to {:?} on channel {uid}", pending.request));
            }
            if !channel.is_open() {
                return Some(format!("has channel {uid}, which is still {:?}", channel.state));
            }
            let (tag, _) = channel.unconfirmed.first_key_value()?;
            Some(format!("waits for confirm {tag} on channel {uid}"))
        })
    }

    /// Lets it read, and its connection move at full speed.
    pub fn release(&mut self) {
        self.connection.paused = false;
        self.cable.limit_rate(SimSide::Left, None);
        self.cable.limit_rate(SimSide::Right, None);
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientChannel, ClientRequest, PublishMode};
    use wire::ChannelNumber;

    #[test]
    fn a_confirm_covers_one_publish_or_all_up_to_it() {
        let mut channel = ClientChannel::new(ChannelNumber(1), 1);
        channel.mode = PublishMode::Confirm;
        (11..=14).for_each(|id| channel.record_publish(id));
        assert_eq!(channel.confirm(2, false), Ok(vec![12]));
        assert_eq!(channel.confirm(3, true), Ok(vec![11, 13]));
        assert!(channel.confirm(2, false).is_err() && channel.confirm(5, true).is_err());
        assert!(channel.unconfirmed.into_keys().eq([4]));
    }

    #[test]
    fn a_request_records_what_its_answer_proves() {
        let mut channel = ClientChannel::new(ChannelNumber(1), 1);
        channel.unproven_publishes = vec![5, 6];
        channel.await_reply(ClientRequest::Recover, 9);
        let pending = channel.pending.as_ref().expect("it waits");
        assert_eq!((pending.sent, pending.unproven_publishes, pending.unproven_settlements), (9, 2, 0));
        assert!(!channel.is_idle());
    }
}
