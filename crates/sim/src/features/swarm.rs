//! The swarm: which features a run has, and how often its clients send which request.
//!
//! A run in which everything happens a little rarely has enough of any two things for them to meet badly. So each seed leaves
//! out about half of the features, and has more or less of the others than usual (Groce et al., Swarm Testing, 2012).

use splitmix::SplitMix64;
use std::fmt;

macro_rules! switches {
    ($(#[$about:meta])* $Type:ident, $TABLE:ident: $($(#[$doc:meta])* $name:ident, $word:literal, $usual:literal;)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Type { $($(#[$doc])* $name,)* }
        const $TABLE: &[($Type, &str, u16)] = &[$(($Type::$name, $word, $usual),)*];
    };
}

switches! {
    /// A feature that a run may have. The number is the usual thousandth part of the queues, messages, consumers or exchanges.
    Feature, FEATURES:
    /// Queues with `x-message-ttl`.
    Ttl, "ttl", 250;
    /// Messages with an `expiration`.
    Expiration, "expiration", 80;
    /// Queues with `x-expires`.
    Expires, "expires", 120;
    /// Queues with a length limit.
    Length, "length", 250;
    /// Of these, queues that refuse messages when they are full.
    Refuses, "refuses", 500;
    /// Queues with dead letters.
    DeadLetters, "dead-letters", 350;
    /// Of these, queues whose dead letters go to a queue that has features, too.
    Chains, "chains", 300;
    /// Queues with priorities.
    Priorities, "priorities", 250;
    /// Queues with a single active consumer.
    SingleActive, "single-active", 120;
    /// Queues with a delivery limit.
    DeliveryLimit, "delivery-limit", 250;
    /// Messages with further routing keys.
    Copies, "copies", 60;
    /// Queues with arguments that are accepted and ignored.
    Modes, "modes", 200;
    ConsumerPriorities, "consumer-priorities", 250;
    /// Exchanges with an alternate exchange.
    Alternates, "alternates", 300;
    /// Bindings of an exchange to an exchange.
    Chained, "exchange-bindings", 150;
    ExchangeAutoDelete, "exchange-auto-delete", 200;
    /// Exclusive queues.
    Exclusive, "exclusive", 150;
    /// Auto-delete queues.
    AutoDelete, "auto-delete", 150;
    /// Queues that the broker names.
    ServerNamed, "server-named", 150;
    ExclusiveConsumers, "exclusive-consumers", 60;
    /// Consumers and gets that need no acknowledgement.
    NoAck, "no-ack", 250;
    /// Mandatory messages.
    Mandatory, "mandatory", 150;
    /// Plain channels that select confirms, when they could.
    Confirms, "confirms", 600;
    /// Plain channels that begin transactions, when they could.
    Transactions, "transactions", 150;
    /// Settlements of everything up to a tag.
    Multiple, "multiple", 300;
    /// Refused deliveries that go back.
    Requeue, "requeue", 300;
}

switches! {
    /// A request that a client may send. The number is its usual weight among the others.
    RequestChoice, REQUESTS:
    /// `queue.declare` of a new queue.
    Declare, "declare", 10;
    /// `queue.declare`, passive.
    DeclarePassive, "look", 6;
    /// `queue.declare` of an existing queue.
    Redeclare, "declare-again", 4;
    /// `queue.delete`.
    Delete, "delete", 2;
    /// `queue.purge`.
    Purge, "purge", 2;
    /// `queue.bind` or `exchange.bind`.
    Bind, "bind", 14;
    /// `queue.unbind` or `exchange.unbind`.
    Unbind, "unbind", 4;
    /// `basic.consume`.
    Consume, "consume", 20;
    /// `basic.cancel`.
    Cancel, "cancel", 6;
    /// `basic.get`.
    Get, "get", 12;
    /// `basic.qos`.
    Prefetch, "prefetch", 6;
    /// `channel.flow`.
    Flow, "flow", 3;
    /// `basic.recover`.
    Recover, "recover", 3;
    /// `exchange.declare`.
    DeclareExchange, "declare-exchange", 2;
    /// `exchange.delete`.
    DeleteExchange, "delete-exchange", 1;
    /// `confirm.select`, `tx.select`, `tx.commit`, `tx.rollback`.
    Transact, "transact", 10;
}

impl Feature {
    /// Whether AMQP 0-9-1 itself has it.
    fn is_basic(self) -> bool {
        self as usize >= Feature::Exclusive as usize
    }
}

/// A run's switches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    features: [u16; FEATURES.len()],
    requests: [u16; REQUESTS.len()],
}

