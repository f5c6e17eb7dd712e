//! A source that has a catalog of its own and nothing behind it: for tests, fuzzing, and what a program can be compared with.
//!
//! Owns: the catalog, and whatever numbers and live objects were put into it. Definitions are taken in; what needs a broker is
//!       refused.

use crate::api_error::ApiError;
use crate::live::{
    BrokerCounts, BrokerFacts, ExchangeCounts, LiveChannel, LiveConnection, LiveConsumer, LiveFederationLink,
    QueueCounts, VhostCounts,
};
use crate::source::{Action, ActionKind, ActionOutcome, ActionReply, Source};
use catalog::{Catalog, CatalogLimits, Definition, ExchangeId, Policy, QueueId, VhostId, default_definitions};
use definitions::{DefinitionsFile, UnusedSections};
use std::collections::HashMap;

/// A catalog as a source.
pub struct CatalogSource {
    pub catalog: Catalog,
    pub kept: UnusedSections,
    pub facts: BrokerFacts,
    pub counts: BrokerCounts,
    pub queue_counts: HashMap<QueueId, QueueCounts>,
    pub connections: Vec<LiveConnection>,
    pub channels: Vec<LiveChannel>,
    pub consumers: Vec<LiveConsumer>,
    pub federation_links: Vec<LiveFederationLink>,
    pub now_ms: u64,
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
            ..BrokerFacts::default()
        };
        Self {
            catalog,
            kept: UnusedSections::default(),
            facts,
            counts: BrokerCounts::default(),
            queue_counts: HashMap::new(),
            connections: Vec::new(),
            channels: Vec::new(),
            consumers: Vec::new(),
            federation_links: Vec::new(),
            now_ms: 0,
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

    /// Takes a file in. Policies replace those of the same name.
    fn import(&mut self, file: &DefinitionsFile) -> Result<ActionOutcome, ApiError> {
        let loaded = file.load(&mut self.catalog, 1, |_| false);
        self.finish();
        loaded.map_err(|fault| ApiError::bad_request(fault.to_string()))?;
        let (mut policies, mut operator_policies) = (Vec::new(), Vec::new());
        for (policy, is_operator) in self.catalog.policies() {
            if is_operator { &mut operator_policies } else { &mut policies }.push(policy.clone());
        }
        file.policies().for_each(|(_, policy)| put(&mut policies, policy));
        file.operator_policies().for_each(|(_, policy)| put(&mut operator_policies, policy));
        let definition =
            Definition::SetPolicies { policies: policies.into(), operator_policies: operator_policies.into() };
        self.catalog.execute(&definition).map_err(|refusal| ApiError::of_refusal(&refusal))?;
        self.finish();
        self.kept = file.kept();
        Ok(ActionOutcome::Done)
    }
}

fn put(policies: &mut Vec<Policy>, policy: &Policy) {
    policies.retain(|other| (&other.vhost, &other.name) != (&policy.vhost, &policy.name));
    policies.push(policy.clone());
}

impl Source for CatalogSource {
    fn refresh(&mut self) {}

    fn begin_request(&mut self) {}

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn kept(&self) -> &UnusedSections {
        &self.kept
    }

    fn facts(&self) -> &BrokerFacts {
        &self.facts
    }

    fn counts(&self) -> BrokerCounts {
        self.counts.clone()
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

    fn connections(&self) -> &[LiveConnection] {
        &self.connections
    }

    fn channels(&self) -> &[LiveChannel] {
        &self.channels
    }

    fn consumers(&self) -> &[LiveConsumer] {
        &self.consumers
    }

    fn federation_links(&self) -> &[LiveFederationLink] {
        &self.federation_links
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random
    }

    fn act(&mut self, action: Action, reply: ActionReply) {
        reply.send(match action.kind {
            ActionKind::Import { file, .. } => self.import(&file),
            ActionKind::Route { .. } => Err(ApiError::unavailable("there is no broker behind this")),
        });
    }
}
