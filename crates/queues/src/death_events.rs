//! The entries of `x-death`: one for each queue and reason, the last death first.
//!
//! Enters: the list of a message, which clients or old brokers may have written.  Leaves: entries merged and within a limit.

use wire::{ListRef, TableRef, ValueRef};

const COUNT: &str = "count";

/// The deaths of one queue and reason.
struct DeathGroup<'a> {
    /// The latest of its entries.
    event: TableRef<'a>,
    /// How many deaths they are, unless the entry says so itself.
    count: Option<i64>,
}

/// The deaths of a message so far.
pub struct DeathEvents<'a> {
    groups: Vec<DeathGroup<'a>>,
    /// Entries of the list, before those of one queue and reason were merged.
    pub read: usize,
}

/// What was written of a history.
#[derive(Clone, Copy, Default)]
pub struct HistoryExtent {
    pub bytes: usize,
    /// Entries that were read for it.
    pub entries_read: usize,
    /// Older entries, or all, found no room.
    pub is_shortened: bool,
    /// One of the deaths that were written is a rejection by a consumer.
    pub has_rejection: bool,
}

impl<'a> DeathEvents<'a> {
    /// The entries of a list. Old versions of RabbitMQ wrote one for each death, without a count: those of one queue and reason
    /// are one entry here, with the sum of their counts.
    pub fn of(list: ListRef<'a>) -> Self {
        let events: Vec<TableRef<'a>> = list.iter().filter_map(|event| event.ok()?.as_table()).collect();
        if let [event] = events[..] {
            return DeathEvents { groups: vec![DeathGroup { event, count: None }], read: 1 };
        }
        let key = |event: &TableRef<'a>| (text_of(*event, "queue"), text_of(*event, "reason"));
        let mut order: Vec<_> = events.iter().enumerate().map(|(at, event)| (key(event), at)).collect();
        order.sort_unstable();
        let mut groups: Vec<_> = order
            .chunk_by(|(a, _), (b, _)| a == b)
            .map(|entries| {
                let counts = entries.iter().map(|&(_, at)| count_of(events[at]));
                let is_counted = matches!(entries, [(_, at)] if count_of(events[*at]).is_some());
                let sum = counts.map(|count| count.unwrap_or(1)).fold(0, i64::saturating_add);
                let first = entries[0].1;
                (first, DeathGroup { event: events[first], count: (!is_counted).then_some(sum) })
            })
            .collect();
        groups.sort_unstable_by_key(|(first, _)| *first);
        DeathEvents { groups: groups.into_iter().map(|(_, group)| group).collect(), read: events.len() }
    }

    /// Takes the entry of a queue and reason, and how many deaths it stands for.
    pub fn take(&mut self, queue: &[u8], reason: &[u8]) -> Option<(TableRef<'a>, i64)> {
        let is_it = |group: &DeathGroup<'_>| is(group.event, "queue", queue) && is(group.event, "reason", reason);
        let group = self.groups.remove(self.groups.iter().position(is_it)?);
        Some((group.event, group.count.or(count_of(group.event)).unwrap_or(0)))
    }

    /// Writes the entries behind those of `extent`, as far as all together have no more than `bytes_max` bytes.
    pub fn write(&self, bytes_max: usize, mut extent: HistoryExtent, out: &mut Vec<u8>) -> HistoryExtent {
        for DeathGroup { event, count } in &self.groups {
            let start = out.len();
            match count {
                Some(count) => write_counted(*event, *count, out),
                None => {
                    out.push(b'F');
                    with_length(out, |out| out.extend_from_slice(event.as_bytes()));
                }
            }
            let bytes = extent.bytes + out.len() - start;
            if bytes > bytes_max {
                out.truncate(start);
                return HistoryExtent { is_shortened: true, ..extent };
            }
            extent.bytes = bytes;
            extent.has_rejection |=
                is(*event, "reason", crate::dead_letter_reason::DeadLetterReason::Rejected.name().as_bytes());
        }
        extent
    }
}

/// An entry with another count.
pub fn write_counted(event: TableRef<'_>, count: i64, out: &mut Vec<u8>) {
    out.push(b'F');
    with_length(out, |out| {
        write_count(out, count);
        copy_entries(event, out, |field| field != COUNT.as_bytes());
    });
}

