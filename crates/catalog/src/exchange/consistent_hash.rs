//! Consistent-hash exchange (RabbitMQ's `x-consistent-hash`): one destination a message, by a hash, in proportion to weights.
//!
//! Enters: bindings whose keys are weights; what a message is hashed by.  Leaves: the one binding that gets it.
//! Owns:   the seats of one exchange, one a destination; the meaning of `hash-header` and `hash-property`; a draw that can stop
//! after any seat and go on.
//!
//! For a key every seat draws a lot, from the hash of both alone, and the best lot wins (weighted rendezvous hashing): a seat
//! that comes or goes takes or leaves its own share and moves no other message. With u even between 0 and 1, -ln u / weight is
//! least in proportion to the weights. Seats of equal weight need no logarithm: the highest draw among them is the best.

use crate::{
    arguments::{HASH_HEADER, HASH_PROPERTY, long_string, term},
    binding::{BindingList, BindingTable, BindingTarget, ListHead, NONE},
    copy_budget::CopyBudget,
    heap::allocated,
    limits::WEIGHT_MAX,
    refusal::{Refusal, ResourceName},
    segmented_table::SegmentedTable,
};
use foldhash::fast::FixedState;
use splitmix::mix;
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use wire::{RawProperties, Table, Value, ValueRef};

/// What of a message decides.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HashOn {
    RoutingKey,
    Header(Box<[u8]>),
    MessageId,
    CorrelationId,
    Timestamp,
}

/// Seats that draw in one unit of work.
const POINTS_A_UNIT: usize = 16;
/// The same while something is being removed: where each leads is looked at.
const POINTS_A_UNIT_OF_REMOVALS: usize = 1;

/// A binding, as it draws.
#[derive(Clone)]
struct HashPoint {
    hash: u64,
    binding: u32,
}

/// Seats of a weight that are filled to less than this part of their memory, one eighth, give some back.
const SPARSE_DIVISOR: usize = 8;

/// The newest binding to a destination.
#[derive(Clone)]
struct NewestBinding {
    target: BindingTarget,
    binding: u32,
}

/// How far the seats of an exchange have drawn for one message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HashCursor {
    is_begun: bool,
    /// The changes of the seats before it began: after another one it begins anew.
    changes: u64,
    /// How often it has begun anew.
    pub restarts: u32,
    /// What decides, as a number.
    key: u64,
    /// The weight of the seats whose turn it is, or less, and the seat among them.
    weight: u32,
    at: usize,
    /// The best draw of these seats so far, and its binding.
    row_best: Option<(u64, u32)>,
    /// The best of those before: how long it waits, and its binding.
    best: Option<(f64, u32)>,
}

impl HashCursor {
    pub fn clear(&mut self) {
        self.is_begun = false;
    }
}

/// Bytes of the seats of one weight beside the seats: an entry of a tree whose nodes are two thirds full.
const ROW_BYTES: usize = (size_of::<u32>() + size_of::<Vec<HashPoint>>()) * 3 / 2;

/// The seats of one exchange.
#[derive(Clone)]
pub(crate) struct HashRing {
    on: HashOn,
    /// By weight. There may be as many weights as seats.
    rows: BTreeMap<u32, Vec<HashPoint>>,
    /// The newest binding to each destination; the others are behind it, `BindingList::Alike`. The oldest one has the seat.
    newest: SegmentedTable<NewestBinding>,
    hash: FixedState,
    /// Seats that have come or gone.
    changes: u64,
    /// Bytes of the rows.
    rows_bytes: usize,
}

/// The weight that a binding key says, as Erlang reads numbers.
pub(crate) fn weight(key: &[u8]) -> Result<u32, Refusal> {
    let (negative, digits) = match key {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        let key = term(&Value::LongStr(key.into()));
        return Err(Refusal::precondition(format_args!("The binding key must be an integer: {key}")));
    }
    let number = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    match digits.iter().fold(0, number) {
        0 => Err(Refusal::precondition("The binding key must be greater than 0")),
        _ if negative => Err(Refusal::precondition("The binding key must be greater than 0")),
        weight => match u32::try_from(weight) {
            Ok(weight) if weight <= WEIGHT_MAX => Ok(weight),
            _ => Err(Refusal::precondition(format_args!("The binding key must be {WEIGHT_MAX} at most"))),
        },
    }
}

