//! Sessions for unit tests, without a shard, and a client that writes its half of a login.

use crate::connections::Connections;
use crate::effects::ShardEffects;
use crate::login::LoginRequest;
use crate::mailbox::{Mailbox, ShardWaker, WakeTarget};
use crate::memory_account::MemoryAccount;
use crate::sessions::Sessions;
use crate::shard_options::ShardOptions;
use crate::shared_state::SharedState;
use crate::test_clock::some_instant;
use crate::tokens::TokenOwner;
use broker::{Broker, BrokerOptions, ConnectionSlot};
use catalog::{Catalog, CatalogLimits, Definition, Name, Password, Permission, ShardId};
use link::sim::{SimConnection, SimCut, SimLink, SimOptions, pair};
use link::{Link, ReceiveOutcome};
use session::{BodyOut, Event, Greeting, Outbound, PublishHead, SessionLimits};
use slab::{Gather, Pool, PoolOptions};
use std::sync::Arc;
use std::time::Duration;
use wire::method::{Method, connection};
use wire::{ChannelNumber, RawProperties, ShortStr, Table, TableRef};

/// A shard that needs no waking.
pub(crate) struct NeverAsleep;

impl WakeTarget for NeverAsleep {
    fn wake(&self) {}
}

/// Sessions of one shard with a user `guest`, who may do anything in `/`.
pub(crate) fn sessions() -> Sessions {
    let (shard, epoch) = (ShardId(0), some_instant());
    let mailbox = Mailbox::connect(&[ShardWaker::new(Box::new(NeverAsleep))]).pop().expect("one shard");
    let mut catalog = Catalog::new(CatalogLimits::default());
    let (vhost, user) = (Name::from("/"), Name::from("guest"));
    let password = Password::plain("guest");
    for definition in [
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser { name: user.clone(), password, tags: vec![], loopback_only: false },
        Definition::SetPermission { user, vhost, permission: Permission::all() },
    ] {
        catalog.execute(&definition).expect("a fresh catalog accepts its first definitions");
    }
    let broker_options = BrokerOptions {
        shard,
        shards: 1,
        queue_bytes_max: 1 << 20,
        epoch_unix_s: 0,
        consumer_timeout_ms: 0,
        work_per_turn: broker::limits::WORK_PER_TURN,
    };
    let options = ShardOptions {
        shard,
        session: SessionLimits::default(),
        rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
        greeting: Arc::new(Greeting::new(&Table::new(), "PLAIN EXTERNAL")),
        login_timeout: Duration::from_secs(10),
        epoch,
        epoch_unix_us: 0,
        clock: some_instant,
        cluster_name: "harrier".into(),
    };
    let shared = Arc::new(SharedState::new(1, 1 << 30, 1_000));
    let memory = MemoryAccount::new(options.shard);
    Sessions {
        options,
        connections: Connections::default(),
        broker: Broker::new(broker_options, catalog),
        effects: ShardEffects::new(Pool::new(PoolOptions::default()), mailbox, 1 << 20, [0; 32]),
        shared,
        memory,
        logins: crate::thread_stats::LoginStats::default(),
        moves: crate::moved_connection::ConnectionMoves::default(),
    }
}

/// A client and the slot of its connection.
pub(crate) struct LoginClient {
    link: SimLink,
    cable: SimConnection,
    out: Outbound,
    pool: Pool,
    pub slot: ConnectionSlot,
}

impl LoginClient {
    /// Connects, perhaps admitted by a token.
    pub fn connect(sessions: &mut Sessions, owner: Option<TokenOwner>) -> Self {
        LoginClient::connect_over(sessions, owner, &SimOptions::faultless())
    }

    /// The same, over such a link.
    pub fn connect_over(sessions: &mut Sessions, owner: Option<TokenOwner>, options: &SimOptions) -> Self {
        let (link, far, cable) = pair(options);
        sessions.shared.assign_connection().expect("few connections");
        let slot = sessions.accept(Box::new(far), owner, sessions.options.epoch);
        let mut client =
            LoginClient { link, cable, out: Outbound::new(), pool: Pool::new(PoolOptions::default()), slot };
        client.out.protocol_header(&client.pool);
        client
    }

