//! Dead letters: the paths that they take from queue to queue, and what their headers must say about it.

use super::certainty::Certainty;
use super::delivery_checks::DeliveryChecker;
use super::shadow_model::{PublishOutcome, SettlementProgress, ShadowModel};
use crate::client_connection::ReceivedMessage;
use std::collections::{BTreeSet, HashMap};
use wire::{Properties, RawProperties, Table, Value};

/// Bits of a message's number; above them is the path of a dead letter.
const NUMBER_BITS: u32 = 40;

/// The number of the message behind a copy's.
pub fn number_of(copy: u64) -> u64 {
    copy & ((1 << NUMBER_BITS) - 1)
}

/// The paths of dead letters: each extends another path, or none, by the queue that dead-lettered the message last. The
/// number of a path is its index here plus one; zero is no path.
#[derive(Default)]
pub struct DeadLetterPaths {
    list: Vec<(u64, usize)>,
    known: HashMap<(u64, usize), u64>,
}

impl DeadLetterPaths {
    /// The number of the copy that a message, or another copy, becomes when this queue dead-letters it.
    pub fn copy(&mut self, before: u64, origin: usize) -> u64 {
        let path = before >> NUMBER_BITS;
        let next = self.list.len() as u64 + 1;
        let path = *self.known.entry((path, origin)).or_insert(next);
        if path == next {
            self.list.push((before >> NUMBER_BITS, origin));
        }
        number_of(before) | path << NUMBER_BITS
    }

    /// What a copy was before, and the queue that dead-lettered that; `None` if it is the message itself.
    pub fn before(&self, copy: u64) -> Option<(u64, usize)> {
        let index = (copy >> NUMBER_BITS).checked_sub(1)?;
        let &(path, origin) = self.list.get(index as usize)?;
        Some((number_of(copy) | path << NUMBER_BITS, origin))
    }
}

/// One entry of the `x-death` header.
pub struct DeathRecord {
    origin: usize,
    reason: String,
}

/// A received message, identified.
pub struct IdentifiedMessage {
    /// The number of the message, or of the copy.
    pub copy: u64,
    /// Its entries of `x-death`, the oldest first.
    pub deaths: Vec<DeathRecord>,
    /// How often it had been returned to its queue, if the queue counts that.
    pub returns: Option<i64>,
}

impl ShadowModel {
    /// Whether a copy is a message as it was published.
    pub fn is_original(&self, copy: u64) -> bool {
        self.paths.before(copy).is_none()
    }

    /// Whether a publish may have been refused by a full queue.
    pub fn may_be_declined(&self, id: u64) -> bool {
        let Some(message) = self.messages.get(&id) else { return false };
        self.routes(message, self.now, false).iter().any(|&queue| self.queues[queue].traits.refuses)
    }

    /// The broker has refused a message because a queue is full.
    pub fn refuse(&mut self, id: u64) -> Result<(), String> {
        if !self.may_be_declined(id) {
            return Err(format!("message {id} was refused, and is routed to no queue that refuses any"));
        }
        let now = self.now;
        if let Some(message) = self.messages.get_mut(&id) {
            (message.outcome, message.routed) = (PublishOutcome::Unknown, Some(now));
            message.declined = true;
        }
        Ok(())
    }

    /// Whether a queue surely refused a message: the message was refused, and is routed to no other queue that refuses any.
    pub fn is_refused_by(&self, queue: usize, id: u64) -> bool {
        let message = &self.messages[&id];
        let may = || self.routes(message, message.routed.unwrap_or(self.now), false);
        message.declined
            && self.queues[queue].traits.refuses
            && may().into_iter().filter(|&other| self.queues[other].traits.refuses).collect::<BTreeSet<_>>().len() == 1
    }

