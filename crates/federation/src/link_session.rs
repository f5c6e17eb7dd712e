//! A connection to another broker, from the first byte to the last: what is said on it, in which order.
//!
//! Enters: events of the session, in the client's role; routes.  Leaves: methods; what its owner must do (`Told`).
//! Owns:   the login, the channels, what each route needs there.
//! Never:  moves a message, knows a link, decides when to dial.

use crate::remote_setup::{LinkParties, SetupStep, RemoteSetup};
use crate::{BrokerIdentity, LinkState, BindingPropagation, RouteSpec};
use catalog::ExchangeDefinition;
use session::{Capabilities, Event, Inbound, Outbound, SessionLimits, Tuning, sasl};
use slab::Pool;
use std::collections::VecDeque;
use wire::method::{Method, basic, channel, connection};
use wire::{ReplyCode, ShortStr, Table, TableRef, Value};

/// As whom, and where, a connection logs in.
#[derive(Clone, Debug)]
pub struct LinkLogin {
    /// The user.
    pub user: Box<str>,
    /// The password.
    pub password: Box<str>,
    /// The virtual host at the other broker.
    pub vhost: Box<str>,
    /// The other broker's address without a password: its name, if it has no other.
    pub address: Box<str>,
    /// Whether something else says who this is: a certificate, or a token shown when the link was made (SASL EXTERNAL).
    pub external: bool,
}

/// Why a connection is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionEnd {
    /// In words.
    pub text: Box<str>,
    /// What it is not worth trying again for soon.
    pub is_refusal: bool,
    /// The next one will say something else: it may be made at once.
    pub at_once: bool,
}

/// What the owner of a connection must do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkDecision {
    /// Limits are settled.
    Tuned(Tuning),
    /// The connection is open, and who is at the other end is known: routes may begin.
    Open,
    /// A route has what it needs there: its side here is to be made, then [`Peering::here`] to be called.
    Here(usize),
    /// The channel of a route has gone: so must its side here. The text says why, unless it was asked for.
    RouteOver {
        /// Which.
        route: usize,
        /// Its channel.
        channel: u16,
        /// Why.
        text: Option<Box<str>>,
    },
    /// Messages flow on a route.
    Runs(usize),
    /// Nothing more comes: the link is to be ended.
    Over(SessionEnd),
}

/// What an event says, without its borrows.
enum ControlEvent {
    Start { offers: bool, product: Box<str>, cluster_name: Option<Box<str>>, confirms: bool },
    Tune(connection::Tune),
    Open,
    ChannelOpened(u16),
    ChannelClosed { channel: u16, code: u16, text: Box<str> },
    Answer { channel: u16, queue: Option<(Box<[u8]>, u32)> },
    Cancelled(u16),
    Flow { channel: u16, active: bool },
    Blocked(Box<str>),
    Unblocked,
    Over(SessionEnd),
    Nothing,
}

/// Where the connection as a whole stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SessionStage {
    Greeting,
    Login,
    Opening,
    Open,
}

/// One link's connections, one after the other, and its routes.
pub struct LinkSession {
    own: BrokerIdentity,
    login: LinkLogin,
    limits: SessionLimits,
    output_bytes_max: usize,
    stage: SessionStage,
    peer: Option<BrokerIdentity>,
    routes: Vec<Option<RemoteSetup>>,
    /// The route of each channel.
    by_channel: Vec<Option<usize>>,
    fanout_only: bool,
    blocked: Option<Box<str>>,
    told: VecDeque<LinkDecision>,
}

fn text_of(text: ShortStr<'_>) -> Box<str> {
    String::from_utf8_lossy(text.as_bytes()).into()
}

fn over(text: impl Into<Box<str>>, is_refusal: bool) -> ControlEvent {
    ControlEvent::Over(SessionEnd { text: text.into(), is_refusal, at_once: false })
}

impl LinkSession {
    /// Of this broker's virtual host `own`; bindings are asked for as long as fewer than `output_bytes_max` bytes wait to be sent.
    pub fn new(own: BrokerIdentity, limits: SessionLimits, output_bytes_max: usize) -> Self {
        let nobody =
            LinkLogin { user: "".into(), password: "".into(), vhost: "/".into(), address: "".into(), external: false };
        LinkSession {
            own,
            login: nobody,
            limits,
            output_bytes_max,
            stage: SessionStage::Greeting,
            peer: None,
            routes: Vec::new(),
            by_channel: Vec::new(),
            fanout_only: false,
            blocked: None,
            told: VecDeque::new(),
        }
    }

