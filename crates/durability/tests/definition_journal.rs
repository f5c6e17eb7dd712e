//! The journal of definitions on a simulated disk: what was reported durable is there after any power cut, and what is there was
//! defined in that order.

use catalog::{
    BindingDestination, BindingView, Catalog, CatalogLimits, Definition, ExchangeKind, Name, Policy, QueueUid, ShardId,
    VhostId,
};
use definitions::journal_changes;
use disk::{Disk, DiskFaults, SimulatedDisk};
use durability::limits::{JOURNAL_GROWTH_BYTES_MIN, JOURNAL_RETRY_US};
use durability::{
    DefinitionJournal, DefinitionRecoveryError, JOURNAL_LOG, JournalEvent, RecoveredDefinitions, recover_definitions,
};
use std::sync::{Arc, Mutex, MutexGuard};
use store::ScrubOptions;
use store::{Block, DiskError, DiskErrorKind, OnDamage, Request, ScanError, SegmentId, StoreTag};
use wire::{Table, Value};

const STORE: StoreTag = StoreTag(7);
const SALT: [u8; 4] = [9; 4];

/// A disk that outlives the journals on it.
#[derive(Clone)]
struct SharedDisk(Arc<Mutex<SimulatedDisk>>);

impl SharedDisk {
    fn new(seed: u64, faults: DiskFaults) -> SharedDisk {
        SharedDisk(Arc::new(Mutex::new(SimulatedDisk::new(seed, faults))))
    }

    fn get(&self) -> MutexGuard<'_, SimulatedDisk> {
        self.0.lock().expect("no test panicked with it")
    }

    fn segments(&self) -> usize {
        self.get().segments(JOURNAL_LOG).len()
    }
}

/// Shard 0 of a broker as far as definitions go: its catalog and its journal.
struct Life {
    catalog: Catalog,
    journal: DefinitionJournal,
    disk: SharedDisk,
    now_us: u64,
    version: u64,
    /// What the journal has reported.
    durable: Option<u64>,
    /// What was defined at each version, the one of the start first.
    history: Vec<Vec<String>>,
    events: Vec<JournalEvent>,
}

/// What of a catalog is durable, in an order that does not depend on ids. Everything in these tests is.
fn described(catalog: &Catalog) -> Vec<String> {
    let vhosts = catalog.vhosts().map(|(_, name)| format!("vhost {name}"));
    let exchanges = catalog.exchanges().map(|(id, exchange)| {
        let queue = |binding: &BindingView<'_>| match binding.destination {
            BindingDestination::Queue(id) => catalog.queue_definition(id).map(|queue| queue.name.clone()),
            BindingDestination::Exchange(_) => None,
        };
        let bindings =
            catalog.bindings_from(id).map(|binding| format!("{:?} {:?}", queue(&binding), binding.routing_key));
        let bindings: Vec<String> = bindings.collect();
        let vhost = catalog.vhost_name(exchange.vhost);
        format!("exchange {} in {vhost} {}: {bindings:?}", exchange.name, exchange.auto_delete)
    });
    let queues = catalog.queues().map(|(_, queue)| {
        let (vhost, uid, home) = (catalog.vhost_name(queue.vhost), queue.uid.map(QueueUid::number), queue.home.0);
        format!("queue {} in {vhost}: {uid:?} at {home}", queue.name)
    });
    let policies = catalog.policies().map(|(policy, _)| format!("policy {}: {:?}", policy.name, policy.definition));
    let next = format!("next {}", catalog.next_queue_uid().number());
    let mut lines: Vec<String> = vhosts.chain(exchanges).chain(queues).chain(policies).chain([next]).collect();
    lines.sort();
    lines
}

fn recovered(disk: &SharedDisk) -> RecoveredDefinitions {
    let mut disk = disk.get();
    let segments = disk.segments(JOURNAL_LOG);
    recover_definitions(STORE, segments, OnDamage::Fail, &mut *disk).expect("a sound journal")
}

impl Life {
    /// Recovers what is on a disk, and goes on from there.
    fn begin(disk: &SharedDisk, now_us: u64) -> Life {
        let recovered = recovered(disk);
        let mut catalog = Catalog::new(CatalogLimits::default());
        recovered.definitions.restore(&mut catalog).expect("what was defined can be defined");
        let journal = DefinitionJournal::new(&recovered, Box::new(disk.0.clone()));
        let history = vec![described(&catalog)];
        let (disk, events) = (disk.clone(), Vec::new());
        let mut life = Life { catalog, journal, disk, now_us, version: 0, durable: None, history, events };
        if recovered.is_new {
            life.execute(&Definition::CreateVhost { name: Name::from("/") });
        }
        life
    }