    /// The broker has received a rejection: the dead letter is owed, unless its queue may be full.
    pub fn dead_letter(&mut self, origin: usize, id: u64) {
        // A queue that is deleted leaves no dead letters.
        if let Some(dead) = self.queues[origin].traits.dead
            && self.queues[origin].life.ending.is_none()
        {
            let copy = self.paths.copy(id, origin);
            let queue = &mut self.queues[dead];
            if !queue.deliveries.contains_key(&copy) && queue.life.ending.is_none() && !queue.traits.refuses {
                queue.owed.insert(copy);
            }
        }
    }
}

/// Identifies a received message: as published, or as a dead letter of that. `queue`: the queue that delivered it.
pub fn identify(
    model: &mut ShadowModel,
    id: u64,
    queue: Option<usize>,
    received: &ReceivedMessage,
) -> Result<IdentifiedMessage, String> {
    let message = &model.messages[&id];
    let counts = queue.is_some_and(|queue| model.queues[queue].traits.delivery_limit.is_some());
    let addressed = received.exchange == model.exchanges[message.exchange].name.as_bytes()
        && received.routing_key == message.key.as_bytes();
    let same_body = || received.body == super::actions::body_of(id, message.body_bytes);
    if !counts && addressed && received.properties == message.properties && same_body() {
        return Ok(IdentifiedMessage { copy: id, deaths: Vec::new(), returns: None });
    }
    let mut properties = decode(&received.properties)?;
    let before = decode(&message.properties)?;
    let count = properties.headers.as_mut().filter(|_| counts).and_then(|headers| headers.remove("x-delivery-count"));
    let returns = match (counts, count) {
        (false, _) => None,
        (true, None) => Some(0),
        (true, Some(count)) => Some(count.as_i64().ok_or_else(|| format!("its delivery count is {count:?}"))?),
    };
    if addressed && without_empty(properties.clone()) == without_empty(before.clone()) && same_body() {
        return Ok(IdentifiedMessage { copy: id, deaths: Vec::new(), returns });
    }
    let deaths = death_records(model, id, before, properties)?;
    if !received.exchange.is_empty() || !same_body() {
        return Err("its body or its exchange has changed".into());
    }
    let copy = deaths.iter().fold(id, |copy, death| model.paths.copy(copy, death.origin));
    Ok(IdentifiedMessage { copy, deaths, returns })
}

/// The entries of a message's `x-death` header, if the message is otherwise as published.
fn death_records(
    model: &ShadowModel,
    id: u64,
    mut before: Properties,
    properties: Properties,
) -> Result<Vec<DeathRecord>, String> {
    let message = &model.messages[&id];
    let mut headers = properties.headers.clone().unwrap_or_default();
    let events = headers.remove("x-death");
    let events = events.as_ref().and_then(Value::as_list).map(|list| list.iter().collect::<Vec<_>>());
    let events = events.filter(|events| !events.is_empty()).ok_or("it has changed, and has no x-death header")?;
    let first_exchange = model.exchanges[message.exchange].name.clone();
    let mut expected_keys: Vec<Value> =
        std::iter::once(&message.key).chain(&message.further_keys[0]).map(|key| Value::text(key)).collect();
    let mut expiration = before.expiration.as_ref().map(|text| Value::LongStr(text.as_bytes().into()));
    let mut exchange = &*first_exchange;
    let mut deaths = Vec::new();
    // The newest entry is the first.
    for event in events.iter().rev() {
        let event = event.as_table().ok_or("an entry of x-death is no table")?;
        let word = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or("?");
        let origin = model.queues.iter().position(|queue| queue.name == word("queue"));
        let origin = origin.ok_or_else(|| format!("it was dead-lettered by '{}', which is no queue", word("queue")))?;
        let keys = event.get("routing-keys").and_then(Value::as_list).map(|keys| keys.iter().collect::<Vec<_>>());
        let fits = event.get("count").and_then(Value::as_i64) == Some(1)
            && word("exchange") == exchange
            && keys == Some(expected_keys.iter().collect())
            && event.get("original-expiration") == expiration.as_ref();
        if !fits {
            return Err(format!("its x-death has {event:?}"));
        }
        deaths.push(DeathRecord { origin, reason: word("reason").to_owned() });
        // From then on it has the dead-letter routing key, and was published to the default exchange.
        let dead = model.queues[origin].traits.dead.ok_or("its queue has no dead-letter exchange")?;
        (exchange, expiration) = ("", None);
        expected_keys = vec![Value::text(&model.queues[dead].name)];
    }
    let ends = [
        ("first", deaths.first(), &*first_exchange),
        ("last", deaths.last(), if deaths.len() > 1 { "" } else { &first_exchange }),
    ];
    for (which, death, exchange) in ends {
        let Some(death) = death else { continue };
        let queue = &*model.queues[death.origin].name;
        for (name, value) in [("queue", queue), ("reason", &*death.reason), ("exchange", exchange)] {
            let header = headers.remove(&format!("x-{which}-death-{name}"));
            if header.as_ref().and_then(Value::as_str) != Some(value) {
                return Err(format!("x-{which}-death-{name} is {header:?}"));
            }
        }
    }
    // With a dead-letter routing key, further routing keys are removed.
    if headers.remove("CC").is_some() {
        return Err("it has further routing keys".into());
    }
    if let Some(table) = &mut before.headers {
        table.remove("CC");
    }
    let kept = without_empty(Properties { headers: Some(headers), ..properties });
    if kept != without_empty(Properties { expiration: None, ..before }) {
        return Err(format!("its properties became {kept:?}"));
    }
    Ok(deaths)
}

