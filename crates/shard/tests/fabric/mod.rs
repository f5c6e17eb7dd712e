//! A broker with threads of its own and clients, joined by a simulated fabric in real time, or by the card of a machine.
#![allow(dead_code, reason = "each test uses a part of it")]

use catalog::{CatalogLimits, Definition, Name, Password, Permission};
use client::{Client, ClientChannel, ConnectOptions, ConsumeOptions, Publish, QueueOptions, Url};
use link::{Address, ListenOptions};
use session::{Greeting, SessionLimits};
use shard::{BrokerStartError, IdleProcessors, RdmaListen, RdmaOptions, RdmaPoll, Server, ServerOptions};
use std::sync::Arc;
use std::time::Duration;
use verbs::PortSettings;
use verbs::device::{AnyDevice, DeviceError};
use verbs::sim::{Fabric, FabricOptions};
use wire::{Table, Value};

/// Longer than anything takes on a machine that does other things, too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where brokers listen over the fabric.
pub const ADDRESSES: [&str; 2] = ["amqp+rdma://127.0.0.1:5672", "amqp+rdma://127.0.0.1:5673"];
/// The first of them in the words of devices.
pub const PLACE: &str = "127.0.0.1:5672";

/// What joins them.
#[derive(Clone)]
pub enum Interconnect {
    Fabric(Fabric),
    Card,
}

impl Interconnect {
    fn siblings(&self, address: &Address, count: usize) -> Vec<AnyDevice> {
        match self {
            Interconnect::Fabric(fabric) => {
                fabric.siblings(count).into_iter().map(|device| Box::new(device) as AnyDevice).collect()
            }
            Interconnect::Card => {
                verbs::card::open_at(&RdmaListen::device_address(address), count).expect("the card is there")
            }
        }
    }
}

pub struct FabricServer {
    pub fabric: Fabric,
    joint: Interconnect,
    addresses: Vec<String>,
    server: Option<Server>,
    pub tcp: String,
    settings: PortSettings,
}

/// What differs between brokers.
pub struct ServerPlan {
    pub shards: u16,
    pub addresses: usize,
    pub connections_max: u32,
    pub poll: RdmaPoll,
    pub settings: PortSettings,
    pub spin: Duration,
    pub memory_bytes_max: u64,
}

impl Default for ServerPlan {
    fn default() -> Self {
        let settings = PortSettings { receive_buffers: 2_048, accepts_direct: true, ..PortSettings::default() };
        ServerPlan {
            shards: 1,
            addresses: 1,
            connections_max: 1_000,
            poll: RdmaPoll::Adaptive,
            settings,
            spin: Duration::ZERO,
            memory_bytes_max: 1 << 30,
        }
    }
}

impl FabricServer {
    /// A broker that listens by TCP and over a fabric. Its devices have the first numbers: address by address, shard by
    /// shard.
    pub fn new(plan: ServerPlan) -> FabricServer {
        let fabric = Fabric::real_time(&FabricOptions::faultless());
        let addresses = ADDRESSES[..plan.addresses].iter().map(|address| (*address).to_owned()).collect();
        FabricServer::joined(Interconnect::Fabric(fabric.clone()), fabric, addresses, plan)
    }

    /// One that listens at this place of the machine's card (`host:port`).
    pub fn on_card(place: &str, plan: ServerPlan) -> FabricServer {
        let nowhere = Fabric::real_time(&FabricOptions::faultless());
        FabricServer::joined(Interconnect::Card, nowhere, vec![format!("amqp+rdma://{place}")], plan)
    }

    fn joined(joint: Interconnect, fabric: Fabric, addresses: Vec<String>, plan: ServerPlan) -> FabricServer {
        let listen = addresses.iter().map(|address| {
            let address: Address = address.parse().expect("an address");
            let devices = joint.siblings(&address, plan.shards.into());
            RdmaListen { address, devices }
        });
        let listen = listen.collect();
        let server = start(&plan, listen).expect("it starts");
        let tcp = format!("amqp://{}", server.addresses()[0]);
        FabricServer { fabric, joint, addresses, server: Some(server), tcp, settings: plan.settings }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("it was not stopped yet")
    }

    /// Waits for its end.
    pub fn join(mut self) {
        self.server.take().expect("once").join().expect("an orderly end");
    }