    /// Executes a definition to its end, as a broker does. What is refused changes nothing.
    fn execute(&mut self, definition: &Definition) {
        let mut next = Some(definition);
        while let Some(definition) = next.take() {
            let Ok(executed) = self.catalog.execute(definition) else { return };
            if executed.changed {
                self.version += 1;
                let records = journal_changes(definition, &executed, &self.catalog, || SALT);
                self.journal.append(self.version, &records);
                self.history.push(described(&self.catalog));
            }
            next = executed.unfinished.then_some(&Definition::Finish);
        }
    }

    /// The configuration defines queues before the broker starts: nobody journals that.
    fn configure(&mut self, queues: usize) {
        assert_eq!(self.version, u64::from(self.history.len() > 1), "the broker has started");
        for queue in 0..queues {
            self.catalog.execute(&declare(&format!("configured{queue}"))).expect("a queue");
        }
    }

    /// Some time passes.
    fn tick(&mut self, us: u64) {
        self.now_us += us;
        self.disk.get().set_now(self.now_us);
        while let Some(event) = self.journal.poll(&mut self.catalog, self.now_us, &mut || SALT) {
            if let JournalEvent::Durable(version) = event {
                assert!(self.durable < Some(version) && version <= self.version, "what is durable grows");
                self.durable = Some(version);
            }
            self.events.push(event);
        }
        assert_eq!(self.journal.durable_version(), self.durable);
    }

    /// Ticks until everything is durable and the journal has nothing to do.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.tick(500);
            if self.durable == Some(self.version) && self.disk.get().under_way() == 0 && !self.journal.has_work() {
                return;
            }
        }
        panic!("the journal does not come to rest: {:?}", self.events);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn declare(name: &str) -> Definition {
    Definition::DeclareQueue {
        vhost: VhostId(0),
        name: Name::from(name),
        server_named: false,
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: Table::new(),
        home: ShardId(0),
    }
}

fn random_definition(random: &mut Random) -> Definition {
    let vhost = VhostId(0);
    let queue = Name::from(&*format!("q{}", random.below(6)));
    let exchange = Name::from(&*format!("x{}", random.below(3)));
    let routing_key: Box<[u8]> = format!("k{}", random.below(3)).into_bytes().into();
    let arguments = Table::new();
    match random.below(12) {
        0..3 => declare(&queue),
        3 => Definition::DeleteQueue { vhost, name: queue, session: None },
        4 | 5 => {
            let (kind, durable, internal, auto_delete) = (ExchangeKind::Topic, true, false, random.below(2) == 0);
            Definition::DeclareExchange { vhost, name: exchange, kind, durable, auto_delete, internal, arguments }
        }
        6 => Definition::DeleteExchange { vhost, name: exchange, if_unused: false },
        7..10 => Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session: None },
        10 => Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session: None },
        _ => Definition::CreateVhost { name: Name::from(&*format!("v{}", random.below(3))) },
    }
}

/// Policies of so many bytes.
fn policies(bytes: usize, text: &str) -> Definition {
    let definition = Table::new().with("ha-params", Value::text(&text.repeat(bytes))).expect("short");
    let (vhost, name, pattern) = (Name::from("/"), Name::from("p"), "".into());
    let policy = Policy { vhost, name, pattern, apply_to: catalog::ApplyTo::All, priority: 0, definition };
    Definition::SetPolicies { policies: [policy].into(), operator_policies: [].into() }
}

#[test]
fn what_was_durable_is_there_after_a_power_cut_and_in_its_order() {
    let seeds = std::env::var("JOURNAL_SEEDS").map_or(300, |seeds| seeds.parse().expect("a number of seeds"));
    for seed in 0..seeds {
        let mut random = Random(seed);
        let disk = SharedDisk::new(seed, DiskFaults::default());
        let mut now_us = 0;
        let mut expected: Option<Vec<Vec<String>>> = None;
        for life in 0..4 {
            let mut broker = Life::begin(&disk, now_us);
            if let Some(expected) = expected {
                assert!(expected.contains(&broker.history[0]), "seed {seed}, life {life}: {:#?}", broker.history[0]);
            }
            for _ in 0..random.below(60) {
                for _ in 0..random.below(4) {
                    broker.execute(&random_definition(&mut random));
                }
                let us = [100, 400, 3_000, 150_000][random.below(4) as usize];
                broker.tick(us);
            }
            now_us = broker.now_us;
            match random.below(3) {
                0 => disk.get().kill(),
                _ => disk.get().cut_power(),
            }
            let durable = broker.durable.unwrap_or(0) as usize;
            let mut survivors = broker.history.split_off(durable);
            // Nothing at all was durable in the first life: not even that there is a journal.
            if life == 0 && broker.durable.is_none() {
                survivors.push(described(&Catalog::new(CatalogLimits::default())));
                let mut fresh = Catalog::new(CatalogLimits::default());
                fresh.execute(&Definition::CreateVhost { name: Name::from("/") }).expect("a first vhost");
                survivors.push(described(&fresh));
            }
            expected = Some(survivors);
        }
    }
}