impl HashRing {
    /// One without seats, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let HashRing { changes, rows_bytes, .. } = *self;
        let (on, newest, hash) = (self.on.clone(), self.newest.begin_copy(), self.hash.clone());
        Self { on, rows: BTreeMap::new(), newest, hash, changes, rows_bytes }
    }

    /// Copies more seats. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        // The last row that was begun may not be whole.
        let from = copy.rows.last_key_value().map_or(0, |(&weight, _)| weight);
        for (&weight, row) in self.rows.range(from..) {
            let copied = copy.rows.entry(weight).or_default();
            let before = copied.len();
            if !budget.copy_values(row, copied) {
                return false;
            }
            if copied.len() > before {
                budget.draw(ROW_BYTES);
            }
        }
        self.newest.copy_part(&mut copy.newest, budget)
    }

    /// Of a new exchange.
    pub fn new(what: ResourceName<'_>, arguments: &Table, hash_seed: u64) -> Result<Self, Refusal> {
        let header = long_string(what, arguments, HASH_HEADER)?;
        let on = match (header, long_string(what, arguments, HASH_PROPERTY)?) {
            (None, None) => HashOn::RoutingKey,
            (Some(header), None) => HashOn::Header(header.into()),
            (None, Some(b"message_id")) => HashOn::MessageId,
            (None, Some(b"correlation_id")) => HashOn::CorrelationId,
            (None, Some(b"timestamp")) => HashOn::Timestamp,
            (None, Some(other)) => {
                let other = String::from_utf8_lossy(other);
                return Err(Refusal::precondition(format_args!("Unsupported property: {other}")));
            }
            (Some(_), Some(_)) => {
                return Err(Refusal::precondition("hash-header and hash-property are mutually exclusive"));
            }
        };
        let (newest, hash) = (SegmentedTable::default(), FixedState::with_seed(hash_seed));
        Ok(Self { on, rows: BTreeMap::new(), newest, hash, changes: 0, rows_bytes: 0 })
    }

    /// Whether the routing key alone decides.
    #[inline]
    pub fn is_by_key(&self) -> bool {
        self.on == HashOn::RoutingKey
    }

    pub fn bytes(&self) -> usize {
        allocated(size_of::<Self>()) + self.rows_bytes + self.newest.allocation_size()
    }

    /// Puts a new binding with those to its destination. Answers whether it is to be seated: it is the only one.
    pub fn link(&mut self, bindings: &mut BindingTable, binding: u32) -> bool {
        let target = bindings.get(binding).target;
        let Self { newest, hash, .. } = self;
        let hash_of = |newest: &NewestBinding| hash.hash_one(newest.target);
        let key = hash.hash_one(target);
        let known = newest.find_mut(key, |newest| newest.target == target);
        let mut head = ListHead(known.as_ref().map_or(NONE, |newest| newest.binding));
        bindings.link(BindingList::Alike, &mut head, binding);
        match known {
            Some(newest) => {
                newest.binding = head.0;
                false
            }
            None => {
                newest.insert_unique(key, NewestBinding { target, binding: head.0 }, hash_of);
                true
            }
        }
    }

    /// Takes a binding away from those to its destination, with its seat if it has one. Answers with the binding that is to
    /// be seated instead: the oldest that is left, as in RabbitMQ 3.10.
    pub fn unlink(&mut self, bindings: &mut BindingTable, binding: u32) -> Option<u32> {
        let target = bindings.get(binding).target;
        let key = self.hash.hash_one(target);
        let Some(newest) = self.newest.find_mut(key, |newest| newest.target == target) else {
            unreachable!("every binding is with those to its destination")
        };
        // The oldest is the last of the list.
        let heir = bindings.previous(BindingList::Alike, binding);
        let mut head = ListHead(newest.binding);
        bindings.unlink(BindingList::Alike, &mut head, binding);
        newest.binding = head.0;
        if head == ListHead::default() {
            let hash = &self.hash;
            self.newest.remove(key, |newest| newest.target == target, |newest| hash.hash_one(newest.target));
        }
        if self.remove(bindings, binding) { heir } else { None }
    }

    /// Seats a binding: the only one to its destination, whose hash is [`hash_destination`].
    pub fn add(&mut self, bindings: &mut BindingTable, binding: u32, destination: u64) {
        let Ok(weight) = weight(bindings.key(binding)) else {
            unreachable!("weights are checked before they are bound")
        };
        let points = self.rows.entry(weight).or_insert_with(|| {
            self.rows_bytes += ROW_BYTES;
            Vec::new()
        });
        self.changes += 1;
        bindings.set_node(binding, points.len() as u32);
        let before = points.capacity();
        points.push(HashPoint { hash: destination, binding });
        self.rows_bytes += (points.capacity() - before) * size_of::<HashPoint>();
    }

    /// Takes a binding's seat away. Answers whether it had one.
    fn remove(&mut self, bindings: &mut BindingTable, binding: u32) -> bool {
        let at = bindings.get(binding).node;
        if at == NONE {
            return false;
        }
        let weight = weight(bindings.key(binding)).unwrap_or_default();
        let Some(points) = self.rows.get_mut(&weight) else { unreachable!("a binding is seated by its weight") };
        debug_assert_eq!(points[at as usize].binding, binding, "a binding knows its seat");
        self.changes += 1;
        points.swap_remove(at as usize);
        if let Some(moved) = points.get(at as usize) {
            bindings.set_node(moved.binding, at);
        }
        let before = points.capacity();
        if points.len() < before / SPARSE_DIVISOR {
            points.shrink_to(2 * points.len());
            self.rows_bytes -= (before - points.capacity()) * size_of::<HashPoint>();
        }
        if points.is_empty() {
            self.rows_bytes -= points.capacity() * size_of::<HashPoint>() + ROW_BYTES;
            self.rows.remove(&weight);
        }
        true
    }

    /// Where a message goes, by the bindings that stay, and whether that is decided: otherwise the cursor has where the draw goes on
    /// once so much work is done, some of it in any case. Adds to the work.
    pub fn route(
        &self,
        bindings: &BindingTable,
        (routing_key, properties): (&[u8], RawProperties<'_>),
        (all_stay, stays): (bool, impl Fn(u32) -> bool),
        (cursor, work_max): (&mut HashCursor, u64),
        work: &mut u64,
    ) -> (Option<BindingTarget>, bool) {
        // What has the best draw so far may have begun to leave since.
        let mut drawn =
            cursor.best.iter().map(|(_, binding)| binding).chain(cursor.row_best.iter().map(|(_, binding)| binding));
        if !cursor.is_begun || cursor.changes != self.changes || !drawn.all(|&binding| stays(binding)) {
            let restarts = cursor.restarts + u32::from(cursor.is_begun);
            let key = self.key(routing_key, properties);
            *cursor = HashCursor { is_begun: true, changes: self.changes, restarts, key, ..HashCursor::default() };
        }
        let points_a_unit = if all_stay { POINTS_A_UNIT } else { POINTS_A_UNIT_OF_REMOVALS };
        let work_end = work.saturating_add(work_max);
        let mut any = false;
        for (&weight, row) in self.rows.range(cursor.weight..) {
            if weight > cursor.weight {
                (cursor.weight, cursor.at, cursor.row_best) = (weight, 0, None);
            }
            if !any || *work < work_end {
                *work += 1;
            }
            while cursor.at < row.len() {
                if any && *work >= work_end {
                    return (None, false);
                }
                any = true;
                let units = work_end.saturating_sub(*work).max(1) as usize;
                let points = &row[cursor.at..][..units.saturating_mul(points_a_unit).min(row.len() - cursor.at)];
                cursor.at += points.len();
                *work += (points.len() / points_a_unit) as u64;
                let points = points.iter().filter(|point| stays(point.binding));
                let draws = points.map(|point| (mix(point.hash ^ cursor.key), point.binding));
                let best = cursor.row_best.into_iter().chain(draws).max_by_key(|&(draw, _)| draw);
                cursor.row_best = best;
            }
            if let Some((draw, binding)) = cursor.row_best {
                let wait = -even(draw).ln() / f64::from(weight);
                if cursor.best.is_none_or(|(least, _)| wait < least) {
                    cursor.best = Some((wait, binding));
                }
            }
            (cursor.weight, cursor.at, cursor.row_best) = (weight + 1, 0, None);
        }
        (cursor.best.map(|(_, binding)| bindings.get(binding).target), true)
    }

    /// What decides, as a number. All messages that lack it are alike.
    fn key(&self, routing_key: &[u8], properties: RawProperties<'_>) -> u64 {
        match &self.on {
            HashOn::RoutingKey => hash(routing_key),
            HashOn::Header(name) => {
                let mut headers = properties.headers().unwrap_or_default().iter().map_while(Result::ok);
                headers.find(|(found, _)| found.as_bytes() == &**name).map_or(0, |(_, value)| hash_value(value))
            }
            HashOn::MessageId => properties.message_id().map_or(0, |id| hash(id.as_bytes())),
            HashOn::CorrelationId => properties.correlation_id().map_or(0, |id| hash(id.as_bytes())),
            HashOn::Timestamp => properties.timestamp().map_or(0, |seconds| hash(&seconds.to_be_bytes())),
        }
    }
}