    pub fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions { answer_wait: PATIENCE, ..ConnectOptions::default() };
        if let Interconnect::Fabric(fabric) = self.joint.clone() {
            options.rdma.devices =
                Arc::new(move |_: &str| -> Result<AnyDevice, DeviceError> { Ok(Box::new(fabric.device())) });
        }
        options.rdma.settings.rendezvous_threshold_bytes = self.settings.rendezvous_threshold_bytes;
        options
    }

    pub fn try_connect(&self, url: &str) -> client::Result<Client> {
        Client::connect_with(&Url::parse(url).expect("an address"), self.options())
    }

    /// A client over the fabric.
    pub fn connect(&self) -> Client {
        let client = self.try_connect(&self.addresses[0]).expect("a connection");
        assert_eq!(client.transport(), "rdma");
        client
    }

    pub fn connect_tcp(&self) -> Client {
        self.try_connect(&self.tcp).expect("a connection")
    }
}

impl Drop for FabricServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
            let outcome = server.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "{outcome:?}");
        }
    }
}

/// Starts a broker with a user `guest`.
pub fn start(plan: &ServerPlan, listen: Vec<RdmaListen>) -> Result<Server, BrokerStartError> {
    let (vhost, user) = (Name::from("/"), Name::from("guest"));
    let definitions = vec![
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser {
            name: user.clone(),
            password: Password::plain("guest"),
            tags: vec![],
            loopback_only: false,
        },
        Definition::SetPermission { user, vhost, permission: Permission::all() },
        // Who carries others needs no right to anything, in a virtual host of its own.
        Definition::CreateVhost { name: Name::from("carriers") },
        Definition::PutUser {
            name: Name::from("carrier"),
            password: Password::plain("secret"),
            tags: vec![Name::from("carrier")],
            loopback_only: false,
        },
        Definition::SetPermission {
            user: Name::from("carrier"),
            vhost: Name::from("carriers"),
            permission: Permission { configure: String::new(), write: String::new(), read: String::new() },
        },
    ];
    let capabilities = Table::new().with("publisher_confirms", Value::Bool(true)).expect("a short name");
    let properties = Table::new().with("capabilities", Value::Table(capabilities)).expect("a short name");
    Server::start(ServerOptions {
        listen: vec!["127.0.0.1:0".parse::<Address>().expect("an address")],
        rdma: RdmaOptions { listen, settings: plan.settings.clone(), poll: plan.poll, ..RdmaOptions::default() },
        listen_options: ListenOptions::default(),
        tls: None,
        external: None,
        shards: plan.shards,
        session: SessionLimits { heartbeat_s: 0, ..SessionLimits::default() },
        greeting: Greeting::new(&properties, "PLAIN"),
        catalog: CatalogLimits::default(),
        definitions,
        output_bytes_max: 512 << 10,
        memory_bytes_max: plan.memory_bytes_max,
        process_memory: None,
        queue_bytes_max: 1 << 29,
        consumer_timeout_ms: 0,
        connections_max: plan.connections_max,
        login_timeout: PATIENCE,
        spin: plan.spin,
        moves: shard::MoveOptions::default(),
        idle_processors: IdleProcessors::Sleep,
        drain_timeout: PATIENCE,
        cluster_name: "harrier".into(),
        dialler: None,
        requests: None,
        store: None,
    })
}

/// The bytes of a body.
pub fn body(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number.wrapping_mul(31) + at.wrapping_mul(7) + (at >> 9)) as u8).collect()
}

pub const SIZES: [usize; 14] =
    [0, 1, 63, 1_023, 1_024, 4_087, 4_088, 16_383, 16_384, 32_768, 100_000, 131_072, 300_001, 1 << 20];

pub fn queue(client: &mut Client, name: &str) -> ClientChannel {
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, name, &QueueOptions::default()).expect("a queue");
    channel
}

pub fn consume(client: &mut Client, channel: ClientChannel, name: &str) {
    client.consume(channel, name, &ConsumeOptions::default()).expect("a consumer");
}

/// Sends bodies of all sizes with confirms, and takes them in at the other client, each whole and in order.
pub fn exchange(publisher: &mut Client, consumer: &mut Client, name: &str) {
    let to = queue(publisher, name);
    publisher.confirm_select(to).expect("confirms");
    let from = queue(consumer, name);
    consume(consumer, from, name);
    for (number, &bytes) in SIZES.iter().enumerate() {
        publisher.publish(to, &Publish::to("", name), &body(number, bytes)).expect("published");
    }
    publisher.flush().expect("sent");
    for (number, &bytes) in SIZES.iter().enumerate() {
        let delivery =
            consumer.next_delivery(PATIENCE).expect("whole").unwrap_or_else(|| panic!("{name}: {bytes} bytes"));
        assert!(delivery.body() == body(number, bytes), "{name}: {bytes} bytes came changed");
        let tag = delivery.delivery_tag;
        consumer.ack(from, tag, false).expect("written");
    }
    consumer.flush().expect("sent");
    publisher.wait_confirms(to, 0).expect("confirmed");
}