    /// A new connection: says the first words.
    pub fn begin(&mut self, login: LinkLogin, limits: SessionLimits, out: &mut Outbound, pool: &Pool) {
        self.disconnect();
        self.login = login;
        self.limits = limits;
        out.protocol_header(pool);
    }

    /// The connection is over.
    pub fn disconnect(&mut self) {
        self.stage = SessionStage::Greeting;
        self.by_channel.clear();
        self.blocked = None;
        self.told.clear();
        self.routes.iter_mut().flatten().for_each(RemoteSetup::disconnect);
    }

    /// Who is at the other end, once known.
    pub fn peer(&self) -> Option<&BrokerIdentity> {
        self.peer.as_ref()
    }

    /// Whether the other end has said who it is on this connection: something that speaks no AMQP never does.
    pub fn has_said_who(&self) -> bool {
        self.stage != SessionStage::Greeting
    }

    /// Who this broker is.
    pub fn own(&self) -> &BrokerIdentity {
        &self.own
    }

    /// The other broker takes no publishes, and why.
    pub fn blocked(&self) -> Option<&str> {
        self.blocked.as_deref()
    }

    /// What the connection is doing.
    pub fn state(&self) -> LinkState {
        let is_on_its_way = |route: &RemoteSetup| route.step != SetupStep::Running && !route.is_delayed() && route.error.is_none();
        let waits = self.routes.iter().flatten().any(is_on_its_way);
        match &self.blocked {
            Some(reason) => LinkState::BlockedThere { reason: reason.clone() },
            None if self.stage == SessionStage::Open && !waits => LinkState::Running,
            None => LinkState::Connecting,
        }
    }

    /// One more route. Answers its number. One that was there before this broker came back `waits` before it takes anything,
    /// until [`wait_is_over`](Self::wait_is_over).
    pub fn add_route(&mut self, spec: RouteSpec, waits: bool) -> usize {
        let there = Some(RemoteSetup::new(spec, waits, self.output_bytes_max));
        match self.routes.iter().position(Option::is_none) {
            Some(free) => {
                self.routes[free] = there;
                free
            }
            None => {
                self.routes.push(there);
                self.routes.len() - 1
            }
        }
    }

    /// The number of a route that carries the same.
    pub fn find_route(&self, spec: &RouteSpec) -> Option<usize> {
        self.routes.iter().position(|route| route.as_ref().is_some_and(|route| route.spec.carries_same(spec)))
    }

    /// All routes, by their numbers.
    pub fn routes(&self) -> impl Iterator<Item = (usize, &RouteSpec)> {
        self.routes.iter().enumerate().filter_map(|(number, route)| Some((number, &route.as_ref()?.spec)))
    }

    /// A route as an operator wants it.
    pub fn spec(&self, route: usize) -> Option<&RouteSpec> {
        Some(&self.routes.get(route)?.as_ref()?.spec)
    }

    /// The channel of a route, while it has one.
    pub fn channel(&self, route: usize) -> Option<u16> {
        let channel = self.routes.get(route)?.as_ref()?.channel;
        (channel > 0).then_some(channel)
    }

    /// Whether messages flow on a route; why not, if that is its own affair; what waits at the source.
    pub fn route_state(&self, route: usize) -> (bool, Option<&str>, Option<u64>) {
        match self.routes.get(route).and_then(Option::as_ref) {
            Some(there) if there.is_delayed() => (false, Some(RETURNS), there.lag),
            Some(there) => (there.step == SetupStep::Running, there.error.as_deref(), there.lag),
            None => (false, None, None),
        }
    }

    /// The route of a channel.
    #[inline]
    pub fn route_of(&self, channel: u16) -> Option<usize> {
        self.by_channel.get(usize::from(channel)).copied().flatten()
    }

    /// Whether routes may begin.
    pub fn is_open(&self) -> bool {
        self.stage == SessionStage::Open
    }

    /// A route begins: `like` is what its exchange is here, for a source that does not have it.
    pub fn begin_route(
        &mut self,
        route: usize,
        like: Option<ExchangeDefinition>,
        inbound: &mut Inbound,
        out: &mut Outbound,
        pool: &Pool,
    ) {
        if self.stage != SessionStage::Open {
            return;
        }
        let Some(Some(there)) = self.routes.get_mut(route) else { return };
        if there.step != SetupStep::NotStarted {
            return;
        }
        there.begin(like);
        self.open_channel(route, inbound, out, pool);
    }

