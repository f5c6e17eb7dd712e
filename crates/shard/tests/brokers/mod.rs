//! Brokers on sockets of this host and links between them, for tests and examples of federation.
//!
//! Nothing sleeps: a test polls a broker until what it awaits is there.

use catalog::{CatalogLimits, Definition, Name, Password, Permission};
use client::{
    Client, ClientChannel, ConnectOptions, ConsumeOptions, DialPlan, ExchangeOptions, Publish, QueueOptions,
    RdmaDialRequest, Url,
};
use federation::{
    AckMode, FederationCommand, LinkKey, LinkLogin, LinkSpec, LinkStatus, RouteDirection, RouteKind, RouteSpec,
};
use link::{Address, ListenOptions};
use session::{Greeting, SessionLimits};
use shard::{
    BrokerDialler, DialCallback, DialError, DialProgress, DialedLink, IdleProcessors, RdmaDial, RdmaListen,
    RdmaOptions, Server, ServerOptions,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbs::PortSettings;
use verbs::sim::Fabric;
use wire::{Table, Value};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// By sockets, and over a fabric where there is one.
struct TestDialler(Option<Fabric>);

impl BrokerDialler for TestDialler {
    fn dial(&self, url: &str, tell: DialCallback) {
        let url = Url::parse(url).expect("an address");
        let fabric = self.0.clone();
        std::thread::spawn(move || {
            let login = |url: Url| {
                let Url { user, password, vhost, address, external, .. } = url;
                let (user, password, vhost) = (user.into(), password.into(), vhost.into());
                LinkLogin { user, password, vhost, address: address.into(), external }
            };
            tell(match client::prepare(&url, &ConnectOptions::default()) {
                Err(error) => Err(DialError { text: error.to_string().into(), is_refusal: false }),
                Ok(DialPlan::Stands(dialled)) => Ok(DialProgress::Connected(DialedLink {
                    link: dialled.link,
                    login: login(dialled.url),
                    bootstrap: None,
                })),
                Ok(DialPlan::Ask(ask)) => {
                    let RdmaDialRequest { place, token, url, first, .. } = *ask;
                    let way = fabric.expect("a fabric").route_to(&place);
                    assert!(first.is_none(), "no address here asks for a token");
                    let (login, first, otherwise) = (login(url), None, None);
                    Ok(DialProgress::Rdma(Box::new(RdmaDial {
                        way,
                        token,
                        login,
                        bootstrap: first,
                        fallback: otherwise,
                    })))
                }
            });
        });
    }
}

/// The options of a broker on this host with users and no queues.
pub fn server_options(name: &str, shards: u16) -> ServerOptions {
    let vhost = Name::from("/");
    let user = |name: &str, tags: &[&str]| {
        let tags = tags.iter().map(|tag| Name::from(*tag)).collect();
        let (user, password) = (Name::from(name), Password::plain(name));
        [
            Definition::PutUser { name: user.clone(), password, tags, loopback_only: false },
            Definition::SetPermission { user, vhost: vhost.clone(), permission: Permission::all() },
        ]
    };
    // A user with the tag `federation`, and one without.
    let users = [user("guest", &["federation"]), user("plain", &[])].into_iter().flatten();
    let definitions = [Definition::CreateVhost { name: vhost.clone() }].into_iter().chain(users).collect();
    let can = ["publisher_confirms", "basic.nack"];
    let can = can.iter().fold(Table::new(), |table, name| table.with(name, Value::Bool(true)).expect("short"));
    let properties = Table::new().with("capabilities", Value::Table(can)).expect("short");
    let properties = properties.with("cluster_name", Value::text(name)).expect("short");
    ServerOptions {
        listen: vec!["127.0.0.1:0".parse::<Address>().expect("an address")],
        rdma: RdmaOptions::default(),
        listen_options: ListenOptions::default(),
        tls: None,
        external: None,
        shards,
        session: SessionLimits { heartbeat_s: 0, ..SessionLimits::default() },
        greeting: Greeting::new(&properties, "PLAIN"),
        catalog: CatalogLimits::default(),
        definitions,
        output_bytes_max: 512 << 10,
        process_memory: None,
        memory_bytes_max: 1 << 30,
        queue_bytes_max: 1 << 29,
        consumer_timeout_ms: 0,
        connections_max: 100,
        login_timeout: PATIENCE,
        spin: Duration::ZERO,
        moves: shard::MoveOptions::default(),
        idle_processors: IdleProcessors::Sleep,
        drain_timeout: PATIENCE,
        cluster_name: name.into(),
        dialler: None,
        requests: None,
        store: None,
    }
}

pub struct TestBroker {
    pub server: Server,
    pub name: &'static str,
    /// Where it is dialled over a fabric, if it is.
    pub over: Option<String>,
}

impl TestBroker {
    pub fn start(name: &'static str, shards: u16) -> Self {
        Self::start_at(name, shards, "127.0.0.1:0")
    }

    pub fn start_at(name: &'static str, shards: u16, address: &str) -> Self {
        Self::start_with(name, shards, address, 1 << 29, SessionLimits::default(), None, None)
    }

    /// One that dials over a fabric, and listens there if it has a place.
    pub fn start_over(fabric: &Fabric, name: &'static str, shards: u16, place: Option<&str>) -> Self {
        Self::start_with(name, shards, "127.0.0.1:0", 1 << 29, SessionLimits::default(), Some(fabric.clone()), place)
    }

    /// One whose queues hold their publishers back at so many bytes.
    pub fn start_small(name: &'static str, shards: u16, queue_bytes_max: u64) -> Self {
        Self::start_with(name, shards, "127.0.0.1:0", queue_bytes_max, SessionLimits::default(), None, None)
    }

    /// One with other limits of messages and frames.
    pub fn start_limited(name: &'static str, shards: u16, session: SessionLimits) -> Self {
        Self::start_with(name, shards, "127.0.0.1:0", 1 << 29, session, None, None)
    }

    fn start_with(
        name: &'static str,
        shards: u16,
        address: &str,
        queue_bytes_max: u64,
        session: SessionLimits,
        fabric: Option<Fabric>,
        place: Option<&str>,
    ) -> Self {
        let listen = fabric.iter().zip(place).map(|(fabric, place)| RdmaListen {
            address: format!("amqp+rdma://{place}").parse().expect("an address"),
            devices: fabric.siblings(shards.into()).into_iter().map(|device| Box::new(device) as _).collect(),
        });
        let settings = PortSettings { receive_buffers: 1_024, accepts_direct: true, ..PortSettings::default() };
        let rdma = RdmaOptions { listen: listen.collect(), settings, ..RdmaOptions::default() };
        let server = Server::start(ServerOptions {
            listen: vec![address.parse::<Address>().expect("an address")],
            rdma,
            session: SessionLimits { heartbeat_s: 0, ..session },
            queue_bytes_max,
            dialler: Some(Arc::new(TestDialler(fabric))),
            ..server_options(name, shards)
        });
        TestBroker { server: server.expect("a broker"), name, over: place.map(str::to_owned) }
    }

    /// Where other brokers dial it.
    pub fn url(&self) -> String {
        match &self.over {
            Some(place) => format!("amqp+rdma://guest:guest@{place}/%2F"),
            None => self.tcp(),
        }
    }

    pub fn tcp(&self) -> String {
        format!("amqp://guest:guest@{}/%2F", self.server.addresses()[0])
    }

    pub fn client(&self) -> (Client, ClientChannel) {
        let mut client = Client::connect(&self.tcp()).expect("a connection");
        let channel = client.open_channel().expect("a channel");
        (client, channel)
    }

    /// A consumer of what a route gives up: of the exchange `dead`.
    pub fn dead_letters(&self) -> Client {
        let (mut client, channel) = self.client();
        let options = QueueOptions { exclusive: true, ..QueueOptions::default() };
        let queue = client.declare_queue(channel, "", &options).expect("a queue");
        client.bind_queue(channel, &queue.name, "dead", "", &Table::new()).expect("bound");
        let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        client.consume(channel, &queue.name, &options).expect("consumed");
        client
    }

    pub fn declare(&self, exchange: &str, kind: &str) {
        let (mut client, channel) = self.client();
        client.declare_exchange(channel, exchange, kind, &ExchangeOptions::default()).expect("an exchange");
        client.close().expect("closed");
    }

    pub fn key(&self, peer: &TestBroker) -> LinkKey {
        LinkKey::of_operator("/".into(), peer.server.addresses()[0].as_str().into())
    }

    /// A link to another broker, with a route.
    pub fn route(&self, peer: &TestBroker, spec: RouteSpec) {
        let key = self.key(peer);
        let link = LinkSpec {
            key: key.clone(),
            url: peer.url().into(),
            user: "guest".into(),
            durable: false,
            options: Default::default(),
        };
        let admin = self.server.admin();
        admin.change_links(FederationCommand::AddLink(link)).expect("taken");
        admin.change_links(FederationCommand::AddRoute(key.clone(), spec.clone())).expect("taken");
        let what = format!("{} <-> {}: {spec:?}", self.name, peer.name);
        self.until(&what, |links| {
            links.iter().any(|link| link.routes.iter().any(|route| route.spec == spec && route.is_running))
        });
    }

    pub fn links(&self) -> Vec<LinkStatus> {
        self.server.admin().link_statuses().expect("it runs")
    }

    pub fn until(&self, what: &str, holds: impl Fn(&[LinkStatus]) -> bool) {
        eventually(&format!("{}: {what}", self.name), || holds(&self.links()), || format!("{:#?}", self.links()));
    }

    pub fn stop(self) {
        self.server.stop();
        self.server.join().expect("a good end");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that waits must know how long it has")]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool, seen: impl Fn() -> String) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: {}", seen());
        std::thread::yield_now();
    }
}

