//! `harrier store show`: which queues have messages in the store.

use super::Findings;
use super::live_messages::{LiveMessages, QueueContent};
use super::stopped_store::{StoppedStore, StoredLog};
use super::table::table;
use definitions::Json;
use store::{Position, QueueUid, RecordVisitor};

const HEADING: [&str; 5] = ["queue", "messages", "bytes", "first", "last"];

/// The bits of a position below its priority level.
const PLACE_BITS: u32 = 56;

pub fn show(store: &StoppedStore, is_json: bool) -> Findings {
    let mut live = LiveMessages::default();
    let mut faults = Vec::new();
    for log in store.logs() {
        faults.extend(read(log, &mut live.positions()));
    }
    for log in store.logs() {
        // What is wrong with a log has been said.
        let _said = read(log, &mut live.sizes());
    }
    let text = if is_json { json(&live).page() + "\n" } else { text(&live) };
    Findings { text, faults }
}

/// Reads a log as far as it can be read. Returns what is wrong with it.
fn read(log: &StoredLog, visitor: &mut impl RecordVisitor) -> Vec<String> {
    match log.scan(visitor) {
        Ok(result) => result.damage.iter().map(|damage| log.describe(damage)).collect(),
        Err(error) => vec![format!("{}: {error}", log.name())],
    }
}

fn text(live: &LiveMessages) -> String {
    let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
    let (mut messages, mut body_bytes) = (0, 0);
    for (QueueUid(uid), content) in live.queues() {
        messages += content.messages;
        body_bytes += content.body_bytes;
        let numbers = [content.messages, content.body_bytes].map(|number| number.to_string());
        let positions = [content.first, content.last].map(place);
        rows.push(std::iter::once(uid.to_string()).chain(numbers).chain(positions).collect());
    }
    rows.push(vec!["all".to_owned(), messages.to_string(), body_bytes.to_string()]);
    table(&rows)
}

/// A position, behind its priority level if that is not 0.
fn place(position: u64) -> String {
    let (level, number) = split(position);
    if level == 0 { number.to_string() } else { format!("{level}/{number}") }
}

fn split(position: u64) -> (u64, u64) {
    (Position(position).level().into(), position & ((1 << PLACE_BITS) - 1))
}

fn json(live: &LiveMessages) -> Json {
    let number = |number: u64| Json::Int(number.cast_signed());
    let position = |position: u64| {
        let (level, place) = split(position);
        Json::Object(vec![("priority".to_owned(), number(level)), ("position".to_owned(), number(place))])
    };
    let queue = |(QueueUid(uid), content): (QueueUid, QueueContent)| {
        let members = [
            ("queue", number(uid)),
            ("messages", number(content.messages)),
            ("bytes", number(content.body_bytes)),
            ("first", position(content.first)),
            ("last", position(content.last)),
        ];
        Json::Object(members.map(|(name, value)| (name.to_owned(), value)).to_vec())
    };
    let queues = live.queues().map(queue).collect();
    Json::Object(vec![("version".to_owned(), Json::Int(1)), ("queues".to_owned(), Json::List(queues))])
}