    fn open_channel(&mut self, route: usize, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        let Some(Some(there)) = self.routes.get_mut(route) else { return };
        match inbound.open_channel(out, pool) {
            Some(channel) => {
                there.channel = channel;
                let index = usize::from(channel);
                if self.by_channel.len() <= index {
                    self.by_channel.resize(index + 1, None);
                }
                self.by_channel[index] = Some(route);
            }
            None => {
                there.disconnect();
                there.error = Some("the other broker allows no more channels".into());
            }
        }
    }

    /// A route could not begin here, and why.
    pub fn route_failed(&mut self, route: usize, text: &str) {
        if let Some(Some(there)) = self.routes.get_mut(route) {
            there.error = Some(text.into());
        }
    }

    /// What a dynamic route wants; it is kept up to date by its owner, who tells [`wanted`](Self::wanted) then.
    pub fn mirror(&mut self, route: usize) -> Option<&mut BindingPropagation> {
        self.routes.get_mut(route)?.as_mut()?.propagation.as_deref_mut()
    }

    /// A dynamic route has something to want.
    pub fn set_mirror(&mut self, route: usize, mirror: BindingPropagation) {
        if let Some(Some(there)) = self.routes.get_mut(route) {
            there.propagation = Some(Box::new(mirror));
        }
    }

    /// Of a static route: whether messages of its exchange here go where they may come twice, so that they are to be stamped. A
    /// change is told to the source when it is [`wanted`](Self::wanted).
    pub fn set_asks(&mut self, route: usize, asks: bool) {
        if let Some(Some(there)) = self.routes.get_mut(route) {
            there.set_wants_stamps(asks);
        }
    }

    /// Bindings of the source that a route has asked for.
    pub fn mirrored(&self, route: usize) -> u64 {
        let there = self.routes.get(route).and_then(Option::as_ref);
        there.and_then(|there| there.propagation.as_ref()).map_or(0, |mirror| mirror.requested())
    }

    /// What a route wants has changed.
    pub fn wanted(&mut self, route: usize, out: &mut Outbound, pool: &Pool) {
        if let Some(Some(there)) = self.routes.get_mut(route)
            && matches!(there.step, SetupStep::Bind | SetupStep::Running)
        {
            there.send_bindings(out, pool);
        }
    }

    /// Those below a broker that came back have had the time to ask again.
    pub fn wait_is_over(&mut self, mut ends: Option<(&mut Outbound, &Pool)>) {
        for route in 0..self.routes.len() {
            if self.routes[route].as_mut().is_some_and(RemoteSetup::end_delay)
                && let Some((out, pool)) = &mut ends
            {
                self.say(route, false, out, pool);
            }
        }
    }

    /// The side here of a route is made.
    pub fn here(&mut self, route: usize, out: &mut Outbound, pool: &Pool) {
        let parties = LinkParties { own: &self.own, peer: self.peer.as_ref(), fanout_only: self.fanout_only };
        let Some(Some(there)) = self.routes.get_mut(route) else { return };
        if there.step == SetupStep::LocalSide {
            there.advance();
            let said = there.send_step(&parties, out, pool);
            if said && there.step == SetupStep::Running {
                self.told.push_back(LinkDecision::Runs(route));
            }
        }
    }

    /// Asks what waits at the source of each route.
    pub fn ask_lag(&mut self, out: &mut Outbound, pool: &Pool) {
        self.routes.iter_mut().flatten().for_each(|there| there.request_lag(out, pool));
    }

    /// The side here of a route is over, or must begin anew: so must the other.
    pub fn end_channel(&mut self, route: usize, why: &str, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        let Some(Some(there)) = self.routes.get_mut(route) else { return };
        let channel = there.channel;
        there.disconnect();
        there.error = Some(why.into());
        if channel > 0 {
            self.by_channel[usize::from(channel)] = None;
            inbound.close_channel(channel, ReplyCode::Success.number(), "Goodbye", out, pool);
        }
    }

    /// A route goes, and what it has made there. Answers its channel, if it had one.
    pub fn remove_route(&mut self, route: usize, ends: Option<(&mut Inbound, &mut Outbound, &Pool)>) -> Option<u16> {
        let mut there = self.routes.get_mut(route)?.take()?;
        let channel = there.channel;
        if channel == 0 {
            return None;
        }
        self.by_channel[usize::from(channel)] = None;
        if let Some((inbound, out, pool)) = ends {
            there.tear_down(out, pool);
            inbound.close_channel(channel, ReplyCode::Success.number(), "Goodbye", out, pool);
        }
        Some(channel)
    }

