//! The target `definitions`: a broker is told to load any file, and to replay any journal.
//!
//! Enters: a definitions file or the records of a journal's entry, or what is said to be one.
//! Leaves: nothing, or a panic.
//! Owns:   what must hold between reading, taking in and writing.
//! Never:  expects a file to be sound, only that what was taken in can be written and taken in again.
//!
//! Policies and limits have an effect: every policy that was loaded is found in what is written, and comes to the same for the
//! same queues and exchanges. Other parameters are kept as they are written. Records of a journal are read as they are written,
//! and what they come to is restored, or refused with a reason.

use catalog::{Catalog, CatalogLimits};
use definitions::{
    DefinitionsFault, JOURNAL_FORMAT, JournalEntryReader, JournalEntryWriter, JournalRecord, JournalReplay,
};

/// Shards over which the queues of a file are spread.
const SHARDS: u16 = 3;
/// What is written may be as many times as long as what was read: a name of one letter stands between keys and spaces.
const TEXT_TIMES_MAX: usize = 200;
/// And so many bytes for an empty file.
const TEXT_BYTES_MIN: usize = 4_096;

/// Panics if what was taken in is not what is written, or does something else when it is taken in again.
pub fn check(bytes: &[u8]) {
    check_journal(bytes);
    let Some((before, first)) = taken_in(bytes) else { return };
    assert!(
        first.len() <= bytes.len() * TEXT_TIMES_MAX + TEXT_BYTES_MIN,
        "{} bytes became {}",
        bytes.len(),
        first.len()
    );
    let (after, second) = taken_in(first.as_bytes()).expect("what was written can be read and taken in");
    assert_eq!(first, second, "what is written is what was taken in");
    assert_eq!(before, after, "policies come to the same");
}

/// An entry of one piece: its first and its last.
const WHOLE_ENTRY: u8 = 3;

/// Panics if records that are read are not those that were written, or if replaying them does.
fn check_journal(bytes: &[u8]) {
    let piece = [&[JOURNAL_FORMAT, WHOLE_ENTRY], bytes].concat();
    let Ok(records) = JournalEntryReader::default().push(&piece) else { return };
    let mut writer = JournalEntryWriter::default();
    records.iter().for_each(|record| writer.push(record));
    let (mut reader, mut read) = (JournalEntryReader::default(), Vec::new());
    writer.finish(|piece| read = reader.push(piece).expect("what was written can be read"));
    assert_eq!(read, records, "what is written is what was read");
    let mut replay = JournalReplay::new(true);
    replay.push(&piece).expect("it was read before");
    let durable = replay.finish().expect("it was replayed from its beginning");
    if let Err(fault) = durable.restore(&mut Catalog::new(CatalogLimits::default())) {
        assert!(!fault.why.is_empty(), "{fault}");
    }
}

/// What policies come to for each queue and exchange of a catalog, and what limits its virtual hosts have.
fn effects(catalog: &Catalog) -> Vec<String> {
    let mut effects: Vec<String> = catalog
        .exchanges()
        .map(|(_, exchange)| {
            format!("{:?} {:?} {:?}", catalog.vhost_name(exchange.vhost), exchange.name, exchange.policy)
        })
        .chain(
            catalog
                .queues()
                .map(|(_, queue)| format!("{:?} {:?} {:?}", catalog.vhost_name(queue.vhost), queue.name, queue.policy)),
        )
        .chain(catalog.vhosts().map(|(id, name)| format!("{name:?} {:?}", catalog.vhost_limits(id))))
        .collect();
    effects.sort();
    effects
}

/// Reads a file, has a catalog take it in, and writes that; `None` if it is no sound file.
fn taken_in(bytes: &[u8]) -> Option<(Vec<String>, String)> {
    let file = match definitions::read(bytes) {
        Ok(file) => file,
        Err(faults) => {
            assert!(!faults.is_empty() && faults.len() <= definitions::limits::FAULTS_MAX);
            faults.iter().for_each(clear);
            return None;
        }
    };
    let mut catalog = Catalog::new(CatalogLimits::default());
    if let Err(fault) = file.load(&mut catalog, SHARDS, |_| false) {
        clear(&fault);
        return None;
    }
    let text = definitions::write(&catalog, &file.kept(), "fuzz", || [1, 2, 3, 4]);
    Some((effects(&catalog), text))
}

