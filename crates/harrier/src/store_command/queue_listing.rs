//! `harrier store show`: which queues have messages in the store.

use super::StoreReport;
use super::live_messages::{LiveMessages, QueueContent};
use super::stopped_store::{StoppedStore, StoredLog};
use cli::{Column, table};
use definitions::{DurableDefinitions, Json};
use std::collections::BTreeMap;
use store::{Position, QueueUid, RecordVisitor};

const HEADING: [&str; 8] = ["queue", "log", "messages", "bytes", "first", "last", "virtual host", "name"];
const COLUMNS: [Column; HEADING.len()] = {
    use Column::{Name, Number};
    [Name, Number, Number, Number, Number, Number, Name, Name]
};

/// What is told of a queue that does not exist any more.
const DELETED: &str = "(deleted)";

/// The virtual hosts and names of queues.
type QueueNames = BTreeMap<QueueUid, (String, String)>;

/// The bits of a position below its priority level.
const PLACE_BITS: u32 = 56;

pub fn show(store: &StoppedStore, is_json: bool) -> StoreReport {
    let mut live = LiveMessages::default();
    let mut faults = Vec::new();
    for log in store.logs() {
        faults.extend(read(log, &mut live.positions(log.id())));
    }
    for log in store.logs() {
        // What is wrong with a log has been said.
        let _said = read(log, &mut live.sizes(log.id()));
    }
    let names = match store.definitions() {
        Ok(definitions) => names(&definitions),
        Err(why) => {
            faults.push(why);
            QueueNames::new()
        }
    };
    let text = if is_json { json(&live, &names).page() + "\n" } else { text(&live, &names) };
    StoreReport { text, notes: Vec::new(), faults }
}

/// Reads a log as far as it can be read. Returns what is wrong with it.
fn read(log: &StoredLog, visitor: &mut impl RecordVisitor) -> Vec<String> {
    match log.scan(visitor) {
        Ok(result) => result.damage.iter().map(|damage| log.describe(damage)).collect(),
        Err(error) => vec![format!("{}: {error}", log.name())],
    }
}

fn names(definitions: &DurableDefinitions) -> QueueNames {
    let queues = definitions.queues();
    queues.map(|(vhost, name, queue)| (QueueUid(queue.uid.number()), (vhost.to_string(), name.to_string()))).collect()
}

fn text(live: &LiveMessages, names: &QueueNames) -> String {
    let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
    let (mut messages, mut body_bytes) = (0, 0);
    for (uid, content) in live.queues() {
        messages += content.messages;
        body_bytes += content.body_bytes;
        let numbers = [content.log.0.into(), content.messages, content.body_bytes].map(|number| number.to_string());
        let positions = [content.first, content.last].map(place);
        let (vhost, name) = names.get(&uid).cloned().unwrap_or_else(|| (String::new(), DELETED.to_owned()));
        let uid = uid.0.to_string();
        rows.push(std::iter::once(uid).chain(numbers).chain(positions).chain([vhost, name]).collect());
    }
    rows.push(vec!["all".to_owned(), String::new(), messages.to_string(), body_bytes.to_string()]);
    table(&COLUMNS, &rows)
}

/// A position, behind its priority level if that is not 0.
fn place(position: u64) -> String {
    let (level, number) = split(position);
    if level == 0 { number.to_string() } else { format!("{level}/{number}") }
}

fn split(position: u64) -> (u64, u64) {
    (Position(position).level().into(), position & ((1 << PLACE_BITS) - 1))
}

fn json(live: &LiveMessages, names: &QueueNames) -> Json {
    let number = |number: u64| Json::Int(number.cast_signed());
    let position = |position: u64| {
        let (level, place) = split(position);
        Json::Object(vec![("priority".to_owned(), number(level)), ("position".to_owned(), number(place))])
    };
    let queue = |(uid, content): (QueueUid, QueueContent)| {
        let name = names.get(&uid);
        let members = [
            ("queue", number(uid.0)),
            ("log", number(content.log.0.into())),
            ("vhost", name.map_or(Json::Null, |(vhost, _)| Json::text(vhost))),
            ("name", name.map_or(Json::Null, |(_, name)| Json::text(name))),
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
