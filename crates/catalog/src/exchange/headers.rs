//! Headers exchange: the headers of a message against the arguments of the bindings.
//!
//! Enters: the message's headers.  Leaves: the bindings that they satisfy.
//! Owns:   the meaning of `x-match` (AMQP 0-9-1 §3.1.3.4; `all-with-x` and `any-with-x` are RabbitMQ's), and one index over
//!         the bindings of all headers exchanges.
//!
//! A message looks at the bindings that ask for one of its headers, name and value. Where an exchange has few bindings,
//! these are looked at instead. Either way an exchange costs the headers of the message and of its bindings at most.

mod agreement;
mod message_headers;
mod posting_lists;

use crate::{
    arguments::{X_BOUND_FROM, X_HARRIER_WINDOW, X_MATCH, term},
    binding::{BindingEntry, BindingList, BindingMark, BindingTable, BindingTarget, ListHead, NONE},
    copy_budget::CopyBudget,
    limits::CatalogLimits,
    refusal::Refusal,
};
use agreement::agrees;
use foldhash::fast::FixedState;
use message_headers::MessageHeaders;
use posting_lists::{PostingLists, PostingMark};
use std::hash::{BuildHasher, Hasher};
use wire::{ShortStr, Table, TableRef, Value, ValueRef};

/// Arguments of a binding that are passed over in one unit of work.
const ARGUMENTS_A_UNIT: usize = 32;

/// How many of a binding's headers must be there.
#[derive(Clone, Copy)]
struct MatchMode {
    all: bool,
    /// Headers whose names begin with `x-` count as well.
    with_x: bool,
}

fn mode(value: Option<&Value>) -> Option<MatchMode> {
    let (all, with_x) = match value {
        None => (true, false),
        Some(Value::LongStr(mode)) => match &**mode {
            b"all" => (true, false),
            b"any" => (false, false),
            b"all-with-x" => (true, true),
            b"any-with-x" => (false, true),
            _ => return None,
        },
        Some(_) => return None,
    };
    Some(MatchMode { all, with_x })
}

impl MatchMode {
    /// Whether a header of this name is asked for. What brokers say of a mirrored binding is no header that anybody asks for.
    fn asks_for(self, name: ShortStr<'_>) -> bool {
        let name = name.as_bytes();
        let is_own = || [X_MATCH, X_BOUND_FROM, X_HARRIER_WINDOW].iter().any(|own| own.as_bytes() == name);
        !name.starts_with(b"x-") || (self.with_x && !is_own())
    }
}

/// Refuses a binding whose `x-match` is none.
pub(crate) fn check(arguments: &Table) -> Result<(), Refusal> {
    let value = arguments.get(X_MATCH);
    if mode(value).is_some() {
        return Ok(());
    }
    Err(match value {
        Some(mode @ Value::LongStr(_)) => Refusal::precondition(format_args!(
            "Invalid x-match field value {}; expected all, any, all-with-x, or any-with-x",
            term(mode)
        )),
        Some(other) => Refusal::precondition(format_args!(
            "Invalid x-match field type {} (value {}); expected longstr",
            other.type_name(),
            term(other)
        )),
        None => unreachable!("without x-match all must match"),
    })
}

/// Where a search goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum HeadersCursor {
    #[default]
    Begin,
    /// All bindings of the exchange are looked at. If this one has gone, it is begun anew.
    Binding(BindingMark),
    /// The list of this number in the order of the message's headers. If its posting has gone, the list is begun anew.
    List(usize, Option<PostingMark>),
}

/// How many headers the bindings of an exchange ask for at most, and how many bindings there are.
pub(crate) fn size_of_binding(bindings: &BindingTable, binding: u32) -> u64 {
    1 + bindings.arguments(binding).map_or(0, |arguments| arguments.len() as u64)
}

/// The bindings of all headers exchanges, by the headers that they ask for.
#[derive(Clone)]
pub(crate) struct HeadersIndex {
    lists: PostingLists,
    message: MessageHeaders,
    hash: FixedState,
}

