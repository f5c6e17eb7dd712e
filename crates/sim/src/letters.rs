//! Messages that leave a queue without a consumer: why they may, and where they must be then.
//!
//! Enters: messages that came, with the deaths in their headers.  Leaves: the number of a copy; whether each death was fair.
//! Owns:   the ways that dead letters take from queue to queue, and what excuses a message that nobody got.
//! Never:  guesses when exactly a time is over: it knows when it cannot be.

use crate::client::Came;
use crate::model::{Fate, Model, Queue, Settled};
use crate::run::Run;
use std::collections::{BTreeSet, HashMap};
use wire::{Properties, RawProperties, Table, Value};

/// Bits of a message's number; above them is the way of a dead letter.
const NUMBER_BITS: u32 = 40;

/// The number of the message behind a copy's.
pub(crate) fn number_of(copy: u64) -> u64 {
    copy & ((1 << NUMBER_BITS) - 1)
}

/// The ways of dead letters: each is another one, or none, and the queue that gave it up at its end. A way's number is its
/// place here and one; zero is none.
#[derive(Default)]
pub struct Ways {
    list: Vec<(u64, usize)>,
    known: HashMap<(u64, usize), u64>,
}

impl Ways {
    /// The number of a copy that another one, or a message, becomes when this queue gives it up.
    pub fn copy(&mut self, before: u64, origin: usize) -> u64 {
        let way = before >> NUMBER_BITS;
        let next = self.list.len() as u64 + 1;
        let way = *self.known.entry((way, origin)).or_insert(next);
        if way == next {
            self.list.push((before >> NUMBER_BITS, origin));
        }
        number_of(before) | way << NUMBER_BITS
    }

    /// What a copy was before, and the queue that gave that up; `None` if it is the message itself.
    pub fn before(&self, copy: u64) -> Option<(u64, usize)> {
        let place = (copy >> NUMBER_BITS).checked_sub(1)?;
        let &(way, origin) = self.list.get(place as usize)?;
        Some((number_of(copy) | way << NUMBER_BITS, origin))
    }
}

/// One death, as the headers tell it.
pub(crate) struct Death {
    origin: usize,
    reason: String,
}

/// What came, understood.
pub(crate) struct Letter {
    /// The number of the message, or of the copy.
    pub copy: u64,
    /// Its deaths, the first of them first.
    pub deaths: Vec<Death>,
    /// How often it had come back to its queue, if the queue counts that.
    pub returns: Option<i64>,
}

impl Model {
    /// Whether a copy is a message as it was published.
    pub fn is_original(&self, copy: u64) -> bool {
        self.ways.before(copy).is_none()
    }

    /// A queue to which a publish may have been refused.
    pub fn may_be_declined(&self, id: u64) -> bool {
        let Some(message) = self.messages.get(&id) else { return false };
        self.reach(message, self.now, false).iter().any(|&queue| self.queues[queue].traits.refuses)
    }

    /// The broker said that a queue has no room for a message.
    pub fn is_declined(&mut self, id: u64) -> Result<(), String> {
        if !self.may_be_declined(id) {
            return Err(format!("message {id} was refused, and no queue that it goes to refuses any"));
        }
        let now = self.now;
        if let Some(message) = self.messages.get_mut(&id) {
            (message.fate, message.routed) = (Fate::Unknown, Some(now));
            message.declined = true;
        }
        Ok(())
    }

    /// Whether a queue surely refused a message: it was refused, and can go to no other that refuses.
    pub fn is_refused_by(&self, queue: usize, id: u64) -> bool {
        let message = &self.messages[&id];
        let may = || self.reach(message, message.routed.unwrap_or(self.now), false);
        message.declined
            && self.queues[queue].traits.refuses
            && may().into_iter().filter(|&other| self.queues[other].traits.refuses).collect::<BTreeSet<_>>().len() == 1
    }

    /// The broker has heard that a message of a queue is not wanted: its dead letter is owed, where there is room for it.
    pub fn has_died(&mut self, origin: usize, id: u64) {
        // A queue that is deleted leaves no dead letters.
        if let Some(dead) = self.queues[origin].traits.dead
            && self.queues[origin].life.ending.is_none()
        {
            let copy = self.ways.copy(id, origin);
            let queue = &mut self.queues[dead];
            if !queue.seen.contains_key(&copy) && queue.life.ending.is_none() && !queue.traits.refuses {
                queue.owed.insert(copy);
            }
        }
    }
}

