//! A shard over a simulated disk: power cuts, failures, and no space.

#[path = "simulated_disk/behind.rs"]
mod behind;
#[path = "simulated_disk/client.rs"]
mod client;
#[path = "simulated_disk/settling_commits.rs"]
mod settling_commits;
#[path = "simulated_disk/two_shards.rs"]
mod two_shards;

use broker::{Broker, BrokerOptions};
use catalog::{Catalog, CatalogLimits, Definition, Name, Password, Permission, ShardId, VhostId};
use client::StoredClient;
use disk::{Disk, DiskFaults, SimulatedDisk};
use durability::{
    DefinitionJournal, JOURNAL_LOG, LogSource, MessageStore, MessageStoreOptions, StoreSync, recover_definitions,
};
use session::{Greeting, SessionLimits};
use shard::{Mailbox, Shard, ShardEffects, ShardOptions, ShardWaker, SharedState, WakeTarget};
use slab::{Pool, PoolOptions};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{LogId, OnDamage, StoreTag};
use wire::{DeliveryTag, Table, Value};

const LOG: LogId = LogId(0);
const STORE: StoreTag = StoreTag(7);
const SEGMENT_BYTES: u64 = 4 << 20;
/// Longer than anything takes here, in exchanges.
const PATIENCE: u32 = 100_000;

struct UnheardWake;

impl WakeTarget for UnheardWake {
    fn wake(&self) {}
}

/// A disk that outlives the shard.
type SurvivingDisk = Arc<Mutex<SimulatedDisk>>;