impl HeadersIndex {
    /// One without bindings, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self { lists: self.lists.begin_copy(), message: MessageHeaders::default(), hash: self.hash.clone() }
    }

    /// Copies more bindings. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        self.lists.copy_part(&mut copy.lists, budget)
    }

    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            lists: PostingLists::default(),
            message: MessageHeaders::default(),
            hash: FixedState::with_seed(limits.hash_seed),
        }
    }

    pub fn bytes(&self) -> usize {
        self.lists.bytes() + self.message.bytes()
    }

    /// The key of the bindings that ask for a header of this value, or, without one, for any value of this name.
    fn key(&self, exchange: u32, name: u64, value: Option<u64>) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write_u32(exchange);
        hasher.write_u64(name);
        hasher.write_u64(value.unwrap_or_default());
        hasher.write_u8(value.is_some().into());
        hasher.finish()
    }

    /// The key of the bindings that ask for nothing.
    fn key_of_all(&self, exchange: u32) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write_u32(exchange);
        hasher.finish()
    }

    /// Indexes a new binding: by each of its headers if one is enough, else by the one for which the fewest others are.
    pub fn add(&mut self, bindings: &mut BindingTable, binding: u32) {
        let source = bindings.get(binding).source;
        let arguments = bindings.arguments(binding);
        let mode = arguments.map_or(mode(None), |arguments| mode(arguments.get(X_MATCH)));
        let Some(mode) = mode else { unreachable!("x-match is checked before it is bound") };
        let entries = arguments.into_iter().flat_map(Table::iter).enumerate();
        let asked = entries.filter(|(_, (name, _))| mode.asks_for(*name)).map(|(entry, (name, value))| {
            let name = message_headers::hash_name(&self.hash, name.as_bytes());
            let value = (*value != Value::Void).then(|| agreement::hash_value(&self.hash, value));
            (self.key(source, name, value), entry as u32)
        });
        let mut asked: Vec<_> = asked.collect();
        let is_whole = !mode.all || asked.len() <= 1;
        if mode.all {
            let all = (self.key_of_all(source), NONE);
            asked = vec![asked.into_iter().min_by_key(|&(key, _)| self.lists.len(key)).unwrap_or(all)];
        }
        let node = if asked.is_empty() { NONE } else { self.lists.add(binding, mode, is_whole, asked) };
        bindings.set_node(binding, node);
    }

    pub fn remove(&mut self, bindings: &BindingTable, binding: u32) {
        let node = bindings.get(binding).node;
        if node != NONE {
            self.lists.remove(node);
        }
    }

    /// Another message comes.
    pub fn begin(&mut self) {
        self.message.clear();
    }

    /// Whether the binding is gone at which a search has stopped: it begins anew then.
    pub fn has_lost(&self, bindings: &BindingTable, cursor: &HeadersCursor) -> bool {
        match *cursor {
            HeadersCursor::Begin | HeadersCursor::List(_, None) => false,
            HeadersCursor::Binding(mark) => bindings.find_mark(mark).is_none(),
            HeadersCursor::List(_, Some(mark)) => self.lists.find(mark, bindings).is_none(),
        }
    }

    /// Appends where the bindings of an exchange lead that the message satisfies, until so much work is done, and looks at as many
    /// as it has read headers in any case. `size` is the sum of [`size_of_binding`]. Answers with the work, and whether all were looked at; if
    /// not, the cursor has where it goes on. A binding may come twice if others have gone since.
    pub fn route(
        &mut self,
        bindings: &BindingTable,
        (exchange, from, size): (u32, ListHead, u64),
        headers: TableRef<'_>,
        (cursor, work_max): (&mut HeadersCursor, u64),
        found: &mut Vec<BindingTarget>,
    ) -> (u64, bool) {
        let work = self.message.read(headers, &self.hash);
        let is_small = match cursor {
            // Each header is looked for twice, as this value and as any value.
            HeadersCursor::Begin => size <= 2 * self.message.len() as u64,
            HeadersCursor::Binding(_) => true,
            HeadersCursor::List(..) => false,
        };
        if is_small {
            self.look_through(bindings, from, headers, (cursor, work, work_max), found)
        } else {
            self.look_up(bindings, exchange, headers, (cursor, work, work_max), found)
        }
    }

    /// Looks at all bindings of an exchange.
    fn look_through(
        &self,
        bindings: &BindingTable,
        from: ListHead,
        headers: TableRef<'_>,
        (cursor, mut work, work_max): (&mut HeadersCursor, u64, u64),
        found: &mut Vec<BindingTarget>,
    ) -> (u64, bool) {
        let work_end = work_max.max(2 * work);
        let marked = match *cursor {
            HeadersCursor::Binding(mark) => bindings.find_mark(mark),
            _ => None,
        };
        let mut next = marked.or(from.first());
        while let Some(binding) = next {
            if work >= work_end {
                *cursor = HeadersCursor::Binding(bindings.mark(binding));
                return (work, false);
            }
            // Without postings it asks for any of no headers.
            let BindingEntry { node, target, .. } = *bindings.get(binding);
            work += 1;
            if node != NONE && self.satisfies(bindings, binding, self.lists.mode(node), headers, &mut work) {
                found.push(target);
            }
            next = bindings.next(BindingList::Source, binding);
        }
        (work, true)
    }

    /// Looks at the bindings of an exchange that ask for nothing, or for one of the headers.
    fn look_up(
        &mut self,
        bindings: &BindingTable,
        exchange: u32,
        headers: TableRef<'_>,
        (cursor, mut work, work_max): (&mut HeadersCursor, u64, u64),
        found: &mut Vec<BindingTarget>,
    ) -> (u64, bool) {
        work += self.message.hash_values(headers, &self.hash);
        let work_end = work_max.max(2 * work);
        let (first, mut mark) = match *cursor {
            HeadersCursor::List(list, mark) => (list, mark),
            _ => (0, None),
        };
        let mut lists = std::mem::take(&mut self.lists);
        lists.next_search();
        let of_headers = self.message.iter(headers).flat_map(|(name, hash, value, value_hash)| {
            let keys = [self.key(exchange, hash, None), self.key(exchange, hash, Some(value_hash))];
            keys.map(|key| (Some((name, value)), key))
        });
        let keys = std::iter::once((None, self.key_of_all(exchange))).chain(of_headers);
        let (mut any, mut rest) = (false, None);
        'lists: for (list, (header, key)) in keys.enumerate().skip(first) {
            // One list is looked at in any case.
            if list > first && work >= work_end {
                rest = Some((list, None));
                break;
            }
            work += 1;
            let mut next = mark.take().and_then(|mark| lists.find(mark, bindings)).or_else(|| lists.first(key));
            while let Some(at) = next {
                // One is looked at in any case.
                if any && work >= work_end {
                    rest = Some((list, Some(lists.mark(at, bindings))));
                    break 'lists;
                }
                let posting = lists.get(at);
                next = posting.next;
                (work, any) = (work + 1, true);
                let Some((name, value)) = header else {
                    found.push(bindings.get(posting.binding).target);
                    continue;
                };
                if lists.is_done(at) {
                    continue;
                }
                let Some((asked, wanted)) =
                    bindings.arguments(posting.binding).and_then(|all| all.entry(posting.entry as usize))
                else {
                    unreachable!("a posting is one of the binding's arguments")
                };
                // Hashes can be the same by chance.
                if asked != name || !agrees(wanted, value, &mut work) {
                    continue;
                }
                let mode = lists.mode(at.place);
                if lists.is_whole(at) || self.satisfies(bindings, posting.binding, mode, headers, &mut work) {
                    found.push(bindings.get(posting.binding).target);
                }
                lists.set_done(at);
            }
        }
        self.lists = lists;
        if let Some((list, mark)) = rest {
            *cursor = HeadersCursor::List(list, mark);
        }
        (work, rest.is_none())
    }

    /// Whether the message satisfies a binding.
    pub fn is_satisfied(
        &mut self,
        bindings: &BindingTable,
        binding: u32,
        headers: TableRef<'_>,
        work: &mut u64,
    ) -> bool {
        *work += self.message.read(headers, &self.hash);
        // Without postings it asks for any of no headers.
        let node = bindings.get(binding).node;
        node != NONE && self.satisfies(bindings, binding, self.lists.mode(node), headers, work)
    }

    /// Whether the message, which is read, satisfies a binding.
    fn satisfies(
        &self,
        bindings: &BindingTable,
        binding: u32,
        mode: MatchMode,
        headers: TableRef<'_>,
        work: &mut u64,
    ) -> bool {
        let arguments = bindings.arguments(binding).into_iter().flat_map(Table::iter);
        for (number, (name, value)) in arguments.enumerate() {
            *work += u64::from(number % ARGUMENTS_A_UNIT == 0);
            if !mode.asks_for(name) {
                continue;
            }
            *work += 1;
            let header: Option<ValueRef<'_>> = self.message.find(headers, name.as_bytes(), &self.hash);
            let holds = header.is_some_and(|header| agrees(value, header, work));
            if holds != mode.all {
                return holds;
            }
        }
        mode.all
    }
}