impl DeliveryChecker<'_> {
    /// A queue delivered a dead letter: each queue on its path had a reason to dead-letter it, and the next is its target.
    pub fn check_deaths(
        &mut self,
        queue: usize,
        dead_letter: &IdentifiedMessage,
        received: &ReceivedMessage,
    ) -> Result<(), String> {
        self.world.tally.dead += 1;
        self.world.tally.chained += u64::from(dead_letter.deaths.len() > 1);
        if received.routing_key != self.model.queues[queue].name.as_bytes() {
            return Err("its routing key is not its queue's name".into());
        }
        let mut copy = number_of(dead_letter.copy);
        for (at, DeathRecord { origin, reason }) in dead_letter.deaths.iter().enumerate() {
            let (known, next) =
                (&self.model.queues[*origin], dead_letter.deaths.get(at + 1).map_or(queue, |death| death.origin));
            // A name may belong to a new queue by now.
            let target = known.traits.dead.map(|dead| &self.model.queues[dead].name);
            if target != Some(&self.model.queues[next].name) {
                return Err(format!("the dead letters of {} do not go there", known.name));
            }
            let message = &self.model.messages[&number_of(copy)];
            let routed = message.routed.unwrap_or(self.model.now);
            if at == 0 && !self.model.routes(message, routed, false).contains(origin) {
                return Err(format!("it was never routed to {}", known.name));
            }
            let delivery = known.deliveries.get(&copy);
            let certainty = Certainty::of(self.world, self.model);
            let is_fair = match &**reason {
                "expired" => certainty.may_have_expired(known, copy),
                "maxlen" => known.traits.length.is_some() && (!known.traits.refuses || known.traits.refuses_to_dead),
                "rejected" => delivery.is_some_and(|delivery| delivery.rejected),
                "delivery_limit" => certainty.may_exceed_delivery_limit(*origin, copy),
                _ => false,
            };
            if !is_fair {
                return Err(format!("{} had no reason to dead-letter it for '{reason}'", known.name));
            }
            // What the queue had not stored of it before a crash may have come again.
            let delivery = delivery.filter(|_| !self.model.is_before_crash(copy));
            if let Some(delivery) = delivery {
                if delivery.settled == SettlementProgress::Proven && !delivery.rejected {
                    return Err(format!("it was settled in {}", known.name));
                }
                if let Some(holder) = delivery.holder.filter(|&holder| certainty.is_certain(holder)) {
                    return Err(format!("channel {holder} has it from {}", known.name));
                }
            }
            self.world.tally.worn += u64::from(reason == "delivery_limit");
            copy = self.model.paths.copy(copy, *origin);
        }
        Ok(())
    }

    /// The delivery count of a message is within the limit, and no count is delivery twice, although deliveries may overtake each
    /// other.
    pub fn check_returns(&mut self, queue: usize, copy: u64, returns: i64, flag: bool) -> Result<(), String> {
        let (is_before_crash, may_be_doubled) = (self.model.is_before_crash(copy), self.model.may_be_doubled(copy));
        let known = &mut self.model.queues[queue];
        let Some(limit) = known.traits.delivery_limit else { return Ok(()) };
        if !(0..=i64::from(limit)).contains(&returns) {
            return Err(format!("it was returned {returns} times, and the limit is {limit}"));
        }
        // A crash is no return, and yet the message is redelivered.
        if (returns > 0) != flag && !(is_before_crash && flag) {
            return Err(format!("it was returned {returns} times, and is flagged: {flag}"));
        }
        let (delivery, bit) = (known.deliveries.entry(copy).or_default(), 1 << returns);
        // Each of two letters has a count of its own.
        if delivery.returns & bit != 0 && !may_be_doubled {
            return Err(format!("it was returned {returns} times, and an earlier delivery has the same count"));
        }
        delivery.returns |= bit;
        Ok(())
    }
}

