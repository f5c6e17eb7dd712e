//! Another number of shards, or damage that may be lost: while a broker is down, its store is written anew on other disks, which
//! take the place of the old ones at once or not at all.
//!
//! Whatever goes wrong meanwhile, the old store is only read, and counts until the new one is whole.

use crate::reshard_plan::{KillMoment, ReshardOutcome, ReshardPlan};
use crate::simulated_broker::SimulatedBroker;
use crate::store_recovery::message_options;
use crate::world::SimulatedWorld;
use catalog::CatalogLimits;
use disk::DiskFaults;
use durability::{JOURNAL_LOG, LogSource, MessageStore, Resharding, StoreSync, recover_definitions, write_definitions};
use simdisks::outcome_of;
use simdisks::store_tag;
use simdisks::{BrokerDisks, CrashKind};
use store::{Damage, LogId, OnDamage, RecoveredLog};

/// Lets time go on until a disk has done something.
fn wait_for(disks: &BrokerDisks, now_us: &mut u64) {
    let due_us = disks.all().filter_map(|disk| disk.peek(|disk| disk.due_after(*now_us))).min();
    *now_us = due_us.expect("a disk that is waited for has something to do");
    disks.all().for_each(|disk| disk.peek(|disk| disk.set_now(*now_us)));
}

/// What is written: the new disks, and how far that came.
struct NewStore<'a> {
    old: &'a BrokerDisks,
    new: &'a BrokerDisks,
    /// Of messages: definitions are sound.
    on_damage: OnDamage,
    kill: Option<KillMoment>,
    now_us: u64,
}

impl NewStore<'_> {
    /// Writes it. Returns the damage of each log that was passed over, once it is whole; `Err` says why it cannot be written.
    fn write(&mut self, limits: &CatalogLimits) -> Result<Option<Vec<Vec<Damage>>>, String> {
        let mut journal = self.old.definitions.clone();
        let segments = journal.segments(JOURNAL_LOG);
        let found = recover_definitions(store_tag(), segments, OnDamage::Fail, &mut journal);
        let mut definitions = found.map_err(|error| error.to_string())?.definitions;
        if self.new.messages.len() != self.old.messages.len() {
            definitions.spread_over(self.new.messages.len() as u16);
        }
        let stores = self.new.messages.iter().zip(0..).map(|(disk, number)| {
            let empty = RecoveredLog::empty(store_tag(), LogId(number));
            MessageStore::new(empty, Box::new(disk.clone()), message_options(0, StoreSync::Always))
        });
        let mut resharding = Resharding::new(stores.collect(), &definitions);
        let (new, now_us) = (self.new, &mut self.now_us);
        let mut wait = || wait_for(new, now_us);
        let mut damage = Vec::new();
        for (number, disk) in self.old.messages.iter().enumerate() {
            if self.kill == Some(KillMoment::Copied(number)) {
                return Ok(None);
            }
            let (mut reader, log) = (disk.clone(), LogId(number as u32));
            let segments = disk.segments(log);
            let (store, on_damage) = (store_tag(), self.on_damage);
            let source = LogSource { reader: &mut reader, store, log, segments, on_damage, paging_threshold: 0 };
            let copied = resharding.copy(source, &mut wait);
            damage.push(copied.map_err(|error| format!("the log of shard {number}: {error}"))?.damage);
        }
        resharding.finish(&mut wait).map_err(|error| error.text)?;
        if self.kill == Some(KillMoment::BeforeDefinitions) {
            return Ok(None);
        }
        let disk = Box::new(self.new.definitions.clone());
        write_definitions(definitions, store_tag(), disk, limits, &mut || [0; 4], &mut wait)
            .map_err(|error| error.to_string())?;
        Ok(self.kill.is_none().then_some(damage))
    }
}

impl SimulatedWorld {
    /// A broker that is down gets another number of shards, if what is planned lets it. Returns whether that was tried: whether
    /// what damage has taken may be lost is asked at the start.
    pub fn reshard_broker(&mut self, broker: usize, plan: ReshardPlan) -> bool {
        let Some(old) = self.brokers[broker].disks.clone() else { return false };
        if old.is_damaged() {
            return false;
        }
        // The new disks have nothing of what was damaged and given back.
        if let Err(violation) = self.damage.decide(&mut self.tally.outcomes, |place| outcome_of(&old, &[], place)) {
            self.trace.fail(violation);
        }
        if let Err(why) = self.write_anew(broker, &old, plan, OnDamage::Fail) {
            self.trace.fail(format!("the store of broker {broker} cannot be written anew: {why}"));
        }
        true
    }

    /// The store of a broker that is down is written anew on other disks, if what is planned lets it, as the program does it
    /// with damage that may be lost and for another number of shards. Returns the damage of each log that was passed over, if
    /// the new store has taken the place of the old one. `Err` says why it cannot be written.
    pub fn write_anew(
        &mut self,
        broker: usize,
        old: &BrokerDisks,
        plan: ReshardPlan,
        on_damage: OnDamage,
    ) -> Result<Option<Vec<Vec<Damage>>>, String> {
        let new = BrokerDisks::new(self.chance.next_u64() >> 1, plan.shards, old.options());
        let good = DiskFaults { slow: old.options().messages.slow, ..DiskFaults::default() };
        new.all().for_each(|disk| disk.with(|disk| disk.set_faults(good)));
        let mut kill = None;
        match plan.outcome {
            ReshardOutcome::Done { .. } => {}
            ReshardOutcome::Killed(moment) => kill = Some(moment),
            ReshardOutcome::Unwritable { disk, space } => {
                let disk = new.all().nth(disk).unwrap_or(&new.definitions);
                disk.with(|disk| match space {
                    Some(bytes) => disk.set_capacity(bytes),
                    None => disk.set_faults(DiskFaults { write_error: 1, ..good }),
                });
            }
        }
        let limits = SimulatedBroker::catalog_limits(self.settings.seed);
        let now_us = self.clock.us();
        new.all().for_each(|disk| disk.with(|disk| disk.set_now(now_us)));
        let mut store = NewStore { old, new: &new, on_damage, kill, now_us };
        let written = store.write(&limits);
        let took_us = store.now_us - now_us;
        self.trace.note(|| format!("the store of broker {broker} is written anew: {plan:?}, {written:?}"));
        let damage = match written {
            Ok(damage) => damage,
            Err(_) if matches!(plan.outcome, ReshardOutcome::Unwritable { .. }) => None,
            Err(why) => return Err(why),
        };
        self.pass(took_us);
        if damage.is_some() {
            let power_fails = plan.outcome == ReshardOutcome::Done { power_fails: true };
            new.crash(if power_fails { CrashKind::PowerCut } else { CrashKind::Exit });
            new.all().for_each(|disk| disk.with(|disk| disk.set_capacity(u64::MAX)));
            self.tally.reshardings += u64::from(plan.shards != self.settings.shards[broker]);
            self.settings.shards[broker] = plan.shards;
            self.brokers[broker].disks = Some(new);
        }
        Ok(damage)
    }
}