/// Copies the entries of a table that are wanted, as they are. Returns how many there are, wanted or not.
pub fn copy_entries(table: TableRef<'_>, out: &mut Vec<u8>, is_wanted: impl Fn(&[u8]) -> bool) -> usize {
    // Properties are validated where they come in.
    let mut entries = table.iter();
    let (mut rest, mut count) = (entries.as_bytes(), 0);
    while let Some(Ok((field, _))) = entries.next() {
        count += 1;
        let (entry, behind) = rest.split_at(rest.len() - entries.as_bytes().len());
        if is_wanted(field.as_bytes()) {
            out.extend_from_slice(entry);
        }
        rest = behind;
    }
    count
}

fn text_of<'a>(event: TableRef<'a>, name: &str) -> Option<&'a [u8]> {
    event.get(name).and_then(ValueRef::as_bytes)
}

fn count_of(event: TableRef<'_>) -> Option<i64> {
    event.get(COUNT).and_then(ValueRef::as_i64)
}

/// Whether an entry has this value.
pub fn is(event: TableRef<'_>, name: &str, value: &[u8]) -> bool {
    text_of(event, name) == Some(value)
}

pub fn write_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'S');
    with_length(out, |out| out.extend_from_slice(bytes));
}

pub fn write_count(out: &mut Vec<u8>, deaths: i64) {
    write_name(out, COUNT);
    out.push(b'l');
    out.extend_from_slice(&deaths.to_be_bytes());
}

pub fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

pub fn write_text(out: &mut Vec<u8>, field: &str, value: &[u8]) {
    write_name(out, field);
    write_long(out, value);
}

pub fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::{DeathEvents, HistoryExtent};
    use wire::{List, ListRef, Table, Value};

    fn event(queue: &str, reason: &str, count: Option<i64>) -> Value {
        let table = Table::new().with("queue", Value::text(queue)).expect("short");
        let table = table.with("reason", Value::text(reason)).expect("short");
        Value::Table(match count {
            Some(count) => table.with("count", Value::I64(count)).expect("short"),
            None => table,
        })
    }

    fn written(events: Vec<Value>, bytes_max: usize) -> (Vec<String>, HistoryExtent) {
        let list = Value::List(events.into_iter().collect::<List>());
        let table = Table::new().with("x-death", list).expect("short").to_bytes();
        let table = wire::TableRef::new(&table);
        let list = table.get("x-death").and_then(wire::ValueRef::as_list).expect("a list");
        let mut out = Vec::new();
        let extent = DeathEvents::of(list).write(bytes_max, HistoryExtent::default(), &mut out);
        assert_eq!(extent.bytes, out.len());
        let word = |event: wire::TableRef<'_>, name| {
            String::from_utf8_lossy(event.get(name).and_then(wire::ValueRef::as_bytes).unwrap_or(b"-")).into_owned()
        };
        let read = ListRef::new(&out).iter().map(|event| {
            let event = event.expect("sound").as_table().expect("a table");
            let count = event.get("count").and_then(wire::ValueRef::as_i64);
            format!("{} {} {count:?}", word(event, "queue"), word(event, "reason"))
        });
        (read.collect(), extent)
    }

    #[test]
    fn entries_of_old_brokers_are_merged_in_the_order_of_their_latest() {
        let old = vec![
            event("a", "expired", None),
            event("b", "rejected", None),
            event("a", "expired", None),
            event("a", "maxlen", Some(4)),
            Value::I32(1),
            event("a", "expired", None),
            event("a", "maxlen", Some(2)),
        ];
        let (read, extent) = written(old, 1_000);
        assert_eq!(read, ["a expired Some(3)", "b rejected Some(1)", "a maxlen Some(6)"]);
        assert!(extent.has_rejection && !extent.is_shortened);
        let (read, _) = written(vec![event("a", "expired", None)], 1_000);
        assert_eq!(read, ["a expired None"], "RabbitMQ leaves a single one as it is");
    }

    #[test]
    fn the_oldest_entries_find_no_room() {
        let events =
            || vec![event("a", "expired", Some(1)), event("b", "expired", Some(1)), event("c", "rejected", Some(1))];
        let (all, extent) = written(events(), 1_000);
        assert!(all.len() == 3 && extent.has_rejection);
        let (some, shortened) = written(events(), extent.bytes - 1);
        assert_eq!(some, all[..2]);
        assert!(shortened.is_shortened && !shortened.has_rejection);
        assert!(written(events(), 0).0.is_empty());
    }
}