/// Queues that a snapshot takes several writes for.
const MANY_QUEUES: usize = 5_000;

#[test]
fn nothing_is_durable_before_what_the_configuration_defined_is() {
    for seed in 0..10 {
        let disk = SharedDisk::new(seed, DiskFaults::default());
        let mut broker = Life::begin(&disk, 0);
        broker.settle();
        let mut broker = Life::begin(&disk, broker.now_us);
        broker.configure(MANY_QUEUES);
        let (vhost, exchange, queue) = (VhostId(0), Name::from("amq.fanout"), Name::from("configured7"));
        let (routing_key, arguments) = (Box::default(), Table::new());
        broker.execute(&Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session: None });
        while broker.durable.is_none() {
            broker.tick(50);
        }
        disk.get().cut_power();
        assert_eq!(Life::begin(&disk, broker.now_us).history[0], described(&broker.catalog), "seed {seed}");
    }
}

#[test]
fn a_snapshot_longer_than_a_segment_is_kept_whole() {
    let disk = SharedDisk::new(7, DiskFaults::default());
    let mut broker = Life::begin(&disk, 0);
    broker.execute(&policies(12 << 20, "p"));
    broker.settle();
    for _ in 0..2 {
        broker = Life::begin(&disk, broker.now_us);
        broker.settle();
    }
    let again = Life::begin(&disk, broker.now_us);
    assert_eq!(again.history[0], described(&broker.catalog));
}

#[test]
fn a_journal_does_not_grow_over_restarts() {
    let disk = SharedDisk::new(1, DiskFaults::default());
    let mut now_us = 0;
    for life in 0..12 {
        let mut broker = Life::begin(&disk, now_us);
        broker.execute(&declare(&format!("q{life}")));
        broker.settle();
        assert_eq!(broker.catalog.queues_count(), life + 1);
        // The one that this life began, the one that is made ahead, and those that are given back with a later one.
        assert!(disk.segments() <= 6, "{} segments after {life} restarts", disk.segments());
        now_us = broker.now_us;
    }
}

#[test]
fn a_long_journal_begins_anew_while_it_is_used() {
    let disk = SharedDisk::new(2, DiskFaults::default());
    let mut broker = Life::begin(&disk, 0);
    broker.execute(&declare("q"));
    broker.settle();
    let bytes = 3 << 20;
    let mut segments_max = 0;
    for round in 0..2 * JOURNAL_GROWTH_BYTES_MIN / bytes as u64 {
        broker.execute(&policies(bytes, if round % 2 == 0 { "a" } else { "b" }));
        broker.execute(&declare(&format!("q{round}")));
        broker.settle();
        segments_max = segments_max.max(disk.segments());
    }
    broker.settle();
    assert!(disk.segments() < segments_max, "{segments_max} segments, and then {}", disk.segments());
    let again = Life::begin(&disk, broker.now_us);
    assert_eq!(again.history[0], described(&broker.catalog));
}

#[test]
fn a_scrub_finds_damage_of_the_journal_which_goes_on() {
    let disk = SharedDisk::new(4, DiskFaults::default());
    let mut broker = Life::begin(&disk, 0);
    broker.journal.set_scrub(ScrubOptions { bytes_per_s: 1 << 20, interval_us: 1_000_000 });
    // More than a segment.
    for round in 0..4 {
        broker.execute(&policies(3 << 20, if round % 2 == 0 { "a" } else { "b" }));
        broker.settle();
    }
    let pass = |broker: &mut Life| {
        let passes = broker.journal.metrics().log.scrubs_done;
        while broker.journal.metrics().log.scrubs_done <= passes {
            // Without a timer a read is under way.
            let next_us = broker.journal.timer_us().unwrap_or(0);
            broker.tick(next_us.saturating_sub(broker.now_us).max(500));
        }
        std::mem::take(&mut broker.events)
    };
    broker.events.clear();
    assert_eq!(pass(&mut broker), []);
    assert!(broker.journal.metrics().log.bytes_scrubbed > 8 << 20);
    let segment = SegmentId { log: JOURNAL_LOG, number: disk.get().segments(JOURNAL_LOG)[0] };
    disk.get().flip_bit(segment, Block(100), 777);
    let told = pass(&mut broker);
    let [JournalEvent::Damaged(damage)] = told[..] else { panic!("{told:?}") };
    let start = {
        let mut disk = disk.get();
        let segments = disk.segments(JOURNAL_LOG);
        recover_definitions(STORE, segments, OnDamage::Fail, &mut *disk)
    };
    let refusal = DefinitionRecoveryError::Scan(ScanError::Damaged(damage));
    assert_eq!(start.err(), Some(refusal), "a start names the same");
    assert_eq!(broker.journal.metrics().log.damage_found, 1);
    broker.execute(&declare("later"));
    broker.settle();
    disk.get().set_faults(DiskFaults { read_error: 1, ..DiskFaults::default() });
    let told = pass(&mut broker);
    assert!(told.iter().any(|event| matches!(event, JournalEvent::Unreadable(_))), "{told:?}");
    assert!(!told.iter().any(|event| matches!(event, JournalEvent::Failed(_))), "{told:?}");
    broker.execute(&declare("last"));
    broker.settle();
}

