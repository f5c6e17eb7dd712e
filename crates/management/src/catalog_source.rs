//! A source that has a catalog of its own and nothing behind it: for tests, fuzzing, and what a program can be compared with.
//!
//! Owns: the catalog, and whatever numbers and live objects were put into it. Definitions are taken in; what needs a broker is
//!       refused.

use crate::alarm_history::AlarmHistory;
use crate::api_error::ApiError;
use crate::changes::plan;
use crate::live::{
    BrokerCounts, BrokerFacts, ExchangeCounts, LiveChannel, LiveConnection, LiveConsumer, LiveFederationLink,
    LoginCounts, QueueCounts, QueueOwner, VhostCounts,
};
use crate::live_shovel::LiveShovel;
use crate::object_sums::ObjectSums;
use crate::planned_change::PlannedChange;
use crate::queue_totals::QueueTotals;
use crate::runtime_counts::RuntimeCounts;
use crate::source::{Action, ActionOutcome, ActionReply, Source};
use catalog::{
    Catalog, CatalogLimits, Definition, ExchangeId, QueueId, QueueRoute, RouteQuestion, SessionId, VhostId,
    default_definitions,
};
use definitions::{Json, KeptSections};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A catalog as a source.
pub struct CatalogSource {
    pub catalog: Catalog,
    pub kept: KeptSections,
    pub facts: BrokerFacts,
    pub counts: BrokerCounts,
    pub alarms: AlarmHistory,
    pub queue_counts: HashMap<QueueId, QueueCounts>,
    pub connections: Vec<LiveConnection>,
    /// Of every connection over TCP.
    pub round_trip: Duration,
    pub queue_owners: HashMap<SessionId, QueueOwner>,
    pub channels: Vec<LiveChannel>,
    pub consumers: Vec<LiveConsumer>,
    pub federation_links: Vec<LiveFederationLink>,
    pub shovels: Vec<LiveShovel>,
    pub runtime: RuntimeCounts,
    pub now_ms: u64,
    /// Those of whom it cannot be had in time how they log in now.
    pub unknown_users: Vec<String>,
    /// Of a sequence that everybody knows.
    random: u64,
}

impl Default for CatalogSource {
    /// With the definitions of a broker that was told nothing.
    fn default() -> Self {
        let mut source = Self::new(Catalog::new(CatalogLimits::default()));
        source.define(default_definitions());
        source
    }
}

impl CatalogSource {
    pub fn new(catalog: Catalog) -> Self {
        let facts = BrokerFacts {
            node: "rabbit@localhost".to_owned(),
            cluster_name: "rabbit@localhost".to_owned(),
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            shards: 1,
            loopback_users: vec!["guest".to_owned()],
            ..BrokerFacts::default()
        };
        Self {
            catalog,
            kept: KeptSections::default(),
            facts,
            counts: BrokerCounts::default(),
            alarms: AlarmHistory::default(),
            queue_counts: HashMap::new(),
            connections: Vec::new(),
            round_trip: Duration::ZERO,
            queue_owners: HashMap::new(),
            channels: Vec::new(),
            consumers: Vec::new(),
            federation_links: Vec::new(),
            shovels: Vec::new(),
            runtime: RuntimeCounts::default(),
            now_ms: 0,
            unknown_users: Vec::new(),
            random: 0,
        }
    }

    /// Executes definitions of an operator.
    ///
    /// # Panics
    /// The catalog refuses one.
    pub fn define(&mut self, definitions: impl IntoIterator<Item = Definition>) {
        for definition in definitions {
            if let Err(refusal) = self.catalog.execute(&definition) {
                panic!("{definition:?}: {refusal}");
            }
            self.finish();
        }
    }

    fn finish(&mut self) {
        while self.catalog.has_unfinished() {
            self.catalog.execute(&Definition::Finish).expect("finishing is not refused");
        }
    }