fn surviving_disk(seed: u64) -> SurvivingDisk {
    Arc::new(Mutex::new(SimulatedDisk::new(seed, DiskFaults::default())))
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from")]
fn some_instant() -> Instant {
    Instant::now()
}

/// A broker of one shard with a durable queue `q`, its disk, and the time.
struct World {
    disk: SurvivingDisk,
    began: Instant,
    now: Instant,
    shard: Shard,
    shared: Arc<SharedState>,
}

const OPTIONS: MessageStoreOptions = MessageStoreOptions {
    segment_bytes: SEGMENT_BYTES,
    sync: StoreSync::Always,
    group_delay_us: 0,
    disk_free_limit: 0,
};

fn declare(queue: &str) -> Definition {
    Definition::DeclareQueue {
        vhost: VhostId(0),
        name: Name::from(queue),
        server_named: false,
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: Table::new(),
        home: ShardId(0),
    }
}

/// What a broker begins with that finds nothing.
fn first_definitions() -> [Definition; 4] {
    let (vhost, user, password) = (Name::from("/"), Name::from("guest"), Password::plain("guest"));
    [
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser { name: user.clone(), password, tags: vec![], loopback_only: true },
        Definition::SetPermission { user, vhost, permission: Permission::all() },
        declare("q"),
    ]
}

fn first_catalog() -> Catalog {
    let mut catalog = Catalog::new(CatalogLimits::default());
    for definition in &first_definitions() {
        catalog.execute(definition).expect("a fresh catalog takes its first definitions");
    }
    catalog
}

fn new_shard(epoch: Instant, shared: &Arc<SharedState>, catalog: Catalog) -> Shard {
    let mailbox = Mailbox::connect(&[ShardWaker::new(Box::new(UnheardWake))]).pop().expect("mail for one");
    new_shard_of([0, 1], epoch, shared, catalog, mailbox)
}

/// The shard of a number, of so many.
fn new_shard_of(
    [number, shards]: [u16; 2],
    epoch: Instant,
    shared: &Arc<SharedState>,
    catalog: Catalog,
    mailbox: Mailbox,
) -> Shard {
    let can = ["publisher_confirms", "connection.blocked"];
    let can = can.iter().fold(Table::new(), |table, name| table.with(name, Value::Bool(true)).expect("short"));
    let properties = Table::new().with("capabilities", Value::Table(can)).expect("short");
    let shard_options = ShardOptions {
        shard: ShardId(number),
        session: SessionLimits { heartbeat_s: 0, ..SessionLimits::default() },
        rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
        greeting: Arc::new(Greeting::new(&properties, "PLAIN")),
        login_timeout: Duration::from_secs(1_000),
        epoch,
        epoch_unix_us: 1_000_000_000,
        clock: some_instant,
        cluster_name: "stored".into(),
    };
    let broker_options = BrokerOptions {
        shard: ShardId(number),
        shards,
        queue_bytes_max: 1 << 30,
        epoch_unix_s: 0,
        work_per_turn: broker::limits::WORK_PER_TURN,
        consumer_timeout_ms: 0,
    };
    let effects = ShardEffects::new(Pool::new(PoolOptions::default()), mailbox, 1 << 20, [7; 32]);
    Shard::new(shard_options, Broker::new(broker_options, catalog), effects, Arc::clone(shared))
}

impl World {
    fn start(disk: SurvivingDisk, options: MessageStoreOptions) -> World {
        let (now, shared) = (some_instant(), Arc::new(SharedState::new(1, 1 << 30, 100)));
        let mut world = World { shard: new_shard(now, &shared, first_catalog()), disk, began: now, now, shared };
        world.open_store(options);
        world
    }

    /// The broker is started again with the definitions that a journal has. On the journal's disk time stands still from now on.
    fn restart_from(&mut self, journal: &SurvivingDisk) {
        let mut reader = journal.lock().expect("nobody panics with it");
        let segments = reader.segments(JOURNAL_LOG);
        let recovered = recover_definitions(STORE, segments, OnDamage::Fail, &mut *reader).expect("a sound journal");
        drop(reader);
        let mut catalog = Catalog::new(CatalogLimits::default());
        recovered.restore(&mut catalog).expect("what was defined can be defined");
        if recovered.is_new {
            for definition in &first_definitions() {
                catalog.execute(definition).expect("a fresh catalog takes its first definitions");
            }
        }
        self.shared = Arc::new(SharedState::new(1, 1 << 30, 100));
        self.shard = new_shard(self.began, &self.shared, catalog);
        let mut messages = self.recover_messages(OPTIONS);
        messages.begin_uids(recovered.first_new_uid());
        self.shard.set_store(messages);
        self.shard.set_journal(DefinitionJournal::new(&recovered, Box::new(journal.clone())));
    }

    fn open_store(&mut self, options: MessageStoreOptions) {
        let messages = self.recover_messages(options);
        self.shard.set_store(messages);
    }

    fn recover_messages(&mut self, options: MessageStoreOptions) -> MessageStore {
        let mut reader = self.disk.lock().expect("nobody panics with it");
        let segments = reader.segments(LOG);
        let source = LogSource {
            reader: &mut *reader,
            store: STORE,
            log: LOG,
            segments,
            on_damage: OnDamage::Fail,
            paging_threshold: 0,
        };
        let recovered = self.shard.recover_messages(source, self.now).expect("nothing is damaged");
        drop(reader);
        MessageStore::new(recovered, Box::new(self.disk.clone()), options)
    }

    /// The broker is started again; what its disk had not done is for a power cut or a kill to decide.
    fn restart(&mut self) {
        self.disk.lock().expect("nobody panics with it").set_faults(DiskFaults::default());
        self.shared = Arc::new(SharedState::new(1, 1 << 30, 100));
        self.shard = new_shard(self.began, &self.shared, first_catalog());
        self.open_store(OPTIONS);
    }

    /// An exchange with a client; then 100 microseconds have passed.
    fn exchange(&mut self, client: &mut StoredClient) {
        self.exchange_all([client]);
    }

    /// The same with several clients: what they send is there before the shard's tick.
    fn exchange_all<const CLIENTS: usize>(&mut self, mut clients: [&mut StoredClient; CLIENTS]) {
        self.now += Duration::from_micros(100);
        self.disk.lock().expect("nobody panics with it").set_now((self.now - self.began).as_micros() as u64);
        clients.iter_mut().for_each(|client| client.send(&mut self.shard));
        self.shard.tick(self.now);
        clients.iter_mut().for_each(|client| client.read());
    }

    fn until(&mut self, client: &mut StoredClient, what: &str, is_so: impl Fn(&StoredClient) -> bool) {
        for _ in 0..PATIENCE {
            if is_so(client) {
                return;
            }
            self.exchange(client);
        }
        panic!("in vain: {what}");
    }

    fn connect(&mut self) -> StoredClient {
        self.connect_over(1 << 20)
    }

    /// Connects over a connection that takes so many bytes that nobody has read.
    fn connect_over(&mut self, window_bytes: usize) -> StoredClient {
        self.shared.assign_connection().expect("there is room");
        let mut client = StoredClient::connect(&mut self.shard, window_bytes, self.now);
        self.until(&mut client, "a channel", StoredClient::is_open);
        client
    }

    /// Some time passes, on the disk of the journal, too.
    fn run(&mut self, client: &mut StoredClient, journal: &SurvivingDisk) {
        for _ in 0..1_000 {
            self.exchange(client);
            let now_us = (self.now - self.began).as_micros() as u64;
            journal.lock().expect("nobody panics with it").set_now(now_us);
        }
    }

    /// Takes all messages of the first queue, and acknowledges them if so wished.
    fn drain(&mut self, client: &mut StoredClient, no_ack: bool) -> Vec<(u64, bool)> {
        self.drain_queue(client, "q", no_ack)
    }

    fn drain_queue(&mut self, client: &mut StoredClient, queue: &str, no_ack: bool) -> Vec<(u64, bool)> {
        while !client.found_none {
            let before = client.got.len();
            client.get(queue, no_ack);
            self.until(client, "an answer", |client| client.found_none || client.got.len() > before);
        }
        client.found_none = false;
        std::mem::take(&mut client.got)
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn whenever_the_power_fails_what_was_confirmed_is_there_once_and_in_order() {
    let (mut all_confirmed, mut all_found) = (0, 0);
    for seed in 0..150 {
        let mut chance = Chance(seed);
        let mut world = World::start(surviving_disk(seed), OPTIONS);
        let (mut next, mut confirmed, mut delivered) = (1, 0, 0);
        for life in 0..3 {
            let mut client = world.connect();
            let first = next;
            for _ in 0..chance.below(120) {
                for _ in 0..chance.below(4) {
                    client.publish("q", next, 8 + chance.below(3_000) as usize);
                    next += 1;
                }
                world.exchange(&mut client);
            }
            if client.confirmed > 0 {
                confirmed = first - 1 + client.confirmed;
            }
            world.disk.lock().expect("nobody panics with it").cut_power();
            world.restart();
            let mut client = world.connect();
            let found = world.drain(&mut client, false);
            let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
            let expect: Vec<u64> = (1..=confirmed).collect();
            assert_eq!(numbers[..confirmed as usize], expect, "seed {seed}, life {life}");
            assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed}, life {life}: {numbers:?}");
            for &(number, redelivered) in &found {
                // How far messages were handed out is written late: nobody waits for it.
                assert!(!redelivered || number <= delivered, "seed {seed}, life {life}: {number} was not handed out");
            }
            (all_confirmed, all_found) = (all_confirmed + confirmed, all_found + numbers.len() as u64);
            // What was not confirmed may be there, and is the broker's from now on.
            delivered = *numbers.last().unwrap_or(&0);
            (next, confirmed) = (delivered + 1, delivered);
        }
    }
    assert!(all_confirmed > 10_000 && all_found > all_confirmed, "{all_confirmed} of {all_found} were confirmed");
}

#[test]
fn after_a_failed_write_nothing_is_confirmed_and_the_broker_ends() {
    let mut world = World::start(surviving_disk(3), OPTIONS);
    let (mut client, mut idle) = (world.connect(), world.connect());
    client.publish("q", 1, 100);
    world.until(&mut client, "a confirm", |client| client.confirmed == 1);
    world
        .disk
        .lock()
        .expect("nobody panics with it")
        .set_faults(DiskFaults { write_error: 1, ..DiskFaults::default() });
    (2..5).for_each(|number| client.publish("q", number, 100));
    world.until(&mut client, "the end", |client| client.closed.is_some());
    world.until(&mut idle, "the end", |client| client.closed.is_some());
    assert_eq!((client.closed, idle.closed, client.confirmed), (Some(541), Some(541), 1));
    let failure = world.shared.disk_failure().expect("a reason").to_owned();
    assert!(failure.contains("cannot write block") && failure.ends_with("segment 1 of log 0: injected"), "{failure}");

    world.disk.lock().expect("nobody panics with it").kill();
    world.restart();
    let mut client = world.connect();
    let found = world.drain(&mut client, false);
    assert_eq!(found[0], (1, false), "what was confirmed is there");
}

#[test]
fn a_write_that_fails_while_the_broker_stops_is_a_failure_too() {
    for (write_error, is_failure) in [(0, false), (1, true)] {
        let disk = surviving_disk(4);
        let mut world = World::start(disk.clone(), OPTIONS);
        let mut client = world.connect();
        client.publish("q", 1, 100);
        world.until(&mut client, "a confirm", |client| client.confirmed == 1);
        client.publish("q", 2, 100);
        world.exchange(&mut client);
        let now_us = {
            let mut disk = disk.lock().expect("nobody panics with it");
            disk.set_faults(DiskFaults { write_error, ..DiskFaults::default() });
            (world.now - world.began).as_micros() as u64
        };
        let mut waits = 0;
        world.shard.close_store(world.now, || {
            waits += 1;
            disk.lock().expect("nobody panics with it").set_now(now_us + waits * 100);
        });
        assert!(waits > 0, "something was to be written");
        assert_eq!(world.shared.disk_failure().is_some(), is_failure);
    }
}

#[test]
fn without_space_publishers_are_blocked_and_what_they_had_published_is_confirmed_once_there_is_some() {
    let disk = surviving_disk(5);
    // The one that is written, and the next one.
    disk.lock().expect("nobody panics with it").set_capacity(2 * SEGMENT_BYTES);
    let mut world = World::start(disk, OPTIONS);
    let (mut publisher, mut consumer) = (world.connect(), world.connect());
    let mut published = 0;
    for _ in 0..PATIENCE {
        if publisher.blocked.is_some() {
            break;
        }
        published += 1;
        publisher.publish("q", published, 50_000);
        world.exchange(&mut publisher);
    }
    assert_eq!(publisher.blocked.as_deref(), Some("low on disk"));
    assert_eq!(world.shared.disk_failure(), None);
    // A consumer goes on meanwhile.
    consumer.get("q", false);
    world.until(&mut consumer, "a message", |client| client.got.len() == 1);
    consumer.method(wire::method::basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    world.exchange(&mut consumer);

    world.disk.lock().expect("nobody panics with it").set_capacity(1 << 40);
    world.until(&mut publisher, "space", |client| client.blocked.is_none());
    published += 1;
    publisher.publish("q", published, 100);
    world.until(&mut publisher, "confirms", |client| client.confirmed == published);
    world.disk.lock().expect("nobody panics with it").cut_power();
    world.restart();
    let mut client = world.connect();
    let found = world.drain(&mut client, true);
    let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
    let expect: Vec<u64> = (numbers[0]..=published).collect();
    assert!(numbers == expect && numbers[0] <= 2, "{numbers:?}");
}

#[test]
fn with_too_little_free_space_publishers_are_blocked_before_it_runs_out() {
    let disk = surviving_disk(5);
    disk.lock().expect("nobody panics with it").set_capacity(100 * SEGMENT_BYTES);
    let mut world = World::start(disk, MessageStoreOptions { disk_free_limit: 10 * SEGMENT_BYTES, ..OPTIONS });
    let mut publisher = world.connect();
    publisher.publish("q", 1, 100);
    world.until(&mut publisher, "a confirm", |client| client.confirmed == 1);
    assert_eq!(publisher.blocked, None);
    // Somebody else fills the disk.
    world.disk.lock().expect("nobody panics with it").set_capacity(11 * SEGMENT_BYTES);
    publisher.publish("q", 2, 100);
    world.until(&mut publisher, "too little space", |client| client.blocked.as_deref() == Some("low on disk"));
    assert_eq!(publisher.confirmed, 2, "there is space for what was published");
    world.disk.lock().expect("nobody panics with it").set_capacity(100 * SEGMENT_BYTES);
    world.until(&mut publisher, "space", |client| client.blocked.is_none());
}

#[test]
fn who_publishes_faster_than_the_disk_writes_takes_nobody_s_turn() {
    /// More than one turn reads.
    const WINDOW_BYTES: usize = 4 << 20;
    let mut world = World::start(surviving_disk(6), OPTIONS);
    let (mut flood, mut other) = (world.connect_over(WINDOW_BYTES), world.connect());
    let (mut number, mut congested) = (0, 0);
    for answered in 0..40 {
        other.get("q", true);
        let mut exchanges = 0;
        while other.got.len() == answered && !std::mem::take(&mut other.found_none) {
            while flood.has_sent_all() {
                (0..100).for_each(|_| flood.publish("q", number, 60_000));
                number += 100;
                flood.send(&mut world.shard);
            }
            world.exchange_all([&mut flood, &mut other]);
            exchanges += 1;
            assert!(exchanges < 100, "no answer while the disk is behind, after {answered}");
        }
        other.got.resize(answered + 1, (0, false));
        congested += usize::from(exchanges > 1);
    }
    println!("{congested} answers waited for the disk, {number} messages");
}

#[test]
fn what_need_not_wait_for_the_disk_is_confirmed_at_once_and_written_soon() {
    let mut world = World::start(surviving_disk(9), MessageStoreOptions { sync: StoreSync::Never, ..OPTIONS });
    let mut client = world.connect();
    (1..=10).for_each(|number| client.publish("q", number, 100));
    world.exchange(&mut client);
    assert_eq!(client.confirmed, 10, "within one tick");
    (0..1_000).for_each(|_| world.exchange(&mut client));
    world.disk.lock().expect("nobody panics with it").cut_power();
    world.restart();
    let mut client = world.connect();
    let found = world.drain(&mut client, true);
    assert_eq!(found.len(), 10, "a tenth of a second later it is on the disk");
}

#[test]
fn a_confirm_waits_for_the_definitions_that_were_there() {
    let mut world = World::start(surviving_disk(11), OPTIONS);
    // A disk on which time stands still: it completes nothing.
    let slow = surviving_disk(12);
    let recovered =
        recover_definitions(STORE, Vec::new(), OnDamage::Fail, &mut *slow.lock().expect("nobody panics with it"))
            .expect("nothing there");
    assert!(slow.lock().expect("nobody panics with it").segments(JOURNAL_LOG).is_empty());
    world.shard.set_journal(DefinitionJournal::new(&recovered, Box::new(slow.clone())));
    let mut client = world.connect();
    client.publish("q", 1, 100);
    (0..1_000).for_each(|_| world.exchange(&mut client));
    assert_eq!(
        (client.confirmed, world.disk.lock().expect("nobody panics with it").under_way()),
        (0, 0),
        "the message is durable, its queue is not"
    );
    for now_ms in 0..100 {
        slow.lock().expect("nobody panics with it").set_now(now_ms * 1_000);
        world.exchange(&mut client);
    }
    assert_eq!(client.confirmed, 1);
}

#[test]
fn a_queue_never_gets_the_messages_of_one_whose_declaration_was_lost() {
    for lives_before in [0, 1, 2] {
        let journal = surviving_disk(31);
        let mut world = World::start(surviving_disk(30), OPTIONS);
        for _ in 0..lives_before {
            world.restart_from(&journal);
            let mut client = world.connect();
            world.run(&mut client, &journal);
        }
        // A life whose journal writes nothing.
        world.restart_from(&journal);
        let mut client = world.connect();
        assert!(world.shard.define(vec![declare("lost")], world.now).is_empty());
        // What is alive keeps its segment, and the last message is at a place where the other queue has none.
        client.publish("q", 6, 100);
        client.publish("lost", 7, 100);
        client.publish("lost", 9, 100);
        (0..1_000).for_each(|_| world.exchange(&mut client));
        assert_eq!(client.confirmed, 0);
        for disk in [&world.disk, &journal] {
            disk.lock().expect("nobody panics with it").cut_power();
        }
        world.restart_from(&journal);
        let mut client = world.connect();
        assert!(world.shard.define(vec![declare("found")], world.now).is_empty());
        world.run(&mut client, &journal);
        client.publish("found", 8, 100);
        world.run(&mut client, &journal);
        assert_eq!(client.confirmed, 1, "{lives_before} lives before");
        world.restart_from(&journal);
        let mut client = world.connect();
        assert_eq!(world.drain_queue(&mut client, "found", true), [(8, false)], "{lives_before} lives before");
    }
}

#[test]
fn what_queues_of_earlier_lives_have_is_written_before_the_journal_is() {
    let journal = surviving_disk(33);
    let mut world = World::start(surviving_disk(32), OPTIONS);
    world.restart_from(&journal);
    let mut client = world.connect();
    world.run(&mut client, &journal);
    world.restart_from(&journal);
    let mut client = world.connect();
    client.publish("q", 1, 100);
    (0..1_000).for_each(|_| world.exchange(&mut client));
    assert_eq!(client.confirmed, 0, "nothing is confirmed before the journal says what is defined");
    world.disk.lock().expect("nobody panics with it").cut_power();
    world.restart_from(&journal);
    let mut client = world.connect();
    assert_eq!(world.drain(&mut client, true), [(1, false)]);
}

#[test]
fn a_journal_without_space_holds_publishers_and_no_consumers_until_there_is_some() {
    let journal = surviving_disk(35);
    journal.lock().expect("nobody panics with it").set_capacity(0);
    let mut world = World::start(surviving_disk(34), OPTIONS);
    world.restart_from(&journal);
    let (mut publisher, mut consumer) = (world.connect(), world.connect());
    publisher.publish("q", 1, 100);
    publisher.publish("q", 2, 100);
    world.run(&mut publisher, &journal);
    assert_eq!((publisher.confirmed, publisher.blocked.as_deref()), (0, Some("low on disk")));
    consumer.get("q", false);
    world.until(&mut consumer, "a message", |client| client.got.len() == 1);
    consumer.method(wire::method::basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    world.run(&mut consumer, &journal);
    assert_eq!(publisher.confirmed, 0, "the journal says nothing of its queue");

    journal.lock().expect("nobody panics with it").set_capacity(1 << 40);
    // Longer than until the next try.
    (0..25).for_each(|_| world.run(&mut publisher, &journal));
    assert_eq!((publisher.confirmed, publisher.blocked.as_deref()), (2, None));
    for disk in [&world.disk, &journal] {
        disk.lock().expect("nobody panics with it").cut_power();
    }
    world.restart_from(&journal);
    let mut client = world.connect();
    assert_eq!(world.drain(&mut client, true), [(2, false)]);
}