    pub fn write_start(&mut self, mechanism: &str, response: &[u8]) {
        let mechanism = ShortStr::new(mechanism.as_bytes()).expect("short");
        let (client_properties, locale) = (TableRef::EMPTY, ShortStr::literal("en_US"));
        let method = connection::StartOk { client_properties, mechanism, response, locale };
        self.out.method(&self.pool, ChannelNumber::CONNECTION, &method.into());
    }

    /// Sends `connection.start-ok`, and returns it as the session understands it.
    pub fn start(&mut self, sessions: &mut Sessions, mechanism: &str, response: &[u8]) -> LoginRequest {
        self.write_start(mechanism, response);
        let mut request = None;
        self.deliver(sessions, |event| {
            let Event::Login { mechanism, response, client_properties, capabilities, .. } = event else { return };
            request = Some(LoginRequest::new(mechanism, response, client_properties, capabilities));
        });
        request.expect("a login")
    }

    pub fn write_open(&mut self) {
        let tuning = connection::TuneOk { channel_max: 10, frame_max: 4_096, heartbeat: 0 };
        self.out.method(&self.pool, ChannelNumber::CONNECTION, &tuning.into());
        let virtual_host = ShortStr::literal("/");
        self.out.method(
            &self.pool,
            ChannelNumber::CONNECTION,
            &Method::ConnectionOpen(connection::Open { virtual_host }),
        );
    }

    /// Sends `connection.tune-ok` and `connection.open`.
    pub fn open(&mut self, sessions: &mut Sessions) {
        self.write_open();
        let mut is_open = false;
        self.deliver(sessions, |event| is_open |= matches!(event, Event::Open { .. }));
        assert!(is_open);
    }

    pub fn write<'a>(&mut self, channel: ChannelNumber, method: impl Into<Method<'a>>) {
        self.out.method(&self.pool, channel, &method.into());
    }

    /// Writes a message for an exchange, on channel 1.
    pub fn write_publish(&mut self, exchange: &str, body: &[u8]) {
        self.write_publish_as(exchange, false, body);
    }

    /// Writes a message for an exchange, on channel 1, that comes back if it is `mandatory` and no queue gets it.
    pub fn write_publish_as(&mut self, exchange: &str, mandatory: bool, body: &[u8]) {
        let head = PublishHead { exchange: exchange.as_bytes(), routing_key: b"", mandatory, immediate: false };
        let properties = RawProperties::EMPTY.as_bytes();
        self.out.publish(&self.pool, ChannelNumber(1), &head, properties, BodyOut::Copy(body));
    }

    /// The connection is lost, with what is under way.
    pub fn cut(&self) {
        self.cable.cut(SimCut::Reset);
    }

    /// Sends what was written.
    pub fn send(&mut self) {
        self.send_all_but(0);
    }

    /// Sends what was written, but for the last bytes.
    pub fn send_all_but(&mut self, bytes: usize) {
        let written: Vec<u8> = self.out.gather_mut(&self.pool).parts().flatten().copied().collect();
        let count = written.len() - bytes;
        let mut first = Gather::new();
        first.extend(&self.pool, &written[..count]);
        self.link.send(&mut first).expect("the link is whole");
        self.out.gather_mut(&self.pool).consume(count);
    }

    fn deliver(&mut self, sessions: &mut Sessions, mut on_event: impl FnMut(Event<'_>)) {
        self.send();
        let connection = sessions.connections.get_mut(self.slot).expect("it is there");
        let mut buffer = [0; 4_096];
        let received = connection.link.receive(&mut [], &mut buffer);
        let Ok(ReceiveOutcome::Bytes { bytes, .. }) = received else { panic!("nothing to receive") };
        let mut input = &buffer[..bytes];
        loop {
            let (out, pool) = sessions.effects.writer(self.slot).expect("it has an output");
            match connection.inbound.next(&mut input, out, pool).expect("no fault") {
                Some(event) => on_event(event),
                None => return,
            }
        }
    }
}