    /// The next thing to do.
    pub fn next_told(&mut self) -> Option<LinkDecision> {
        self.told.pop_front()
    }

    /// Takes in an event that is no delivery and no settlement: those are the owner's. What it must do is told after
    /// [`answer`](Self::answer).
    pub fn hear(&self, event: &Event<'_>) -> LinkEvent {
        LinkEvent(heard(event, self.stage, self.login.external))
    }

    /// Answers what was heard.
    pub fn answer(&mut self, hear: LinkEvent, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        match hear.0 {
            ControlEvent::Start { offers, product, cluster_name, confirms } => {
                let mechanism = if self.login.external { "EXTERNAL" } else { "PLAIN" };
                if !offers {
                    return self.end(&format!("{product} does not offer the mechanism {mechanism}"), true);
                }
                if !confirms {
                    return self.end(&format!("{product} has no publisher confirms and basic.nack"), true);
                }
                let cluster_name = cluster_name.unwrap_or_else(|| self.login.address.clone());
                let peer = BrokerIdentity { cluster_name, vhost: self.login.vhost.clone() };
                if peer == self.own {
                    return self.end("a route from this broker to itself", true);
                }
                self.peer = Some(peer);
                let properties = client_properties(&self.own).to_bytes();
                let LinkLogin { user, password, external, .. } = &self.login;
                let response = if *external { Vec::new() } else { sasl::plain_response(user, password) };
                inbound.log_in(mechanism, &response, TableRef::new(&properties), out, pool);
                self.stage = SessionStage::Login;
            }
            ControlEvent::Tune(tune) => {
                let tuning = inbound.tune(&tune, &self.limits, out, pool);
                self.told.push_back(LinkDecision::Tuned(tuning));
                let Ok(vhost) = ShortStr::new(self.login.vhost.as_bytes()) else {
                    return self.end("the name of the virtual host is too long", true);
                };
                inbound.open(vhost, out, pool);
                self.stage = SessionStage::Opening;
            }
            ControlEvent::Open => {
                self.stage = SessionStage::Open;
                self.told.push_back(LinkDecision::Open);
            }
            ControlEvent::ChannelOpened(channel) => {
                if let Some(route) = self.route_of(channel) {
                    self.channel_opened(route, out, pool);
                }
            }
            ControlEvent::Answer { channel, queue } => {
                if let Some(route) = self.route_of(channel)
                    && let Some(Some(there)) = self.routes.get_mut(route)
                {
                    let ran = there.step == SetupStep::Running;
                    if there.on_answer(queue.as_ref().map(|(name, messages)| (&**name, *messages))) {
                        self.say(route, ran, out, pool);
                    }
                }
            }
            ControlEvent::ChannelClosed { channel, code, text } => {
                self.channel_closed(channel, code, text, inbound, out, pool)
            }
            ControlEvent::Nothing => {}
            ControlEvent::Cancelled(channel) => {
                if let Some(route) = self.route_of(channel) {
                    let text = "the queue of the route was deleted at the source";
                    self.end_channel(route, text, inbound, out, pool);
                    self.told.push_back(LinkDecision::RouteOver { route, channel, text: Some(text.into()) });
                }
            }
            ControlEvent::Flow { channel, active } => out.method(pool, channel, &channel::FlowOk { active }.into()),
            ControlEvent::Blocked(reason) => self.blocked = Some(reason),
            ControlEvent::Unblocked => self.blocked = None,
            ControlEvent::Over(end) => self.over(end),
        }
    }

    fn channel_opened(&mut self, route: usize, out: &mut Outbound, pool: &Pool) {
        if let Some(Some(there)) = self.routes.get_mut(route) {
            if there.step == SetupStep::OpenChannel {
                there.advance();
            }
            self.say(route, false, out, pool);
        }
    }

    fn channel_closed(
        &mut self,
        channel: u16,
        code: u16,
        text: Box<str>,
        inbound: &mut Inbound,
        out: &mut Outbound,
        pool: &Pool,
    ) {
        let Some(route) = self.route_of(channel) else { return };
        self.by_channel[usize::from(channel)] = None;
        let Some(Some(there)) = self.routes.get_mut(route) else { return };
        let ran = matches!(there.step, SetupStep::LocalSide | SetupStep::Bind | SetupStep::DeleteOldInternal | SetupStep::Consume | SetupStep::Running);
        if there.on_channel_closed(code, &text) {
            self.open_channel(route, inbound, out, pool);
        } else {
            let channel = if ran { channel } else { 0 };
            self.told.push_back(LinkDecision::RouteOver { route, channel, text: Some(text) });
        }
    }

