//! A connection to another broker, in the client's role: login, channels, and the setup of each route at the other end.
//!
//! Enters: events of the connection; routes.  Leaves: methods, and decisions for the owner (`LinkDecision`).
//! Owns:   the order of the handshake, and which answer belongs to which route.

use crate::left_queues::{GivenUpQueue, LeftQueues};
use crate::message_refusal::{refuses_message, suspects_messages};
use crate::remote_setup::{LinkParties, RemoteSetup, SetupStep, lasting_queue};
use crate::route_table::{RouteId, RouteTable};
use crate::{BrokerIdentity, LinkState, RouteSpec};
use catalog::ExchangeDefinition;
use session::{Capabilities, Event, Inbound, Outbound, SessionLimits, Tuning, sasl};
use slab::Pool;
use std::collections::VecDeque;
use wire::method::{Method, channel, connection};
use wire::{ChannelNumber, ReplyCode, ShortStr, Table, TableRef, Value};

/// The user and virtual host with which a connection logs in.
#[derive(Clone, Debug)]
pub struct LinkLogin {
    pub user: Box<str>,
    pub password: Box<str>,
    /// The virtual host at the other broker.
    pub vhost: Box<str>,
    /// The other broker's address without a password; it stands in for a cluster name that the broker does not announce.
    pub address: Box<str>,
    /// Whether a certificate, or a token shown when the link was made, authenticates this broker (SASL EXTERNAL).
    pub external: bool,
}

impl LinkLogin {
    fn mechanism(&self) -> &'static str {
        if self.external { "EXTERNAL" } else { "PLAIN" }
    }
}

/// Why a session is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionEnd {
    pub text: Box<str>,
    /// Another try soon would fail as well.
    pub is_refusal: bool,
    /// The next session asks for something else, so it may start at once.
    pub at_once: bool,
    /// One of the messages that the other broker was sent may be the reason.
    pub suspects_messages: bool,
}

/// What the owner of a session has to carry out next, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkDecision {
    /// Call [`LinkSession::log_in`].
    LogIn,
    /// Call [`LinkSession::tune`] and apply the result to the connection.
    Tune(connection::Tune),
    /// The connection is open and the other broker is known: begin the routes.
    Open,
    /// Call [`LinkSession::open_channel`]: the other broker closed the route's channel, as the setup expected.
    OpenChannel(RouteId),
    /// The route has what it needs at the other end: set up its side here, then call
    /// [`LinkSession::on_local_side_ready`].
    SetUpLocalSide(RouteId),
    /// Messages flow on a route.
    RouteRuns(RouteId),
    /// The other broker closed the channel of a route. `channel` is 0 if nothing was set up here yet.
    /// `refuses_message`: it refuses one of the messages that it was sent, for good.
    RouteClosed { route: RouteId, channel: ChannelNumber, text: Box<str>, refuses_message: bool },
    /// The other broker deleted the queue of a route: close the route's channel at both ends.
    RouteCancelled { route: RouteId, channel: ChannelNumber },
    /// Call [`LinkSession::delete_left_queues`].
    DeleteLeftQueues,
    /// Close the link's connection.
    End(SessionEnd),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SessionStage {
    Greeting,
    Login,
    Opening,
    Open,
}

/// The sessions of one link, one after the other, and its routes.
pub struct LinkSession {
    own: BrokerIdentity,
    login: LinkLogin,
    limits: SessionLimits,
    stage: SessionStage,
    peer: Option<BrokerIdentity>,
    pub routes: RouteTable,
    left_queues: LeftQueues,
    /// The source does not know the exchange type `x-federation-upstream`: a fanout exchange replaces it.
    fanout_only: bool,
    blocked: Option<Box<str>>,
    decisions: VecDeque<LinkDecision>,
}

/// How RabbitMQ and this broker begin the refusal of an unknown type of exchange.
const COMMAND_INVALID: &str = "COMMAND_INVALID";

fn text_of(text: ShortStr<'_>) -> Box<str> {
    String::from_utf8_lossy(text.as_bytes()).into()
}

impl LinkSession {
    /// A session of this broker's virtual host `own`. Bindings are requested as long as fewer than `output_bytes_max` bytes
    /// wait to be sent.
    pub fn new(own: BrokerIdentity, limits: SessionLimits, output_bytes_max: usize) -> Self {
        let login =
            LinkLogin { user: "".into(), password: "".into(), vhost: "/".into(), address: "".into(), external: false };
        LinkSession {
            own,
            login,
            limits,
            stage: SessionStage::Greeting,
            peer: None,
            routes: RouteTable::new(output_bytes_max),
            left_queues: LeftQueues::default(),
            fanout_only: false,
            blocked: None,
            decisions: VecDeque::new(),
        }
    }

