//! What the examples begin with: a catalog with a virtual host, and queues in it.

use catalog::{Catalog, CatalogLimits, Definition, DefinitionOutcome, Name, ShardId, VhostId};
use wire::Table;

/// A catalog with the virtual host `/`.
pub fn catalog_with_vhost() -> (Catalog, VhostId) {
    let mut catalog = Catalog::new(CatalogLimits::default());
    let executed = catalog.execute(&Definition::CreateVhost { name: "/".into() }).expect("a vhost");
    let DefinitionOutcome::Vhost { id, .. } = executed.outcome else { panic!("{executed:?}") };
    (catalog, id)
}

/// Declares a queue without arguments.
pub fn declare_queue(catalog: &mut Catalog, vhost: VhostId, name: Name, durable: bool) {
    let declare = Definition::DeclareQueue {
        vhost,
        name,
        server_named: false,
        durable,
        exclusive: None,
        auto_delete: false,
        arguments: Table::new(),
        home: ShardId(0),
    };
    catalog.execute(&declare).expect("a queue");
}