/// The hash of a destination's name; queues and exchanges may have the same one.
pub(crate) fn hash_destination(name: &str, is_queue: bool) -> u64 {
    hash(name.as_bytes()) ^ u64::from(is_queue)
}

/// A header by what it means: a number is the same in whatever type a client sends it.
fn hash_value(value: ValueRef<'_>) -> u64 {
    if let Some(bytes) = value.as_bytes() {
        return hash(bytes);
    }
    if let Some(number) = value.as_i64() {
        return hash(&number.to_be_bytes());
    }
    match value {
        ValueRef::Bool(truth) => hash(&[truth.into()]),
        ValueRef::F32(number) => hash(&f64::from(number).to_be_bytes()),
        ValueRef::F64(number) => hash(&number.to_be_bytes()),
        ValueRef::Decimal(number) => mix(hash(&number.value.to_be_bytes()) ^ u64::from(number.scale)),
        ValueRef::Timestamp(seconds) => hash(&seconds.to_be_bytes()),
        ValueRef::List(list) => hash(list.as_bytes()),
        ValueRef::Table(table) => hash(table.as_bytes()),
        _ => 0,
    }
}

/// The same for the same bytes, on every machine.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum = words.iter().fold(bytes.len() as u64 + 1, |sum, word| mix(sum ^ u64::from_le_bytes(*word)));
    mix(sum.rotate_left(32) ^ u64::from_le_bytes(last))
}