    /// Starts a session on a new connection: writes the protocol header.
    pub fn begin(&mut self, login: LinkLogin, limits: SessionLimits, out: &mut Outbound, pool: &Pool) {
        self.disconnect();
        self.login = login;
        self.limits = limits;
        out.protocol_header(pool);
    }

    /// The connection is over.
    pub fn disconnect(&mut self) {
        self.stage = SessionStage::Greeting;
        self.blocked = None;
        self.decisions.clear();
        self.routes.disconnect();
        self.left_queues.disconnect();
    }

    /// The other broker, once it has identified itself.
    pub fn peer(&self) -> Option<&BrokerIdentity> {
        self.peer.as_ref()
    }

    /// Whether the other end has sent `connection.start` on this connection, which shows that it speaks AMQP 0-9-1.
    pub fn is_identified(&self) -> bool {
        self.stage != SessionStage::Greeting
    }

    /// This broker.
    pub fn own(&self) -> &BrokerIdentity {
        &self.own
    }

    pub fn state(&self) -> LinkState {
        match &self.blocked {
            Some(reason) => LinkState::BlockedThere { reason: reason.clone() },
            None if self.is_set_up() => LinkState::Running,
            None => LinkState::Connecting,
        }
    }

    /// Whether each route has been set up, as far as it can be.
    pub fn is_set_up(&self) -> bool {
        let is_set_up =
            |setup: &RemoteSetup| setup.step == SetupStep::Running || setup.is_delayed() || setup.error.is_some();
        self.stage == SessionStage::Open && self.routes.setups().all(is_set_up)
    }

    /// Whether routes may begin.
    pub fn is_open(&self) -> bool {
        self.stage == SessionStage::Open
    }

    /// Begins a route. `local_exchange` describes its exchange here, for a source that does not have it.
    pub fn begin_route(
        &mut self,
        route: RouteId,
        local_exchange: Option<ExchangeDefinition>,
        inbound: &mut Inbound,
        out: &mut Outbound,
        pool: &Pool,
    ) {
        if self.stage != SessionStage::Open {
            return;
        }
        let Some(setup) = self.routes.get_mut(route) else { return };
        if setup.step != SetupStep::NotStarted {
            return;
        }
        setup.begin(local_exchange);
        self.open_channel(route, inbound, out, pool);
    }

    /// Opens a channel for a route.
    pub fn open_channel(&mut self, route: RouteId, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        let Some(setup) = self.routes.get_mut(route) else { return };
        match inbound.open_channel(out, pool) {
            Some(channel) => self.routes.assign_channel(route, channel),
            None => {
                setup.disconnect();
                setup.error = Some("the other broker allows no more channels".into());
            }
        }
    }

    /// Brokers downstream of one that came back have had the time to request their bindings again: delayed routes go on.
    pub fn end_delays(&mut self, mut writer: Option<(&mut Outbound, &Pool)>) {
        let ended = self.routes.setups_mut().filter_map(|(route, setup)| setup.end_delay().then_some(route));
        let ended: Vec<_> = ended.collect();
        for route in ended {
            if let Some((out, pool)) = &mut writer {
                self.send_step(route, false, out, pool);
            }
        }
    }

    /// The side of a route at this broker is set up.
    pub fn on_local_side_ready(&mut self, route: RouteId, out: &mut Outbound, pool: &Pool) {
        let parties = LinkParties { own: &self.own, peer: self.peer.as_ref(), fanout_only: self.fanout_only };
        let Some(setup) = self.routes.get_mut(route) else { return };
        if setup.step == SetupStep::LocalSide {
            setup.advance();
            let is_sent = setup.send_step(&parties, out, pool);
            if is_sent && setup.step == SetupStep::Running {
                self.decisions.push_back(LinkDecision::RouteRuns(route));
            }
        }
    }

    /// Closes the channel of a route, which ends with an error until it begins again.
    pub fn close_channel(&mut self, route: RouteId, why: &str, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        let Some(setup) = self.routes.get_mut(route) else { return };
        let channel = setup.channel;
        setup.disconnect();
        setup.error = Some(why.into());
        if channel > ChannelNumber::CONNECTION {
            self.routes.release_channel(channel);
            inbound.close_channel(channel, ReplyCode::Success.number(), "Goodbye", out, pool);
        }
    }

    /// Adds a route; see [`RouteTable::add`].
    pub fn add_route(&mut self, spec: RouteSpec, delayed: bool) -> RouteId {
        if let Some(queue) = lasting_queue(&spec, &self.own) {
            self.left_queues.keep(&queue);
        }
        self.routes.add(spec, delayed)
    }