    fn say(&mut self, route: usize, ran: bool, out: &mut Outbound, pool: &Pool) {
        let parties = LinkParties { own: &self.own, peer: self.peer.as_ref(), fanout_only: self.fanout_only };
        let Some(Some(there)) = self.routes.get_mut(route) else { return };
        there.send_step(&parties, out, pool);
        match there.step {
            SetupStep::LocalSide => self.told.push_back(LinkDecision::Here(route)),
            SetupStep::Running if !ran => self.told.push_back(LinkDecision::Runs(route)),
            _ => {}
        }
    }

    fn end(&mut self, text: &str, is_refusal: bool) {
        self.over(SessionEnd { text: text.into(), is_refusal, at_once: false });
    }

    fn over(&mut self, mut end: SessionEnd) {
        let makes = |there: &RemoteSetup| there.step == SetupStep::DeclareInternal;
        if !self.fanout_only && end.text.contains(COMMAND_INVALID) && self.routes.iter().flatten().any(makes) {
            // It does not know the type; the next connection asks for a fanout exchange.
            self.fanout_only = true;
            end.at_once = true;
        }
        self.told.push_back(LinkDecision::Over(end));
    }
}

/// Why a route takes nothing although its link is there.
const RETURNS: &str = "this broker has just come back: those below get the time to ask for what they want";
/// How RabbitMQ and this broker begin the refusal of an unknown type of exchange.
const COMMAND_INVALID: &str = "COMMAND_INVALID";

/// Something that was heard.
pub struct LinkEvent(ControlEvent);

fn heard(event: &Event<'_>, stage: SessionStage, external: bool) -> ControlEvent {
    match event {
        Event::Start(start) => {
            let wanted: &[u8] = if external { b"EXTERNAL" } else { b"PLAIN" };
            let text = |name| match start.server_properties.get(name).and_then(|value| value.as_bytes()) {
                Some(bytes) if !bytes.is_empty() => Some(Box::from(String::from_utf8_lossy(bytes))),
                _ => None,
            };
            let can = Capabilities::of(start.server_properties);
            ControlEvent::Start {
                offers: start.mechanisms.split(|&byte| byte == b' ').any(|name| name == wanted),
                product: text("product").unwrap_or("the other broker".into()),
                cluster_name: text("cluster_name"),
                confirms: can.has(Capabilities::PUBLISHER_CONFIRMS) && can.has(Capabilities::BASIC_NACK),
            }
        }
        Event::Tune(tune) => ControlEvent::Tune(*tune),
        Event::Secure { .. } => over("the other broker wants more than a password", true),
        Event::OpenOk => ControlEvent::Open,
        Event::ChannelOpened { channel } => ControlEvent::ChannelOpened(*channel),
        Event::ChannelClosed { channel, code, text, .. } => {
            ControlEvent::ChannelClosed { channel: *channel, code: *code, text: text_of(*text) }
        }
        Event::ChannelCloseOk { .. } => ControlEvent::Nothing,
        Event::Blocked { reason } => ControlEvent::Blocked(text_of(*reason)),
        Event::Unblocked => ControlEvent::Unblocked,
        Event::CloseRequested { code, text, .. } => {
            // Who is refused is told by RabbitMQ and by this broker alike: 403 before the login, 530 for the virtual host.
            let early = matches!(stage, SessionStage::Greeting | SessionStage::Login | SessionStage::Opening);
            over(format!("closed by the other broker: {code} {}", text_of(*text)), early && *code != 320)
        }
        Event::CloseOk => over("closed", false),
        Event::Method { channel, method } => {
            let channel = *channel;
            match method {
                Method::QueueDeclareOk(ok) => {
                    ControlEvent::Answer { channel, queue: Some((ok.queue.as_bytes().into(), ok.message_count)) }
                }
                Method::BasicCancel(basic::Cancel { .. }) => ControlEvent::Cancelled(channel),
                Method::ChannelFlow(channel::Flow { active }) => ControlEvent::Flow { channel, active: *active },
                _ => ControlEvent::Answer { channel, queue: None },
            }
        }
        // The owner's, or a server's.
        Event::Deliver { .. }
        | Event::GetOk { .. }
        | Event::Return { .. }
        | Event::Publish { .. }
        | Event::Login { .. }
        | Event::LoginResponse { .. }
        | Event::Tuned(_)
        | Event::Open { .. } => ControlEvent::Nothing,
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
