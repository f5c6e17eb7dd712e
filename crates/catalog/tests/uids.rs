//! Durable queues are numbered, and a number is never used twice.

use catalog::{Catalog, CatalogLimits, Definition, DefinitionOutcome, Name, QueueUid, ShardId, VhostId};
use wire::Table;

/// Declares a queue and returns its uid.
fn declare(catalog: &mut Catalog, name: &str, durable: bool) -> Option<u64> {
    let declare = Definition::DeclareQueue {
        vhost: VhostId(0),
        name: Name::from(name),
        server_named: false,
        durable,
        exclusive: None,
        auto_delete: false,
        arguments: Table::default(),
        home: ShardId(0),
    };
    let DefinitionOutcome::Queue { id, .. } = catalog.execute(&declare).expect("declared").outcome else {
        panic!("a queue is declared")
    };
    Some(catalog.queue_definition(id).expect("it exists").uid?.number())
}

#[test]
fn only_durable_queues_are_numbered_and_each_only_once() {
    let mut catalog = Catalog::new(CatalogLimits::default());
    let created = catalog.execute(&Definition::CreateVhost { name: Name::from("/") }).expect("a virtual host");
    assert!(matches!(created.outcome, DefinitionOutcome::Vhost { id: VhostId(0), .. }));
    assert_eq!((declare(&mut catalog, "a", true), declare(&mut catalog, "b", false)), (Some(1), None));
    assert_eq!((declare(&mut catalog, "c", true), declare(&mut catalog, "a", true)), (Some(2), Some(1)));
    catalog
        .execute(&Definition::DeleteQueue { vhost: VhostId(0), name: Name::from("c"), session: None })
        .expect("deleted");
    assert_eq!(declare(&mut catalog, "c", true), Some(3), "it is another queue");
    // As after a restart.
    catalog.execute(&Definition::NextQueueUid(QueueUid::new(70).expect("a uid"))).expect("numbered");
    assert_eq!((declare(&mut catalog, "d", true), declare(&mut catalog, "e", true)), (Some(70), Some(71)));
}