    /// Removes a route, and what it has declared at the other broker. Returns its channel, if it had one. Without a connection, or
    /// a channel of the route's, its queue is deleted later: see [`has_left_queues`](Self::has_left_queues).
    pub fn remove_route(
        &mut self,
        route: RouteId,
        connection: Option<(&mut Inbound, &mut Outbound, &Pool)>,
    ) -> Option<ChannelNumber> {
        let mut setup = self.routes.remove(route)?;
        let has_channel = setup.channel > ChannelNumber::CONNECTION;
        let is_torn_down = connection.is_some() && has_channel && setup.has_open_channel();
        if let Some(queue) = lasting_queue(&setup.spec, &self.own).filter(|_| !is_torn_down) {
            self.left_queues.add(queue);
        }
        if let Some((inbound, out, pool)) = connection {
            if has_channel {
                setup.tear_down(out, pool);
                inbound.close_channel(setup.channel, ReplyCode::Success.number(), "Goodbye", out, pool);
            }
            self.clean_up(inbound, out, pool);
        }
        has_channel.then_some(setup.channel)
    }

    /// Whether queues of removed routes may be left at the other broker, where they collect messages for nobody: connect, and call
    /// [`clean_up`](Self::clean_up), or [give them up](Self::give_up_left_queues).
    pub fn has_left_queues(&self) -> bool {
        !self.left_queues.is_empty()
    }

    /// Begins to delete the queues that are left, if the connection is open.
    pub fn clean_up(&mut self, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        if self.is_open() {
            self.left_queues.open_channel(inbound, out, pool);
        }
    }

    /// Deletes the queues that are left.
    pub fn delete_left_queues(&mut self, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        self.left_queues.delete(inbound, out, pool);
    }

    /// The queues that are left stay at the other broker.
    pub fn give_up_left_queues(&mut self, why: &str) {
        self.left_queues.give_up(why);
    }

    /// Queues that stay at the other broker, for the operator to know.
    pub fn take_given_up_queues(&mut self) -> Vec<GivenUpQueue> {
        self.left_queues.take_given_up()
    }

    /// The next thing to carry out.
    pub fn next_decision(&mut self) -> Option<LinkDecision> {
        self.decisions.pop_front()
    }

    /// Handles an event of the connection. Deliveries and acknowledgements are the owner's.
    pub fn on_event(&mut self, event: &Event<'_>, out: &mut Outbound, pool: &Pool) {
        match *event {
            Event::Start(ref start) => self.on_start(start.mechanisms, start.server_properties),
            Event::Secure { .. } => self.end("the other broker requests more than a password", true),
            Event::Tune(tune) => self.decisions.push_back(LinkDecision::Tune(tune)),
            Event::OpenOk => {
                self.stage = SessionStage::Open;
                self.decisions.push_back(LinkDecision::Open);
            }
            Event::ChannelOpened { channel } => self.on_channel_opened(channel, out, pool),
            Event::ChannelClosed { channel, code, text, class_id, method_id } => {
                self.on_channel_closed(channel, code, &text_of(text), (class_id, method_id));
            }
            Event::Blocked { reason } => self.blocked = Some(text_of(reason)),
            Event::Unblocked => self.blocked = None,
            Event::CloseRequested { code, text, class_id, method_id } => {
                // RabbitMQ and this broker alike close the connection of whom they refuse: 403 before the login, 530 for the
                // virtual host.
                let is_early = self.stage != SessionStage::Open;
                let text = format!("closed by the other broker: {code} {}", text_of(text));
                self.end(&text, is_early && code != ReplyCode::ConnectionForced.number());
                let suspects = !is_early && suspects_messages(code, (class_id, method_id));
                if let Some(LinkDecision::End(end)) = self.decisions.back_mut() {
                    end.suspects_messages = suspects;
                }
            }
            Event::CloseOk => self.end("closed", false),
            Event::Method { channel, ref method } => match method {
                Method::QueueDeclareOk(ok) => {
                    self.on_answer(channel, Some((ok.queue.as_bytes(), ok.message_count)), out, pool);
                }
                Method::BasicCancel(_) => {
                    if let Some(route) = self.routes.on_channel(channel) {
                        self.decisions.push_back(LinkDecision::RouteCancelled { route, channel });
                    }
                }
                Method::ChannelFlow(flow) => {
                    out.method(pool, channel, &channel::FlowOk { active: flow.active }.into());
                }
                _ => self.on_answer(channel, None, out, pool),
            },
            // The owner's, a server's, or without consequence.
            Event::ChannelCloseOk { .. }
            | Event::Deliver { .. }
            | Event::PassedOver { .. }
            | Event::GetOk { .. }
            | Event::Return { .. }
            | Event::Publish { .. }
            | Event::PublishRun { .. }
            | Event::PublishBegun { .. }
            | Event::Login { .. }
            | Event::LoginResponse { .. }
            | Event::Tuned(_)
            | Event::Open { .. } => {}
        }
    }

