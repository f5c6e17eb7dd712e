//! The source: what a program gives to the API, and what it is asked to do.
//!
//! Enters: definitions, counts, live objects.  Leaves: actions, each with a reply that is awaited.

use crate::alarm_history::AlarmHistory;
use crate::api_error::ApiError;
use crate::live::{
    BrokerCounts, BrokerFacts, ExchangeCounts, LiveChannel, LiveConnection, LiveConsumer, LiveFederationLink,
    QueueCounts, QueueOwner, VhostCounts,
};
use crate::live_shovel::LiveShovel;
use crate::query::Query;
use crate::queue_totals::QueueTotals;
use crate::request_body::RequestBody;
use crate::route_path::RouteMatch;
use crate::runtime_counts::RuntimeCounts;
use catalog::{Catalog, ExchangeId, Name, QueueId, QueueRoute, RouteQuestion, SessionId, UserId, VhostId};
use definitions::{DefinitionsFile, Json, KeptSections};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What the API shows and does. Reading takes no time and waits for nobody; an action may.
pub trait Source {
    /// Takes in what has come since; called every second.
    fn refresh(&mut self);
    /// Takes in all definitions that have come, also where that costs the broker something.
    fn follow(&mut self);
    /// Takes in definitions that have come, in front of a login: this user is then known as the broker has it.
    ///
    /// # Errors
    /// That cannot be had in time.
    fn follow_user(&mut self, name: &[u8]) -> Result<(), ApiError>;
    /// Takes in what has come since, in front of a request: somebody looks at the numbers.
    fn begin_request(&mut self);
    /// A replica: it has what was changed by an action when the action is answered.
    fn catalog(&self) -> &Catalog;
    /// Parameters, and what is noted of virtual hosts.
    fn kept(&self) -> &KeptSections;
    fn facts(&self) -> &BrokerFacts;
    fn counts(&self) -> BrokerCounts;
    /// Those that are in effect, and the last ones that were.
    fn alarms(&self) -> &AlarmHistory;
    fn vhost_counts(&self, vhost: VhostId) -> VhostCounts;
    fn exchange_counts(&self, exchange: ExchangeId) -> ExchangeCounts;
    fn queue_counts(&self, queue: QueueId) -> QueueCounts;
    /// What metrics have of a queue.
    fn queue_totals(&self, queue: QueueId) -> QueueTotals;
    fn connections(&self) -> &[LiveConnection];
    /// From a segment to its acknowledgement, as the system has measured it; nothing if it is not over TCP.
    fn round_trip(&self, connection: &LiveConnection) -> Option<Duration>;
    /// The connection of a session, which exclusive queues belong to; nothing if it has not been told of yet.
    fn queue_owner(&self, session: SessionId) -> Option<QueueOwner>;
    fn channels(&self) -> &[LiveChannel];
    fn consumers(&self) -> &[LiveConsumer];
    fn runtime(&self) -> RuntimeCounts;
    fn federation_links(&self) -> &[LiveFederationLink];
    /// Those that parameters have made.
    fn shovels(&self) -> &[LiveShovel];
    /// Whether the broker can do what a sound parameter of a component says, in the name of this user.
    ///
    /// # Errors
    /// Why not; without passwords.
    fn check_parameter(&self, component: &str, vhost: &str, user: &str, value: &Json) -> Result<(), String>;
    /// Where a message would go; `None` if finding out takes more work than that.
    fn find_route(&mut self, message: RouteQuestion<'_>) -> Option<Arc<QueueRoute>>;
    /// When the numbers were counted, in milliseconds since the epoch; later than before if they are others.
    fn counted_ms(&self) -> u64;
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> u64;
    /// A random number that nobody can guess.
    fn random(&mut self) -> u64;
    /// Somebody has offered a password, which was right or not.
    fn count_login(&mut self, is_right: bool);
    /// Begins to do something. A reply that is dropped is one that the broker stops.
    fn act(&mut self, action: Action, reply: ActionReply);
}

/// What is to be done, and for whom.
pub struct Action {
    /// With this user's permissions, where AMQP asks for some.
    pub user: UserId,
    pub user_name: Name,
    /// Of the hash of a password that comes with it: random, and the action's own.
    pub salt: [u8; 4],
    pub kind: ActionKind,
}

/// What is to be done.
pub enum ActionKind {
    /// Take a definitions file in: all of it, or into one virtual host.
    Import { file: Box<DefinitionsFile>, vhost: Option<VhostId> },
    /// What a route says that changes something or takes messages. Path, query and body are the client's; the user may use the
    /// route and the virtual host.
    Route { matched: RouteMatch, query: Query, body: RequestBody, reason: Option<String> },
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionOutcome {
    /// 201, with the value of `Location` if there is one.
    Created(Option<String>),
    /// 204: it is done, or was already.
    Done,
    /// 200 with a body.
    Answer(Json),
}

/// Where the outcome of an action goes.
pub struct ActionReply(oneshot::Sender<Result<ActionOutcome, ApiError>>);

impl ActionReply {
    /// With the end at which the outcome is awaited.
    pub fn channel() -> (Self, oneshot::Receiver<Result<ActionOutcome, ApiError>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Answers. Whoever asked may have gone.
    pub fn send(self, outcome: Result<ActionOutcome, ApiError>) {
        if self.0.send(outcome).is_err() {
            tracing::debug!("nobody waits for the outcome of an action any more");
        }
    }
}