fn decode(properties: &[u8]) -> Result<Properties, String> {
    RawProperties::new(properties).to_properties().map_err(|error| error.to_string())
}

/// An empty table of headers means the same as none.
fn without_empty(mut properties: Properties) -> Properties {
    properties.headers = properties.headers.filter(|headers: &Table| !headers.is_empty());
    properties
}

#[cfg(test)]
mod tests {
    use super::{DeadLetterPaths, number_of};
    use crate::features::delivery_checks::{DeliveryChecker, Suspicions};
    use crate::features::shadow_model::{ShadowMessage, ShadowModel};
    use crate::settings::{Mode, Settings};
    use crate::world::SimulatedWorld;

    #[test]
    fn no_count_comes_twice_but_of_a_letter_that_a_crash_may_have_doubled() {
        let mut world = SimulatedWorld::new(Settings::of(Mode::Features, 1), false);
        let mut model = ShadowModel::new(true);
        let queue = model.add_queue("q".into(), None, false);
        model.queues[queue].traits.delivery_limit = Some(3);
        let mut counts = |model: &mut ShadowModel, copy| {
            let mut suspicions = Suspicions::default();
            let mut checker = DeliveryChecker { world: &mut world, model, suspicions: &mut suspicions };
            [0, 0].map(|returns| checker.check_returns(queue, copy, returns, false).is_ok())
        };
        model.messages.extend((1..=4).map(|id| (id, ShadowMessage { sent: 5, ..ShadowMessage::example(7) })));
        let letter = |model: &mut ShadowModel, id| model.paths.copy(id, queue);
        let before = letter(&mut model, 1);
        assert_eq!((counts(&mut model, before), counts(&mut model, 2)), ([true, false], [true, false]));
        model.crashed = 5;
        let after = letter(&mut model, 3);
        assert_eq!((counts(&mut model, after), counts(&mut model, 4)), ([true, true], [true, false]));
    }

    #[test]
    fn a_copy_leads_back_to_its_message() {
        let mut paths = DeadLetterPaths::default();
        let first = paths.copy(7, 3);
        let second = paths.copy(first, 5);
        assert_eq!((number_of(second), paths.copy(7, 3), paths.copy(first, 5)), (7, first, second));
        assert_eq!(
            (paths.before(second), paths.before(first), paths.before(7)),
            (Some((first, 5)), Some((7, 3)), None)
        );
        assert_ne!(paths.copy(8, 3), first);
        assert_eq!(paths.before(paths.known[&(0, 3)] << 40 | 9), Some((9, 3)));
    }
}
