//! The scenario: a tree of brokers and everything that limits and disturbs the stream through it.

use crate::limits::SIMULATED_NS_MAX;
use crate::limits::{CORES_MAX, COST_NS_MAX, FAILURES_MAX, MESSAGE_BYTES_MAX, MESSAGES_MAX, STRAGGLERS_MAX};
use crate::tree_topology::TreeTopology;
use std::fmt;

/// Why a scenario is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidScenario(pub String);

impl fmt::Display for InvalidScenario {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for InvalidScenario {}

/// How a broker acknowledges messages of the one above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// No confirms: messages in flight are lost when a connection breaks.
    None,
    /// A broker confirms what it has routed; what is unconfirmed is redelivered.
    Confirm,
}

/// When messages are published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalProcess {
    /// A closed loop: as fast as the root accepts them.
    Closed,
    /// An open loop with this many a second, at equal intervals.
    Even(f64),
    /// An open loop with this many a second on average, at exponential intervals (a Poisson process).
    Poisson(f64),
}

/// The link of each broker, of the publisher, and of the consumers of a leaf, in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// Its speed; `None`: unlimited.
    pub bits_per_s: Option<u64>,
    /// Delay that it adds to every message.
    pub delay_ns: u64,
}

/// A slow consumer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// Its number; `None`: drawn from the seed.
    pub consumer: Option<u32>,
    /// Messages a second that it consumes at most.
    pub per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerFailure {
    pub broker: u32,
    pub at_ns: u64,
    /// Time until it is back; `None`: never.
    pub away_ns: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub tree: TreeTopology,
    /// Bytes of a message's body.
    pub message_bytes: u64,
    /// Bytes of one copy on a link, with all headers.
    pub wire_bytes: f64,
    /// Threads of a broker: one receives a message, and its copies are spread over all of them.
    pub cores: u32,
    pub link: LinkModel,
    /// Delay of a hop to a broker below, apart from processor and link.
    pub hop_delay_ns: u64,
    /// The same for a hop to a consumer.
    pub consumer_delay_ns: u64,
    /// Delay that each earlier sibling adds to a single message's time, apart from the processor's.
    pub sibling_delay_ns: f64,
    pub arrivals: ArrivalProcess,
    pub messages: u32,
    /// How brokers acknowledge each other's messages.
    pub ack: AckMode,
    /// Messages in flight between two brokers with confirms; `None`: unlimited.
    pub credit: Option<u32>,
    /// Messages that a consumer has not acknowledged; `None`: unlimited.
    pub prefetch: Option<u32>,
    /// Size of a queue at which its broker stops reading; `None`: unlimited.
    pub queue_bytes_max: Option<u64>,
    pub stragglers: Vec<Straggler>,
    pub failures: Vec<BrokerFailure>,
    /// Random variation of a batch's time, as a share up and down.
    pub jitter: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Scenario {
    /// A closed-loop stream through brokers and links that take no time: a base to modify.
    pub fn new(topology: TreeTopology, message_bytes: u64, messages: u32) -> Self {
        Self {
            tree: topology,
            message_bytes,
            wire_bytes: message_bytes as f64,
            cores: 1,
            link: LinkModel { bits_per_s: None, delay_ns: 0 },
            hop_delay_ns: 0,
            consumer_delay_ns: 0,
            sibling_delay_ns: 0.0,
            arrivals: ArrivalProcess::Closed,
            messages,
            ack: AckMode::None,
            credit: None,
            prefetch: None,
            queue_bytes_max: None,
            stragglers: Vec::new(),
            failures: Vec::new(),
            jitter: 0.0,
            seed: 1,
        }
    }

    /// Checks that the scenario can be simulated.
    ///
    /// # Errors
    /// A value is out of bounds, or two contradict each other.
    pub fn check(&self) -> Result<(), InvalidScenario> {
        let wrong = |why: String| Err(InvalidScenario(why));
        if !(1..=MESSAGE_BYTES_MAX).contains(&self.message_bytes) {
            return wrong(format!("a message has from 1 to {MESSAGE_BYTES_MAX} bytes, not {}", self.message_bytes));
        }
        if !(self.wire_bytes >= self.message_bytes as f64 && self.wire_bytes <= 16.0 * MESSAGE_BYTES_MAX as f64) {
            return wrong(format!("{} bytes on a link for a message of {}", self.wire_bytes, self.message_bytes));
        }
        if !(1..=MESSAGES_MAX).contains(&self.messages) {
            return wrong(format!("from 1 to {MESSAGES_MAX} messages are simulated, not {}", self.messages));
        }
        if !(1..=CORES_MAX).contains(&self.cores) {
            return wrong(format!("a broker has from 1 to {CORES_MAX} cores, not {}", self.cores));
        }
        let delays = [self.link.delay_ns, self.hop_delay_ns, self.consumer_delay_ns].map(|delay| delay as f64);
        if !delays.into_iter().chain([self.sibling_delay_ns]).all(|delay| (0.0..=COST_NS_MAX).contains(&delay)) {
            return wrong(format!("a delay has from 0 to {COST_NS_MAX} ns"));
        }
        if self.link.bits_per_s == Some(0) || self.credit == Some(0) || self.prefetch == Some(0) {
            return wrong("a link speed, a credit or a prefetch of 0 lets nothing through".to_owned());
        }
        if self.queue_bytes_max == Some(0) {
            return wrong("a queue of 0 bytes lets nothing through".to_owned());
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return wrong(format!("the jitter is a share from 0 to below 1, not {}", self.jitter));
        }
        if let ArrivalProcess::Even(rate) | ArrivalProcess::Poisson(rate) = self.arrivals
            && !(1e-3..=1e9).contains(&rate)
        {
            return wrong(format!("a rate is from 0.001 to 1,000,000,000 messages a second, not {rate}"));
        }
        self.check_stragglers()?;
        self.check_failures()?;
        if self.arrivals == ArrivalProcess::Closed && !self.is_bounded() {
            return wrong("nothing limits the rate: brokers cost nothing, and links have no speed".to_owned());
        }
        Ok(())
    }

    /// Whether a closed-loop stream has a finite rate.
    fn is_bounded(&self) -> bool {
        let costs = |work: crate::ServiceTimes| work.receive_ns + work.to_broker_ns + work.to_consumer_ns > 0.0;
        self.link.bits_per_s.is_some()
            || self.tree.nodes().iter().any(|node| costs(node.service))
            || !self.stragglers.is_empty()
    }

    fn check_stragglers(&self) -> Result<(), InvalidScenario> {
        if self.stragglers.len() > STRAGGLERS_MAX as usize {
            return Err(InvalidScenario(format!("at most {STRAGGLERS_MAX} consumers are slow")));
        }
        if self.stragglers.len() as u64 > u64::from(self.tree.consumers()) {
            let (slow, all) = (self.stragglers.len(), self.tree.consumers());
            return Err(InvalidScenario(format!("{slow} slow consumers are requested, of {all}")));
        }
        for straggler in &self.stragglers {
            if !(1e-3..=1e9).contains(&straggler.per_s) {
                let per_s = straggler.per_s;
                return Err(InvalidScenario(format!(
                    "a consumer takes from 0.001 to 1,000,000,000 messages a second, not {per_s}"
                )));
            }
            if let Some(consumer) = straggler.consumer.filter(|consumer| *consumer >= self.tree.consumers()) {
                let last = self.tree.consumers() - 1;
                return Err(InvalidScenario(format!("there is no consumer {consumer}: they are 0 to {last}")));
            }
        }
        let mut named: Vec<u32> = self.stragglers.iter().filter_map(|one| one.consumer).collect();
        named.sort_unstable();
        match named.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(InvalidScenario(format!("consumer {} is slow twice", two[0]))),
            None => Ok(()),
        }
    }

    fn check_failures(&self) -> Result<(), InvalidScenario> {
        if self.failures.len() > FAILURES_MAX {
            return Err(InvalidScenario(format!("at most {FAILURES_MAX} failures are simulated")));
        }
        let mut failures = self.failures.clone();
        failures.sort_by_key(|fail| (fail.broker, fail.at_ns));
        for fail in &failures {
            if fail.broker >= self.tree.brokers() {
                let brokers = self.tree.brokers();
                return Err(InvalidScenario(format!("there is no broker number {}: there are {brokers}", fail.broker)));
            }
            if fail.at_ns.saturating_add(fail.away_ns.unwrap_or(0)) > SIMULATED_NS_MAX || fail.away_ns == Some(0) {
                let most = SIMULATED_NS_MAX / 1_000_000_000;
                let name = self.tree.name(fail.broker);
                return Err(InvalidScenario(format!(
                    "{name} must fail and return within {most} s, with a pause between"
                )));
            }
        }
        for two in failures.windows(2).filter(|two| two[0].broker == two[1].broker) {
            let back = two[0].away_ns.map(|away| two[0].at_ns + away);
            if back.is_none_or(|back| back > two[1].at_ns) {
                let name = self.tree.name(two[0].broker);
                return Err(InvalidScenario(format!("{name} fails again before it is back")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree_topology::ServiceTimes;
    use topology::Tree;

    fn scenario() -> Scenario {
        let tree: Tree = "B-2B-4C".parse().expect("a tree");
        let work = ServiceTimes { receive_ns: 1.0, ..ServiceTimes::default() };
        Scenario::new(TreeTopology::from_tree(&tree, |_, _| work).expect("a topology"), 64, 100)
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Scenario), expected: &str) {
        let mut scenario = scenario();
        change(&mut scenario);
        let why = scenario.check().map_or_else(|why| why.0, |()| "well".to_owned());
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn what_cannot_be_is_said() {
        let fail = |broker, at_ns, away_ns| BrokerFailure { broker, at_ns, away_ns };
        let slow = |consumer| Straggler { consumer, per_s: 10.0 };
        check(|_| {}, "well");
        check(|it| it.messages = 0, "from 1 to");
        check(|it| it.message_bytes = 0, "a message has from 1");
        check(|it| it.wire_bytes = 10.0, "bytes on a link");
        check(|it| it.cores = 0, "cores");
        check(|it| it.credit = Some(0), "lets nothing through");
        check(|it| it.queue_bytes_max = Some(0), "lets nothing through");
        check(|it| it.jitter = 1.0, "jitter");
        check(|it| it.arrivals = ArrivalProcess::Even(0.0), "a rate is from");
        check(|it| it.link.delay_ns = u64::MAX, "a delay has");
        check(|it| it.stragglers = vec![slow(Some(4))], "there is no consumer 4");
        check(|it| it.stragglers = vec![slow(Some(1)), slow(Some(1))], "slow twice");
        check(|it| it.stragglers = vec![slow(None); 5], "5 slow consumers are requested, of 4");
        check(|it| it.failures = vec![fail(3, 0, None)], "there is no broker number 3");
        check(|it| it.failures = vec![fail(1, 5, Some(0))], "with a pause between");
        check(|it| it.failures = vec![fail(1, 5, None), fail(1, 9, Some(1))], "b1.0 fails again before it is back");
        check(|it| it.failures = vec![fail(1, 5, Some(4)), fail(1, 9, Some(1))], "well");
        let free = TreeTopology::from_tree(&"B-C".parse().expect("a tree"), |_, _| ServiceTimes::default())
            .expect("a topology");
        check(|it| it.tree = free.clone(), "nothing limits the rate");
    }
}