pub fn pull(exchange: &str, kind: RouteKind) -> RouteSpec {
    RouteSpec {
        exchange: exchange.into(),
        kind,
        direction: RouteDirection::Pull,
        ack: AckMode::Confirm,
        credit: 100,
        hops_max: 8,
        durable: false,
        forced: false,
        dead_letter_exchange: None,
        options: Default::default(),
    }
}

/// A consumer of its own queue, bound to an exchange.
pub fn bound(broker: &TestBroker, exchange: &str, key: &str) -> (Client, ClientChannel) {
    let (mut client, channel) = broker.client();
    let options = QueueOptions { exclusive: true, ..QueueOptions::default() };
    let queue = client.declare_queue(channel, "", &options).expect("a queue");
    client.bind_queue(channel, &queue.name, exchange, key, &Table::new()).expect("bound");
    client
        .consume(channel, &queue.name, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })
        .expect("consumed");
    (client, channel)
}

pub fn publish(broker: &TestBroker, exchange: &str, keys: &[&str], rounds: u32) {
    let (mut client, channel) = broker.client();
    client.confirm_select(channel).expect("confirms");
    for round in 0..rounds {
        for key in keys {
            let body = format!("{key} {round}");
            client.publish(channel, &Publish::to(exchange, key), body.as_bytes()).expect("published");
        }
    }
    client.wait_confirms(channel, 0).expect("confirmed");
    client.close().expect("closed");
}