/// A fault says where and why.
fn clear(fault: &DefinitionsFault) {
    assert!(!fault.why.is_empty(), "a fault without a reason at {}", fault.path);
    assert!(fault.path.is_empty() || fault.path.starts_with('.'), "{fault}");
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let whole = r#"{"rabbit_version":"3.10.8","rabbitmq_version":"3.10.8","product_name":"RabbitMQ",
"users":[{"name":"u","password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["administrator"],"limits":{}},
{"name":"v","password_hash":"","tags":"a,b"}],
"vhosts":[{"name":"/"},{"name":"other","description":"d","tags":[]}],
"permissions":[{"user":"u","vhost":"/","configure":".*","write":"^a","read":""}],
"topic_permissions":[{"user":"u","vhost":"/","exchange":"amq.topic","write":"^{username}","read":".*"}],
"parameters":[{"value":{"k":1.5},"vhost":"/","component":"c","name":"n"}],
"global_parameters":[{"name":"cluster_name","value":"rabbit@h"}],
"policies":[{"vhost":"/","name":"p","pattern":"^q","apply-to":"queues","definition":{"max-length":5,"expires":1000},"priority":3}],
"queues":[{"name":"q","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-message-ttl":5,"x-queue-type":"classic"}},
{"name":"amq.gen-x","vhost":"/","durable":false,"auto_delete":true,"arguments":[]}],
"exchanges":[{"name":"x","vhost":"/","type":"headers","durable":true,"auto_delete":false,"internal":true,"arguments":{"alternate-exchange":"amq.fanout"}}],
"bindings":[{"source":"x","vhost":"/","destination":"q","destination_type":"queue","routing_key":"k","arguments":{"x-match":"any","a":1,"b":[true,null,{"c":0.1}],"d":-2.5e-7}},
{"source":"amq.topic","vhost":"/","destination":"x","destination_type":"exchange","routing_key":"a.*.#","arguments":{}},
{"source":"","vhost":"/","destination":"q","destination_type":"queue","routing_key":"q","arguments":{}}]}"#;
    let journal = {
        let mut catalog = Catalog::new(CatalogLimits::default());
        let file = definitions::read(whole.as_bytes()).expect("it is sound");
        file.load(&mut catalog, SHARDS, |_| false).expect("it can be taken in");
        let (mut writer, mut records) = (JournalEntryWriter::default(), Vec::new());
        definitions::CatalogSnapshot::default().step(&mut catalog, &mut writer, u32::MAX, &mut || [1, 2, 3, 4]);
        writer.finish(|piece| records.extend_from_slice(&piece[2..]));
        let mut deletions = Vec::new();
        let (vhost, name) = (catalog::Name::from("/"), catalog::Name::from("q"));
        JournalRecord::DeleteQueue { vhost: vhost.clone(), name }.encode(&mut deletions);
        JournalRecord::DeleteVhost { name: vhost }.encode(&mut deletions);
        [records, deletions].concat()
    };
    let small = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
    let user = |fields: &str| format!(r#"{{"users":[{{"name":"u",{fields}}}]}}"#);
    vec![
        ("journal".to_owned(), journal),
        small("whole", whole),
        small(
            "policies",
            r#"{"vhosts":[{"name":"/"},{"name":"b","limits":[["max-connections",9]]}],"queues":[{"name":"q1","vhost":"/"},{"name":"q2","vhost":"b","durable":true,"arguments":{"x-message-ttl":50}}],
"exchanges":[{"name":"qx","vhost":"/","type":"topic"}],
"policies":[{"vhost":"/","name":"p","pattern":"^q","apply-to":"all","definition":{"max-length":5,"alternate-exchange":"amq.fanout"},"priority":3},
{"vhost":"/","name":"o","pattern":".","definition":{"dead-letter-exchange":"","overflow":"reject-publish","ha-mode":"all"}},
{"vhost":"b","name":"p","pattern":"2$","apply-to":"queues","definition":{"message-ttl":1}}],
"parameters":[{"vhost":"/","component":"operator_policy","name":"o","value":{"pattern":"","apply-to":"queues","priority":-1,"definition":{"max-length":4,"expires":60000}}},
{"vhost":"b","component":"vhost-limits","name":"limits","value":{"max-queues":7,"max-queue-bytes":4096}},{"vhost":"/","component":"shovel","name":"s","value":{}}],
"users":[{"name":"u","password_hash":"","limits":{"max-connections":1,"max-channels":-1}}]}"#,
        ),
        small(
            "pattern",
            r#"{"vhosts":[{"name":"/"}],"policies":[{"vhost":"/","name":"p","pattern":"[","definition":{"expires":1}}]}"#,
        ),
        small("empty", "{}"),
        small("list", "[]"),
        small("twice", r#"{"vhosts":[{"name":"a"},{"name":"a"}],"vhosts":[]}"#),
        small("unknown", r#"{"vhosts":[{"name":"a","colour":1}],"things":[]}"#),
        small("missing-vhost", r#"{"queues":[{"name":"q","vhost":"/","arguments":{}}]}"#),
        small(
            "large-number",
            r#"{"vhosts":[{"name":"/"}],"queues":[{"name":"q","vhost":"/","arguments":{"a":18446744073709551615}}]}"#,
        ),
        small(
            "quorum",
            r#"{"vhosts":[{"name":"/"}],"queues":[{"name":"q","vhost":"/","type":"quorum","arguments":{}}]}"#,
        ),
        small(
            "argon2",
            &user(
                r#""password_hash":"$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA","hashing_algorithm":"argon2""#,
            ),
        ),
        small("md5", &user(r#""password_hash":"x","hashing_algorithm":"rabbit_password_hashing_md5""#)),
        small("nested", &format!(r#"{{"parameters":[{}1{}]}}"#, "[".repeat(100), "]".repeat(100))),
        small("reserved", r#"{"vhosts":[{"name":"/"}],"exchanges":[{"name":"amq.mine","vhost":"/","type":"direct"}]}"#),
    ]
}