    fn on_start(&mut self, mechanisms: &[u8], server_properties: TableRef<'_>) {
        let text = |name| match server_properties.get(name).and_then(|value| value.as_bytes()) {
            Some(bytes) if !bytes.is_empty() => Some(Box::from(String::from_utf8_lossy(bytes))),
            _ => None,
        };
        let product = || text("product").unwrap_or("the other broker".into());
        let mechanism = self.login.mechanism();
        if !mechanisms.split(|&byte| byte == b' ').any(|name| name == mechanism.as_bytes()) {
            return self.end(&format!("{} does not offer the mechanism {mechanism}", product()), true);
        }
        let capabilities = Capabilities::of(server_properties);
        if !(capabilities.has(Capabilities::PUBLISHER_CONFIRMS) && capabilities.has(Capabilities::BASIC_NACK)) {
            return self.end(&format!("{} has no publisher confirms and basic.nack", product()), true);
        }
        let has_queues = self.routes.iter().any(|(_, spec)| spec.options.federated_queue.is_some());
        if has_queues && !capabilities.has(Capabilities::CONSUMER_PRIORITIES) {
            return self.end(&format!("{} has no consumer priorities, which federated queues need", product()), true);
        }
        let cluster_name = text("cluster_name").unwrap_or_else(|| self.login.address.clone());
        let peer = BrokerIdentity { cluster_name, vhost: self.login.vhost.clone() };
        if peer == self.own && self.routes.iter().any(|(_, spec)| spec.is_traced()) {
            return self.end("a route from this broker to itself", true);
        }
        self.peer = Some(peer);
        self.stage = SessionStage::Login;
        self.decisions.push_back(LinkDecision::LogIn);
    }

    /// Answers `connection.start`.
    pub fn log_in(&self, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        let properties = client_properties(&self.own).to_bytes();
        let LinkLogin { user, password, external, .. } = &self.login;
        let response = if *external { Vec::new() } else { sasl::plain_response(user, password) };
        inbound.log_in(self.login.mechanism(), &response, TableRef::new(&properties), out, pool);
    }

    /// Answers `connection.tune` and asks for the virtual host. Returns the limits that apply from now on.
    pub fn tune(&mut self, tune: &connection::Tune, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) -> Tuning {
        let tuning = inbound.tune(tune, &self.limits, out, pool);
        match ShortStr::new(self.login.vhost.as_bytes()) {
            Ok(vhost) => {
                inbound.open(vhost, out, pool);
                self.stage = SessionStage::Opening;
            }
            Err(_) => self.end("the name of the virtual host is too long", true),
        }
        tuning
    }

    fn on_channel_opened(&mut self, channel: ChannelNumber, out: &mut Outbound, pool: &Pool) {
        if self.left_queues.is_on(channel) {
            return self.decisions.push_back(LinkDecision::DeleteLeftQueues);
        }
        let Some(route) = self.routes.on_channel(channel) else { return };
        if let Some(setup) = self.routes.get_mut(route)
            && setup.step == SetupStep::OpenChannel
        {
            setup.advance();
        }
        self.send_step(route, false, out, pool);
    }

    /// An answer arrived on a channel: of a `queue.declare-ok`, the queue's name and how many messages it has.
    fn on_answer(&mut self, channel: ChannelNumber, queue: Option<(&[u8], u32)>, out: &mut Outbound, pool: &Pool) {
        let Some(route) = self.routes.on_channel(channel) else { return };
        let Some(setup) = self.routes.get_mut(route) else { return };
        let was_running = setup.step == SetupStep::Running;
        if setup.on_answer(queue) {
            self.send_step(route, was_running, out, pool);
        }
    }

    fn on_channel_closed(&mut self, channel: ChannelNumber, code: u16, text: &str, method: (u16, u16)) {
        if self.left_queues.is_on(channel) {
            return self.left_queues.give_up(text);
        }
        let Some(route) = self.routes.on_channel(channel) else { return };
        self.routes.release_channel(channel);
        let Some(setup) = self.routes.get_mut(route) else { return };
        let was_running = setup.step == SetupStep::Running;
        let has_local_side = setup.has_local_side();
        self.decisions.push_back(match setup.on_channel_closed(code, text) {
            true => LinkDecision::OpenChannel(route),
            false => {
                let channel = if has_local_side { channel } else { ChannelNumber::CONNECTION };
                let refuses_message = was_running && refuses_message(code, text, method);
                LinkDecision::RouteClosed { route, channel, text: text.into(), refuses_message }
            }
        });
    }

