//! Journal records as bytes: what is written is read, and bytes that are none are refused.

use catalog::{
    ApplyTo, ExchangeKind, Name, Password, Permission, Policy, QueueUid, ResourceKind, TopicPermission, UserLimits,
    VhostLimits,
};
use definitions::{
    DurableBinding, DurableExchange, DurableQueue, JournalEntryReader, JournalEntryWriter, JournalFault, JournalRecord,
    PasswordHash, RecordFault, StoredUser, limits::JOURNAL_PIECE_BYTES_MAX,
};
use proptest::prelude::*;
use wire::{Table, Value};

fn name() -> impl Strategy<Value = Name> {
    "[^\r\n]{0,40}".prop_map(|text| Name::new(ResourceKind::Queue, text.as_bytes()).expect("short"))
}

fn table() -> impl Strategy<Value = Table> {
    let value = prop_oneof![
        any::<i64>().prop_map(Value::I64),
        any::<bool>().prop_map(Value::Bool),
        ".{0,20}".prop_map(|text| Value::text(&text)),
        Just(Value::Void),
    ];
    prop::collection::vec(("[a-z-]{1,9}", value), 0..5).prop_map(|entries| {
        entries.into_iter().fold(Table::new(), |table, (key, value)| table.with(&key, value).expect("short"))
    })
}

fn password() -> impl Strategy<Value = PasswordHash> {
    let kinds = vec![
        Password::plain("secret"),
        Password::sha256(b"secret", [1, 2, 3, 4]),
        Password::hashed("$argon2i$v=19$m=16,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAA").expect("a hash"),
        Password::Never,
    ];
    (prop::sample::select(kinds), any::<[u8; 4]>()).prop_map(|(password, salt)| PasswordHash::new(&password, || salt))
}

fn binding() -> impl Strategy<Value = DurableBinding> {
    (name(), name(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..255), table()).prop_map(
        |(source, destination, is_to_queue, routing_key, arguments)| DurableBinding {
            source,
            destination,
            is_to_queue,
            routing_key: routing_key.into(),
            arguments: arguments.to_bytes().into(),
        },
    )
}

fn uid() -> impl Strategy<Value = QueueUid> {
    any::<u64>().prop_map(|number| QueueUid::new(number).unwrap_or(QueueUid::FIRST))
}

fn policy() -> impl Strategy<Value = Policy> {
    let apply_to = prop::sample::select(vec![
        ApplyTo::All,
        ApplyTo::Queues,
        ApplyTo::Exchanges,
        ApplyTo::ClassicQueues,
        ApplyTo::QuorumQueues,
        ApplyTo::Streams,
    ]);
    (name(), name(), ".{0,20}", apply_to, any::<i64>(), table()).prop_map(
        |(vhost, name, pattern, apply_to, priority, definition)| Policy {
            vhost,
            name,
            pattern: pattern.into(),
            apply_to,
            priority,
            definition,
        },
    )
}