impl Switches {
    /// Draws them. One run in eight has no feature but those of AMQP 0-9-1.
    pub fn of(chance: &mut SplitMix64) -> Self {
        let bare = chance.permille(125);
        let (mut features, mut requests) = ([0; FEATURES.len()], [0; REQUESTS.len()]);
        for (slot, &(feature, _, usual)) in features.iter_mut().zip(FEATURES) {
            let on = if feature.is_basic() { 750 } else { 500 };
            let skewed = [(usual / 4).max(10), usual, (usual * 3).min(900)][chance.below(3) as usize];
            if chance.permille(on) && (feature.is_basic() || !bare) {
                *slot = skewed;
            }
        }
        for (slot, &(_, _, usual)) in requests.iter_mut().zip(REQUESTS) {
            *slot = usual * [0, 1, 4, 4, 4, 16][chance.below(6) as usize];
        }
        // A run needs queues.
        requests[RequestChoice::Declare as usize] = requests[RequestChoice::Declare as usize].max(10);
        Switches { features, requests }
    }

    /// A feature has this thousandth part.
    pub(super) fn set_part(&mut self, feature: Feature, part: u16) {
        self.features[feature as usize] = part;
    }

    /// These requests have these weights, and there are no others.
    pub(super) fn set_requests(&mut self, weights: &[(RequestChoice, u16)]) {
        self.requests = [0; REQUESTS.len()];
        weights.iter().for_each(|&(request, weight)| self.requests[request as usize] = weight);
    }

    /// The thousandth part of a feature; zero if it is off.
    pub fn part(&self, feature: Feature) -> u32 {
        self.features[feature as usize].into()
    }

    /// Whether the next queue, message, consumer or exchange has a feature.
    pub(crate) fn has(&self, feature: Feature, chance: &mut SplitMix64) -> bool {
        chance.permille(self.part(feature))
    }

    /// The next request.
    pub(crate) fn draw_request(&self, chance: &mut SplitMix64) -> RequestChoice {
        let mut roll = chance.below(self.requests.iter().copied().map(u64::from).sum());
        for (&(request, ..), &weight) in REQUESTS.iter().zip(&self.requests) {
            if roll < u64::from(weight) {
                return request;
            }
            roll -= u64::from(weight);
        }
        RequestChoice::Declare
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |table: &mut dyn Iterator<Item = (&'static str, u16)>| {
            let (on, off): (Vec<_>, Vec<_>) = table.partition(|&(_, part)| part > 0);
            let on: Vec<String> = on.into_iter().map(|(word, part)| format!("{word} {part}")).collect();
            let off: Vec<&str> = off.into_iter().map(|(word, _)| word).collect();
            format!("{}; off: {}", on.join(", "), off.join(", "))
        };
        let mut features = FEATURES.iter().map(|&(_, word, _)| word).zip(self.features);
        let mut requests = REQUESTS.iter().map(|&(_, word, _)| word).zip(self.requests);
        write!(to, "{}\nrequests: {}", words(&mut features), words(&mut requests))
    }
}

impl fmt::Debug for Switches {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_off_in_many_runs_and_skewed_in_the_others() {
        let drawn: Vec<Switches> = (0..400).map(|seed| Switches::of(&mut SplitMix64::new(seed))).collect();
        for &(feature, word, usual) in FEATURES {
            let usual = u32::from(usual);
            let count = |is: &dyn Fn(u32) -> bool| drawn.iter().filter(|one| is(one.part(feature))).count();
            let (off, less, more) =
                (count(&|part| part == 0), count(&|part| part < usual), count(&|part| part > usual));
            assert!(off > 60 && off < 300 && less > off && more > 40, "{word}: {off} {less} {more}");
        }
    }

    #[test]
    fn a_request_of_no_weight_is_never_sent() {
        for seed in 0..50 {
            let mut chance = SplitMix64::new(seed);
            let switches = Switches::of(&mut chance);
            for _ in 0..200 {
                let request = switches.draw_request(&mut chance);
                assert!(switches.requests[request as usize] > 0, "{request:?} of {switches}");
            }
        }
    }
}