impl Run {
    /// What came, if it is what was published under its number, or a dead letter of that. `queue`: where it comes from.
    pub(crate) fn understand(&mut self, id: u64, queue: Option<usize>, came: &Came) -> Result<Letter, String> {
        let message = &self.model.messages[&id];
        let counts = queue.is_some_and(|queue| self.model.queues[queue].traits.delivery_limit.is_some());
        let addressed = came.exchange == self.model.exchanges[message.exchange].name.as_bytes()
            && came.routing_key == message.key.as_bytes();
        let same_body = || came.body == crate::deeds::body_of(id, message.body_bytes);
        if !counts && addressed && came.properties == message.properties && same_body() {
            return Ok(Letter { copy: id, deaths: Vec::new(), returns: None });
        }
        let mut properties = understood(&came.properties)?;
        let before = understood(&message.properties)?;
        let count =
            properties.headers.as_mut().filter(|_| counts).and_then(|headers| headers.remove("x-delivery-count"));
        let returns = match (counts, count) {
            (false, _) => None,
            (true, None) => Some(0),
            (true, Some(count)) => Some(count.as_i64().ok_or_else(|| format!("it came back {count:?} times"))?),
        };
        if addressed && without_empty(properties.clone()) == without_empty(before.clone()) && same_body() {
            return Ok(Letter { copy: id, deaths: Vec::new(), returns });
        }
        let deaths = self.deaths(id, before, properties)?;
        if !came.exchange.is_empty() || !same_body() {
            return Err("its body or its exchange is another".into());
        }
        let copy = deaths.iter().fold(id, |copy, death| self.model.ways.copy(copy, death.origin));
        Ok(Letter { copy, deaths, returns })
    }