    /// Plans an action, and makes what needs no broker.
    fn carry_out(&mut self, action: &Action) -> Result<ActionOutcome, ApiError> {
        loop {
            match plan(self, action)? {
                PlannedChange::Define { definitions, kept, outcome } => {
                    self.execute(&definitions)?;
                    self.kept = kept.unwrap_or_else(|| std::mem::take(&mut self.kept));
                    return Ok(outcome);
                }
                // Planned again, the action finds that they are there.
                PlannedChange::DefineFirst(definitions) => self.execute(&definitions)?,
                PlannedChange::ResetLoginCounts => {
                    self.counts.logins.clear();
                    return Ok(ActionOutcome::Done);
                }
                _ => return Err(ApiError::unavailable("there is no broker behind this")),
            }
        }
    }

    fn execute(&mut self, definitions: &[Definition]) -> Result<(), ApiError> {
        for definition in definitions {
            let executed = self.catalog.execute(definition);
            self.finish();
            executed.map_err(|refusal| ApiError::of_refusal(&refusal))?;
        }
        Ok(())
    }
}

impl Source for CatalogSource {
    fn refresh(&mut self) {}

    fn follow(&mut self) {}

    fn follow_user(&mut self, name: &[u8]) -> Result<(), ApiError> {
        match self.unknown_users.iter().any(|unknown| unknown.as_bytes() == name) {
            true => Err(ApiError::unavailable("the broker takes too long to say who may log in")),
            false => Ok(()),
        }
    }

    fn begin_request(&mut self) {}

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn kept(&self) -> &KeptSections {
        &self.kept
    }

    fn facts(&self) -> &BrokerFacts {
        &self.facts
    }

    fn counts(&self) -> BrokerCounts {
        let mut sums = ObjectSums::default();
        for of in &self.connections {
            sums.received_bytes += of.received_bytes.total;
            sums.sent_bytes += of.sent_bytes.total;
            sums.pending_connections += u64::from(of.pending_bytes > 0);
        }
        for of in &self.channels {
            sums.channel_consumers += of.consumers;
            sums.unacknowledged += of.unacknowledged;
            sums.unconfirmed += of.unconfirmed;
            sums.global_prefetch_count += of.global_prefetch_count;
        }
        BrokerCounts { sums, ..self.counts.clone() }
    }

    fn alarms(&self) -> &AlarmHistory {
        &self.alarms
    }

    fn vhost_counts(&self, _: VhostId) -> VhostCounts {
        VhostCounts::default()
    }

    fn exchange_counts(&self, _: ExchangeId) -> ExchangeCounts {
        ExchangeCounts::default()
    }

    fn queue_counts(&self, queue: QueueId) -> QueueCounts {
        self.queue_counts.get(&queue).cloned().unwrap_or_default()
    }

    fn queue_totals(&self, queue: QueueId) -> QueueTotals {
        (&self.queue_counts(queue)).into()
    }

    fn connections(&self) -> &[LiveConnection] {
        &self.connections
    }

    fn round_trip(&self, connection: &LiveConnection) -> Option<Duration> {
        (connection.transport == "tcp").then_some(self.round_trip)
    }

    fn queue_owner(&self, session: SessionId) -> Option<QueueOwner> {
        self.queue_owners.get(&session).cloned()
    }

    fn channels(&self) -> &[LiveChannel] {
        &self.channels
    }

    fn consumers(&self) -> &[LiveConsumer] {
        &self.consumers
    }

    fn runtime(&self) -> RuntimeCounts {
        self.runtime.clone()
    }

    fn federation_links(&self) -> &[LiveFederationLink] {
        &self.federation_links
    }

    fn shovels(&self) -> &[LiveShovel] {
        &self.shovels
    }

    fn check_parameter(&self, _: &str, _: &str, _: &str, _: &Json) -> Result<(), String> {
        Ok(())
    }

    fn find_route(&mut self, message: RouteQuestion<'_>) -> Option<Arc<QueueRoute>> {
        message.ask(&mut self.catalog)
    }

    fn counted_ms(&self) -> u64 {
        self.now_ms
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random
    }

    fn count_login(&mut self, is_right: bool) {
        if self.counts.logins.is_empty() {
            self.counts.logins.push(LoginCounts { protocol: "http", ..LoginCounts::default() });
        }
        self.counts.logins[0].count(is_right);
    }

    fn act(&mut self, action: Action, reply: ActionReply) {
        reply.send(self.carry_out(&action));
    }
}