/// A draw as a number above 0, at most 1.
fn even(draw: u64) -> f64 {
    const STEPS: f64 = (1_u64 << 53) as f64;
    ((draw >> 11) as f64 + 0.5) / STEPS
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn what_is_a_weight() {
        let integer = "PRECONDITION_FAILED - The binding key must be an integer: ";
        let positive = "PRECONDITION_FAILED - The binding key must be greater than 0";
        for (key, expect) in [
            ("1", Ok(1)),
            ("+20", Ok(20)),
            ("007", Ok(7)),
            ("1000000000", Ok(1_000_000_000)),
            ("0", Err(positive.to_owned())),
            ("-0", Err(positive.to_owned())),
            ("-3", Err(positive.to_owned())),
            ("", Err(format!("{integer}<<>>"))),
            ("-", Err(format!("{integer}<<\"-\">>"))),
            ("1.5", Err(format!("{integer}<<\"1.5\">>"))),
            (" 1", Err(format!("{integer}<<\" 1\">>"))),
            ("ten", Err(format!("{integer}<<\"ten\">>"))),
            ("zehn ü", Err(format!("{integer}<<\"zehn ü\">>"))),
            ("a\"b\\c", Err(format!("{integer}<<\"a\\\"b\\\\c\">>"))),
            ("1\n", Err(format!("{integer}<<\"1\\n\">>"))),
            ("1\0", Err(format!("{integer}<<49,0>>"))),
            ("1000000001", Err("PRECONDITION_FAILED - The binding key must be 1000000000 at most".to_owned())),
            (
                "99999999999999999999999",
                Err("PRECONDITION_FAILED - The binding key must be 1000000000 at most".to_owned()),
            ),
        ] {
            assert_eq!(weight(key.as_bytes()).map_err(|refusal| refusal.text), expect, "{key}");
        }
    }
}
