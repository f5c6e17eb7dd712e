//! A file taken in by a catalog.
//!
//! Enters: a checked file, a catalog.  Leaves: the definitions that brought the catalog there, or the first it refused.
//! Owns:   their order, and which shard each queue lives on.

use crate::file::{DefinedBinding, DefinedExchange, DefinedQueue, DefinitionsFile, Located, UserEntry};
use crate::{DefinitionsFault, KeptSections};
use catalog::{Catalog, Definition, Name, Refusal, ShardId, UserLimits, VhostId};

/// Takes definitions in, and keeps them.
struct Loader<'a> {
    catalog: &'a mut Catalog,
    taken: Vec<Definition>,
    /// Those that change nothing are left out.
    only_changes: bool,
}

impl Loader<'_> {
    fn execute(&mut self, path: &str, definition: Definition) -> Result<(), DefinitionsFault> {
        match self.catalog.execute(&definition) {
            Ok(executed) => {
                if executed.changed || !self.only_changes {
                    self.taken.push(definition);
                }
                Ok(())
            }
            Err(Refusal { text, .. }) => Err(DefinitionsFault { path: path.to_owned(), why: text }),
        }
    }

    fn vhost(&self, path: &str, name: &Name) -> Result<VhostId, DefinitionsFault> {
        let missing =
            || DefinitionsFault { path: format!("{path}.vhost"), why: format!("there is no virtual host '{name}'") };
        self.catalog.vhost_by_name(name).ok_or_else(missing)
    }
}

impl DefinitionsFile {
    /// Has a catalog take everything in but the policies, in the order in which one thing needs another. Queues are spread over `shards`;
    /// `loopback_only` says which users may come from this machine only. Answers what was taken, for other replicas.
    ///
    /// # Errors
    /// What the catalog refuses, with its place. The catalog is of no use then.
    pub fn load(
        &self,
        catalog: &mut Catalog,
        shards: u16,
        loopback_only: impl Fn(&str) -> bool,
    ) -> Result<Vec<Definition>, DefinitionsFault> {
        self.load_into(Loader { catalog, taken: Vec::new(), only_changes: false }, shards, loopback_only)
    }

    /// The same for a catalog in which much of it may be already. Answers what has changed it alone.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn load_changes(
        &self,
        catalog: &mut Catalog,
        shards: u16,
        loopback_only: impl Fn(&str) -> bool,
    ) -> Result<Vec<Definition>, DefinitionsFault> {
        self.load_into(Loader { catalog, taken: Vec::new(), only_changes: true }, shards, loopback_only)
    }

    fn load_into(
        &self,
        mut to: Loader<'_>,
        shards: u16,
        loopback_only: impl Fn(&str) -> bool,
    ) -> Result<Vec<Definition>, DefinitionsFault> {
        for Located { path, entry: name } in &self.vhosts {
            to.execute(path, Definition::CreateVhost { name: name.clone() })?;
        }
        for (path, vhost, limits) in self.vhost_limits() {
            to.vhost(path, &vhost)?;
            to.execute(path, Definition::SetVhostLimits { vhost, limits })?;
        }
        for Located { path, entry: UserEntry { name, password, tags, limits } } in &self.users {
            let (user, name, password, tags) = (name.clone(), name.clone(), password.clone(), tags.clone());
            let loopback_only = loopback_only(&name);
            to.execute(path, Definition::PutUser { name, password, tags, loopback_only })?;
            if *limits != UserLimits::default() {
                to.execute(path, Definition::SetUserLimits { user, limits: *limits })?;
            }
        }
        for Located { path, entry: (user, vhost, permission) } in &self.permissions {
            let (user, vhost, permission) = (user.clone(), vhost.clone(), permission.clone());
            to.execute(path, Definition::SetPermission { user, vhost, permission })?;
        }
        for Located { path, entry: (user, vhost, exchange, permission) } in &self.topic_permissions {
            let (user, vhost, exchange) = (user.clone(), vhost.clone(), exchange.clone());
            to.execute(path, Definition::SetTopicPermission { user, vhost, exchange, permission: permission.clone() })?;
        }
        for Located { path, entry } in &self.exchanges {
            let DefinedExchange { name, kind, durable, auto_delete, internal, arguments, .. } = entry;
            let (vhost, name, arguments) = (to.vhost(path, &entry.vhost)?, name.clone(), arguments.clone());
            let (kind, durable, auto_delete, internal) = (*kind, *durable, *auto_delete, *internal);
            let definition =
                Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
            to.execute(path, definition)?;
        }
        for (number, Located { path, entry }) in self.queues.iter().enumerate() {
            let DefinedQueue { name, durable, auto_delete, arguments, .. } = entry;
            let (vhost, name, arguments) = (to.vhost(path, &entry.vhost)?, name.clone(), arguments.clone());
            // A name that a broker once drew is written as any other.
            let (server_named, durable, auto_delete) = (name.starts_with("amq."), *durable, *auto_delete);
            let home = ShardId((number % usize::from(shards.max(1))) as u16);
            let exclusive = None;
            let definition = Definition::DeclareQueue {
                vhost,
                name,
                server_named,
                durable,
                exclusive,
                auto_delete,
                arguments,
                home,
            };
            to.execute(path, definition)?;
        }
        for Located { path, entry } in &self.bindings {
            let DefinedBinding { source, destination, to_queue, routing_key, arguments, .. } = entry;
            // Bindings of the default exchange come with the queues.
            if source.is_empty() {
                continue;
            }
            let (vhost, source, destination) = (to.vhost(path, &entry.vhost)?, source.clone(), destination.clone());
            let (routing_key, arguments) = (routing_key.clone(), arguments.clone());
            let definition = if *to_queue {
                let (exchange, queue) = (source, destination);
                Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session: None }
            } else {
                Definition::BindExchange { vhost, source, destination, routing_key, arguments }
            };
            to.execute(path, definition)?;
        }
        for (path, policy) in self.policies().chain(self.operator_policies()) {
            to.vhost(path, &policy.vhost)?;
        }
        Ok(to.taken)
    }

    /// What is kept as it is written.
    pub fn kept(&self) -> KeptSections {
        KeptSections(self.kept.clone())
    }
}