    fn send_step(&mut self, route: RouteId, was_running: bool, out: &mut Outbound, pool: &Pool) {
        let parties = LinkParties { own: &self.own, peer: self.peer.as_ref(), fanout_only: self.fanout_only };
        let Some(setup) = self.routes.get_mut(route) else { return };
        setup.send_step(&parties, out, pool);
        match setup.step {
            SetupStep::LocalSide => self.decisions.push_back(LinkDecision::SetUpLocalSide(route)),
            SetupStep::Running if !was_running => self.decisions.push_back(LinkDecision::RouteRuns(route)),
            _ => {}
        }
    }

    fn end(&mut self, text: &str, is_refusal: bool) {
        let declares_internal = |setup: &RemoteSetup| setup.step == SetupStep::DeclareInternal;
        // The source does not know the type of exchange: the next session asks for a fanout exchange.
        let at_once =
            !self.fanout_only && text.contains(COMMAND_INVALID) && self.routes.setups().any(declares_internal);
        self.fanout_only |= at_once;
        self.decisions.push_back(LinkDecision::End(SessionEnd {
            text: text.into(),
            is_refusal,
            at_once,
            suspects_messages: false,
        }));
    }
}

fn client_properties(own: &BrokerIdentity) -> Table {
    let capabilities = Capabilities::AUTHENTICATION_FAILURE_CLOSE
        .with(Capabilities::CONNECTION_BLOCKED)
        .with(Capabilities::CONSUMER_CANCEL_NOTIFY)
        .with(Capabilities::BASIC_NACK)
        .with(Capabilities::PUBLISHER_CONFIRMS)
        .with(Capabilities::EXCHANGE_EXCHANGE_BINDINGS);
    let entries = [
        ("product", Value::text("Harrier federation")),
        ("version", Value::text(env!("CARGO_PKG_VERSION"))),
        ("cluster_name", Value::text(&own.cluster_name)),
        ("connection_name", Value::text(&format!("federation of {}", own.cluster_name))),
        ("capabilities", Value::Table(capabilities.to_table())),
    ];
    entries
        .into_iter()
        .fold(Table::new(), |table, (name, value)| table.with(name, value).expect("the names above are short"))
}

#[cfg(test)]
mod tests {
    use super::{LinkDecision, LinkSession};
    use crate::{AckMode, BrokerIdentity, FederatedQueue, RouteDirection, RouteKind, RouteOptions, RouteSpec};
    use session::{Capabilities, Event, Outbound, SessionLimits};
    use slab::Pool;
    use wire::method::connection::Start;
    use wire::{Table, TableRef, Value};

    #[test]
    fn federated_queues_need_consumer_priorities_at_their_upstream() {
        let spec = |federated_queue| RouteSpec {
            exchange: "".into(),
            kind: RouteKind::Queue { queue: "q".into() },
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max: 1,
            durable: true,
            forced: false,
            dead_letter_exchange: None,
            options: RouteOptions { federated_queue, ..RouteOptions::default() },
        };
        let plain = Capabilities::PUBLISHER_CONFIRMS.with(Capabilities::BASIC_NACK);
        let with_priorities = plain.with(Capabilities::CONSUMER_PRIORITIES);
        for (is_federated, capabilities, is_taken) in
            [(false, plain, true), (true, plain, false), (true, with_priorities, true)]
        {
            let own = BrokerIdentity { cluster_name: "own".into(), vhost: "/".into() };
            let mut session = LinkSession::new(own, SessionLimits::default(), 1_000);
            session.routes.add(spec(is_federated.then(|| Box::new(FederatedQueue::default()))), false);
            let capabilities = Value::Table(capabilities.to_table());
            let properties = Table::new().with("capabilities", capabilities).expect("short").to_bytes();
            let start = Start {
                version_major: 0,
                version_minor: 9,
                server_properties: TableRef::new(&properties),
                mechanisms: b"PLAIN",
                locales: b"en_US",
            };
            session.on_event(&Event::Start(start), &mut Outbound::new(), &Pool::default());
            match session.next_decision() {
                Some(LinkDecision::LogIn) => assert!(is_taken),
                Some(LinkDecision::End(end)) => {
                    assert!(!is_taken && end.is_refusal && end.text.contains("no consumer priorities"), "{end:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