#[test]
fn a_write_that_fails_is_reported_once_and_nothing_is_durable_after_it() {
    let disk = SharedDisk::new(3, DiskFaults::default());
    let mut broker = Life::begin(&disk, 0);
    broker.execute(&declare("q"));
    broker.settle();
    let durable = broker.durable;
    disk.get().set_faults(DiskFaults { write_error: 1, ..DiskFaults::default() });
    broker.events.clear();
    for name in ["r", "s", "t"] {
        broker.execute(&declare(name));
        (0..20).for_each(|_| broker.tick(1_000));
    }
    let failed = [JournalEvent::Failed(DiskError {
        kind: DiskErrorKind::Failed,
        text: match &broker.events[..] {
            [JournalEvent::Failed(error)] => error.text.clone(),
            events => panic!("{events:?}"),
        },
    })];
    assert_eq!((&broker.events[..], broker.durable), (&failed[..], durable));
    assert_eq!(broker.journal.pending_bytes(), broker.journal.pending_bytes().min(64 << 10), "nothing piles up");
    disk.get().set_faults(DiskFaults::default());
    disk.get().cut_power();
    let again = Life::begin(&disk, broker.now_us);
    assert!(again.history[0].iter().any(|line| line.starts_with("queue q in /")));
}

#[test]
fn a_full_disk_is_reported_and_the_journal_goes_on_when_there_is_space() {
    let took_us = [false, true].map(go_on_after_a_full_disk);
    assert!(took_us[1] < took_us[0], "a journal that ends does not wait for its next try: {took_us:?} us");
}

/// The microseconds from when there is space until everything is durable.
fn go_on_after_a_full_disk(is_ending: bool) -> u64 {
    let disk = SharedDisk::new(4, DiskFaults::default());
    let mut broker = Life::begin(&disk, 0);
    broker.settle();
    let used = u64::MAX - disk.get().free_bytes().expect("known");
    disk.get().set_capacity(used);
    let bytes = 2 << 20;
    let mut rounds = 0;
    while !broker.events.iter().any(|event| matches!(event, JournalEvent::NoSpace(_))) {
        broker.execute(&policies(bytes, if rounds % 2 == 0 { "a" } else { "b" }));
        (0..100).for_each(|_| broker.tick(1_000));
        rounds += 1;
        assert!(rounds < 20, "two segments have no capacity for so much");
    }
    // What the segments have capacity for is still written, and then no more.
    for name in ["a", "b", "c", "d", "e"] {
        broker.execute(&policies(bytes, name));
        (0..100).for_each(|_| broker.tick(1_000));
    }
    assert!(broker.durable < Some(broker.version));
    disk.get().set_capacity(u64::MAX);
    let since_us = broker.now_us;
    if is_ending {
        broker.journal.close();
    }
    while broker.durable < Some(broker.version) {
        broker.tick(100);
        assert!(broker.now_us < since_us + 2 * JOURNAL_RETRY_US, "there is space");
    }
    assert!(broker.events.contains(&JournalEvent::Space));
    broker.now_us - since_us
}

#[test]
fn a_journal_that_has_lost_its_segments_is_not_taken_for_a_new_one() {
    let disk = SharedDisk::new(5, DiskFaults::default());
    let mut broker = Life::begin(&disk, 0);
    broker.execute(&declare("q"));
    broker.settle();
    // A segment more, with changes and without a snapshot.
    for round in 0..6 {
        broker.execute(&policies(2 << 20, if round % 2 == 0 { "a" } else { "b" }));
        broker.settle();
    }
    let mut segments = disk.get().segments(JOURNAL_LOG);
    let first = SegmentId { log: JOURNAL_LOG, number: segments.remove(0) };
    disk.get().submit(Request::Remove { segment: first });
    disk.get().set_now(u64::MAX);
    assert!(disk.get().poll().is_some());
    let found = recover_definitions(STORE, segments, OnDamage::Fail, &mut *disk.get());
    let error = found.expect_err("it has lost its beginning").to_string();
    assert!(error.contains("is damaged at block"), "{error}");
}