fn record() -> impl Strategy<Value = JournalRecord> {
    use JournalRecord as R;
    let kind = prop::sample::select(vec![
        ExchangeKind::Direct,
        ExchangeKind::Fanout,
        ExchangeKind::Topic,
        ExchangeKind::Headers,
        ExchangeKind::ConsistentHash,
        ExchangeKind::Delayed,
        ExchangeKind::FederationUpstream,
    ]);
    let user = (password(), prop::collection::vec(name(), 0..3), any::<bool>())
        .prop_map(|(password, tags, loopback_only)| StoredUser { password, tags, loopback_only });
    let vhost_limits = (any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u64>>()).prop_map(
        |(connections_max, queues_max, queue_bytes_max)| VhostLimits { connections_max, queues_max, queue_bytes_max },
    );
    let user_limits = any::<(Option<u32>, Option<u32>)>()
        .prop_map(|(connections_max, channels_max)| UserLimits { connections_max, channels_max });
    let permission =
        (".{0,9}", ".{0,9}", ".{0,9}").prop_map(|(configure, write, read)| Permission { configure, write, read });
    let topic = (".{0,9}", ".{0,9}").prop_map(|(write, read)| TopicPermission { write, read });
    let exchange = (kind, any::<(bool, bool)>(), table()).prop_map(|(kind, (auto_delete, internal), arguments)| {
        DurableExchange { kind, auto_delete, internal, arguments }
    });
    let queue = (uid(), any::<(u16, bool)>(), table()).prop_map(|(uid, (home, auto_delete), arguments)| DurableQueue {
        uid,
        home,
        auto_delete,
        arguments,
    });
    prop_oneof![
        Just(R::SnapshotBegin),
        Just(R::SnapshotEnd),
        name().prop_map(|name| R::PutVhost { name }),
        name().prop_map(|name| R::DeleteVhost { name }),
        (name(), vhost_limits).prop_map(|(vhost, limits)| R::SetVhostLimits { vhost, limits }),
        (name(), user).prop_map(|(name, user)| R::PutUser { name, user }),
        name().prop_map(|name| R::DeleteUser { name }),
        (name(), user_limits).prop_map(|(user, limits)| R::SetUserLimits { user, limits }),
        (name(), name(), permission).prop_map(|(user, vhost, permission)| R::SetPermission { user, vhost, permission }),
        (name(), name()).prop_map(|(user, vhost)| R::ClearPermission { user, vhost }),
        (name(), name(), name(), topic).prop_map(|(user, vhost, exchange, permission)| R::SetTopicPermission {
            user,
            vhost,
            exchange,
            permission
        }),
        (name(), name(), name()).prop_map(|(user, vhost, exchange)| R::ClearTopicPermission { user, vhost, exchange }),
        Just(R::ClearPolicies),
        (policy(), any::<bool>()).prop_map(|(policy, is_operator)| R::PutPolicy { policy, is_operator }),
        (name(), name(), exchange).prop_map(|(vhost, name, exchange)| R::PutExchange { vhost, name, exchange }),
        (name(), name()).prop_map(|(vhost, name)| R::DeleteExchange { vhost, name }),
        (name(), name(), queue).prop_map(|(vhost, name, queue)| R::PutQueue { vhost, name, queue }),
        (name(), name()).prop_map(|(vhost, name)| R::DeleteQueue { vhost, name }),
        (name(), binding()).prop_map(|(vhost, binding)| R::PutBinding { vhost, binding }),
        (name(), binding()).prop_map(|(vhost, binding)| R::PutOlderBinding { vhost, binding }),
        (name(), binding()).prop_map(|(vhost, binding)| R::DeleteBinding { vhost, binding }),
        uid().prop_map(R::NextQueueUid),
    ]
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written_and_not_if_it_is_cut(record in record()) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut rest = &bytes[..];
        prop_assert_eq!(JournalRecord::decode(&mut rest), Ok(record));
        prop_assert!(rest.is_empty());
        for cut in 0..bytes.len() {
            prop_assert!(JournalRecord::decode(&mut &bytes[..cut]).is_err(), "cut at {}", cut);
        }
    }

    #[test]
    fn bytes_that_are_read_are_those_of_a_record(bytes in prop::collection::vec(any::<u8>(), 0..60), tag in 0u8..24) {
        let bytes = [&[tag][..], &bytes].concat();
        let mut rest = &bytes[..];
        if let Ok(record) = JournalRecord::decode(&mut rest) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert_eq!(JournalRecord::decode(&mut &again[..]), Ok(record));
        }
    }

    #[test]
    fn an_entry_of_many_pieces_is_read_as_a_whole(lens in prop::collection::vec(0..60_000usize, 1..6), torn in any::<prop::sample::Index>()) {
        let records: Vec<JournalRecord> = lens.iter().map(|len| {
            let permission = TopicPermission { write: "w".repeat(*len), read: String::new() };
            let (user, vhost, exchange) = (Name::from("u"), Name::from("v"), Name::from("x"));
            JournalRecord::SetTopicPermission { user, vhost, exchange, permission }
        }).collect();
        let mut writer = JournalEntryWriter::default();
        let mut pieces = Vec::new();
        for _ in 0..2 {
            records.iter().for_each(|record| writer.push(record));
            writer.finish(|piece| pieces.push(piece.to_vec()));
        }
        prop_assert!(pieces.iter().all(|piece| piece.len() <= JOURNAL_PIECE_BYTES_MAX));
        let entry = pieces.len() / 2;
        // The first time it is torn.
        let torn = torn.index(entry);
        let mut reader = JournalEntryReader::default();
        for piece in &pieces[..torn] {
            prop_assert_eq!(reader.push(piece), Ok(Vec::new()));
        }
        for piece in &pieces[entry..pieces.len() - 1] {
            prop_assert_eq!(reader.push(piece), Ok(Vec::new()));
        }
        prop_assert_eq!(reader.push(&pieces[pieces.len() - 1]), Ok(records));
    }
}

#[test]
fn what_is_no_piece_is_refused() {
    let read = |piece: &[u8]| JournalEntryReader::default().push(piece);
    for (piece, fault) in [
        (&b""[..], JournalFault::NoPiece),
        (&[1][..], JournalFault::NoPiece),
        (&[2, 3][..], JournalFault::UnknownFormat(2)),
        (&[1, 0][..], JournalFault::NoBeginning),
        (&[1, 2, 1][..], JournalFault::NoBeginning),
        (&[1, 3, 0][..], JournalFault::Record(RecordFault::UnknownTag(0))),
        (&[1, 3, 3, 1][..], JournalFault::Record(RecordFault::Field("virtual host"))),
        (&[1, 3, 3, 1, b'\n'][..], JournalFault::Record(RecordFault::Field("virtual host"))),
        (&[1, 3, 22, 0][..], JournalFault::Record(RecordFault::Field("uid"))),
    ] {
        assert_eq!(read(piece), Err(fault), "{piece:?}");
    }
    assert_eq!(read(&[1, 3]), Ok(Vec::new()));
}

#[test]
fn a_queue_and_its_binding_take_less_than_100_bytes() {
    let (vhost, name) = (Name::from("/"), Name::from("orders.eu.some-shop.new"));
    let uid = QueueUid::new(1_000_000).expect("a uid");
    let queue = DurableQueue { uid, home: 3, auto_delete: false, arguments: Table::new() };
    let binding = DurableBinding {
        source: Name::from("orders"),
        destination: name.clone(),
        is_to_queue: true,
        routing_key: b"eu.some-shop.new".as_slice().into(),
        arguments: [].into(),
    };
    let mut bytes = Vec::new();
    JournalRecord::PutQueue { vhost: vhost.clone(), name, queue }.encode(&mut bytes);
    JournalRecord::PutOlderBinding { vhost, binding }.encode(&mut bytes);
    assert!(bytes.len() < 100, "{} bytes", bytes.len());
}