    /// The deaths that a message's headers tell of, if it is otherwise what it was.
    fn deaths(&self, id: u64, mut before: Properties, properties: Properties) -> Result<Vec<Death>, String> {
        let message = &self.model.messages[&id];
        let mut headers = properties.headers.clone().unwrap_or_default();
        let events = headers.remove("x-death");
        let events = events.as_ref().and_then(Value::as_list).map(|list| list.iter().collect::<Vec<_>>());
        let events = events.filter(|events| !events.is_empty()).ok_or("it has no death in its headers")?;
        let first_exchange = self.model.exchanges[message.exchange].name.clone();
        let mut expected_keys: Vec<Value> =
            std::iter::once(&message.key).chain(&message.copies[0]).map(|key| Value::text(key)).collect();
        let mut expiration = before.expiration.as_ref().map(|text| Value::LongStr(text.as_bytes().into()));
        let mut exchange = &*first_exchange;
        let mut deaths = Vec::new();
        // The last is written first.
        for event in events.iter().rev() {
            let event = event.as_table().ok_or("one of its deaths is no table")?;
            let word = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or("?");
            let origin = self.model.queues.iter().position(|queue| queue.name == word("queue"));
            let origin = origin.ok_or_else(|| format!("it died in '{}', which is no queue", word("queue")))?;
            let keys = event.get("routing-keys").and_then(Value::as_list).map(|keys| keys.iter().collect::<Vec<_>>());
            let fits = event.get("count").and_then(Value::as_i64) == Some(1)
                && word("exchange") == exchange
                && keys == Some(expected_keys.iter().collect())
                && event.get("original-expiration") == expiration.as_ref();
            if !fits {
                return Err(format!("its death says {event:?}"));
            }
            deaths.push(Death { origin, reason: word("reason").to_owned() });
            // What it dies of next it does under the key of its letters, by the exchange without a name.
            let dead = self.model.queues[origin].traits.dead.ok_or("its queue sends no letters")?;
            (exchange, expiration) = ("", None);
            expected_keys = vec![Value::text(&self.model.queues[dead].name)];
        }
        let ends = [
            ("first", deaths.first(), &*first_exchange),
            ("last", deaths.last(), if deaths.len() > 1 { "" } else { &first_exchange }),
        ];
        for (which, death, exchange) in ends {
            let Some(death) = death else { continue };
            let queue = &*self.model.queues[death.origin].name;
            for (name, value) in [("queue", queue), ("reason", &*death.reason), ("exchange", exchange)] {
                let header = headers.remove(&format!("x-{which}-death-{name}"));
                if header.as_ref().and_then(Value::as_str) != Some(value) {
                    return Err(format!("x-{which}-death-{name} is {header:?}"));
                }
            }
        }
        // Its letters have a key of their own, so the others are taken off.
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

    /// A dead letter came from a queue: each queue on its way had a reason to give it up, and sends its letters to the next.
    pub(crate) fn check_deaths(&mut self, queue: usize, letter: &Letter, came: &Came) -> Result<(), String> {
        self.tally.dead += 1;
        self.tally.chained += u64::from(letter.deaths.len() > 1);
        if came.routing_key != self.model.queues[queue].name.as_bytes() {
            return Err("the key of a letter is another".into());
        }
        let mut copy = number_of(letter.copy);
        for (at, Death { origin, reason }) in letter.deaths.iter().enumerate() {
            let (known, next) =
                (&self.model.queues[*origin], letter.deaths.get(at + 1).map_or(queue, |death| death.origin));
            // A name may have a new queue by now.
            let grave = known.traits.dead.map(|dead| &self.model.queues[dead].name);
            if grave != Some(&self.model.queues[next].name) {
                return Err(format!("the letters of {} do not go there", known.name));
            }
            let message = &self.model.messages[&number_of(copy)];
            let routed = message.routed.unwrap_or(self.model.now);
            if at == 0 && !self.model.reach(message, routed, false).contains(origin) {
                return Err(format!("nothing led it to {}", known.name));
            }
            let seen = known.seen.get(&copy);
            let fair = match &**reason {
                "expired" => self.may_have_expired(known, copy),
                "maxlen" => known.traits.length.is_some() && (!known.traits.refuses || known.traits.refuses_to_dead),
                "rejected" => seen.is_some_and(|seen| seen.rejected),
                "delivery_limit" => self.may_be_worn(*origin, copy),
                _ => false,
            };
            if !fair {
                return Err(format!("its reason '{reason}' is none in {}", known.name));
            }
            if let Some(seen) = seen {
                if seen.settled == Settled::Heard && !seen.rejected {
                    return Err(format!("it was settled in {}", known.name));
                }
                if let Some(holder) = seen.holder.filter(|&holder| self.is_certain(holder)) {
                    return Err(format!("channel {holder} has it from {}", known.name));
                }
            }
            self.tally.worn += u64::from(reason == "delivery_limit");
            copy = self.model.ways.copy(copy, *origin);
        }
        Ok(())
    }

    /// What came says how often it had come back: never too often, and each time once more, though what was sent first may
    /// come last.
    pub(crate) fn check_returns(&mut self, queue: usize, copy: u64, returns: i64, flag: bool) -> Result<(), String> {
        let known = &mut self.model.queues[queue];
        let Some(limit) = known.traits.delivery_limit else { return Ok(()) };
        if !(0..=i64::from(limit)).contains(&returns) {
            return Err(format!("it came back {returns} times, and the limit is {limit}"));
        }
        if (returns > 0) != flag {
            return Err(format!("it came back {returns} times, and is flagged: {flag}"));
        }
        let (seen, bit) = (known.seen.entry(copy).or_default(), 1 << returns);
        if seen.returns & bit != 0 {
            return Err(format!("it came back {returns} times, and so it had when it came before"));
        }
        seen.returns |= bit;
        Ok(())
    }

    /// Whether a message may have come back to a queue more often than that allows.
    fn may_be_worn(&self, at: usize, copy: u64) -> bool {
        let queue = &self.model.queues[at];
        let Some(limit) = queue.traits.delivery_limit else { return false };
        queue.seen.get(&copy).is_some_and(|seen| seen.times > limit) || self.is_blind(at)
    }

    /// Whether somebody may have got messages of a queue, and given them back, without knowing it.
    fn is_blind(&self, at: usize) -> bool {
        let mut channels = self.actors.iter().flat_map(|actor| &actor.channels);
        self.model.queues[at].blind || channels.any(|channel| channel.may_get_from(at) && !self.is_certain(channel.uid))
    }

    /// Whether the time of a message in a queue may be over. A dead letter has no time of its own any more.
    fn may_have_expired(&self, queue: &Queue, copy: u64) -> bool {
        let message = &self.model.messages[&number_of(copy)];
        let own_us = message.expiration_us.filter(|_| self.model.is_original(copy));
        let life_us = queue.traits.ttl_us.into_iter().chain(own_us).min();
        life_us.is_some_and(|life_us| message.sent_us + life_us <= self.world.us())
    }

    /// Whether a queue need not have delivered a message: it had a reason to give it up, and if its dead letters go
    /// somewhere, it is there, or that queue had a reason.
    pub(crate) fn is_excused(&mut self, at: usize, copy: u64) -> bool {
        let queue = &self.model.queues[at];
        let traits = queue.traits;
        // Nobody hears that a dead letter was refused.
        let refused = traits.refuses && !self.model.is_original(copy);
        let crowded = traits.length.is_some() && !traits.refuses;
        if !(refused || crowded || self.may_have_expired(queue, copy) || self.may_be_worn(at, copy)) {
            return false;
        }
        let Some(dead) = traits.dead.filter(|_| !refused || traits.refuses_to_dead) else { return true };
        let copy = self.model.ways.copy(copy, at);
        let grave = &self.model.queues[dead];
        grave.seen.contains_key(&copy)
            || grave.life.ending.is_some()
            || grave.leaky
            || grave.forgiven > 0
            || self.is_excused(dead, copy)
    }
}

fn understood(properties: &[u8]) -> Result<Properties, String> {
    RawProperties::new(properties).to_properties().map_err(|error| error.to_string())
}

/// A table without entries says as much as none.
fn without_empty(mut properties: Properties) -> Properties {
    properties.headers = properties.headers.filter(|headers: &Table| !headers.is_empty());
    properties
}

#[cfg(test)]
mod tests {
    use super::{Ways, number_of};

    #[test]
    fn a_copy_knows_its_way_back() {
        let mut ways = Ways::default();
        let first = ways.copy(7, 3);
        let second = ways.copy(first, 5);
        assert_eq!((number_of(second), ways.copy(7, 3), ways.copy(first, 5)), (7, first, second));
        assert_eq!((ways.before(second), ways.before(first), ways.before(7)), (Some((first, 5)), Some((7, 3)), None));
        assert_ne!(ways.copy(8, 3), first);
        assert_eq!(ways.before(ways.known[&(0, 3)] << 40 | 9), Some((9, 3)));
    }
}
