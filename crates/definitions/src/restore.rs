//! Restoring: the durable definitions in a catalog.
//!
//! Enters: durable definitions; a catalog.  Leaves: the definitions that brought the catalog there, or what it refused.
//! Owns:   their order: each thing is there before another one needs it.

use crate::durable_definitions::{DurableDefinitions, DurableVhost, in_order};
use crate::journal_record::{DurableBinding, DurableExchange, DurableQueue, StoredUser};
use catalog::{Catalog, Definition, Name, Policy, ShardId, UserLimits, VhostId, VhostLimits};
use std::fmt;
use wire::TableRef;

/// Something that was defined cannot be defined any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoreFault {
    /// What: `queue 'q' in vhost '/'`.
    pub what: String,
    /// The catalog's refusal.
    pub why: String,
}

impl fmt::Display for RestoreFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} cannot be restored: {}", self.what, self.why)
    }
}

impl std::error::Error for RestoreFault {}

/// Has a catalog execute definitions, and keeps them.
struct Restorer<'a> {
    catalog: &'a mut Catalog,
    executed: Vec<Definition>,
}

impl Restorer<'_> {
    fn execute(&mut self, definition: Definition, what: impl FnOnce() -> String) -> Result<(), RestoreFault> {
        match self.catalog.execute(&definition) {
            Ok(_executed) => {
                self.executed.push(definition);
                Ok(())
            }
            Err(refusal) => Err(RestoreFault { what: what(), why: refusal.text }),
        }
    }

    fn exchange(&mut self, at: &VhostPlace<'_>, name: &Name, exchange: &DurableExchange) -> Result<(), RestoreFault> {
        let DurableExchange { kind, auto_delete, internal, arguments } = exchange.clone();
        let (vhost, durable, name) = (at.id, true, name.clone());
        let what = at.describe("exchange", &name);
        let definition = Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
        self.execute(definition, what)
    }

    fn queue(&mut self, at: &VhostPlace<'_>, name: &Name, queue: &DurableQueue) -> Result<(), RestoreFault> {
        let DurableQueue { uid, home, auto_delete, arguments } = queue.clone();
        self.execute(Definition::NextQueueUid(uid), at.describe("queue", name))?;
        let what = at.describe("queue", name);
        let definition = Definition::DeclareQueue {
            vhost: at.id,
            name: name.clone(),
            // A name that the broker once drew is written as any other.
            server_named: name.starts_with("amq."),
            durable: true,
            exclusive: None,
            auto_delete,
            arguments,
            home: ShardId(home),
        };
        self.execute(definition, what)
    }

    fn binding(&mut self, at: &VhostPlace<'_>, binding: &DurableBinding) -> Result<(), RestoreFault> {
        let DurableBinding { source, destination, is_to_queue, routing_key, arguments } = binding.clone();
        let destination_is_there = match is_to_queue {
            true => self.catalog.queue(at.id, destination.as_bytes()).is_some(),
            false => self.catalog.exchange(at.id, destination.as_bytes()).is_some(),
        };
        // A binding that was never answered may have been journaled before its exchange, which the configuration has, or
        // damage has taken one of its ends.
        if !destination_is_there || self.catalog.exchange(at.id, source.as_bytes()).is_none() {
            return Ok(());
        }
        let what = at.describe("binding from exchange", &source);
        let arguments = TableRef::new(&arguments).to_table().map_err(|error| RestoreFault {
            what: at.describe("binding from exchange", &source)(),
            why: error.to_string(),
        })?;
        let vhost = at.id;
        let definition = if is_to_queue {
            let (exchange, queue) = (source, destination);
            Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session: None }
        } else {
            Definition::BindExchange { vhost, source, destination, routing_key, arguments }
        };
        self.execute(definition, what)
    }
}

/// A virtual host that is there.
struct VhostPlace<'a> {
    id: VhostId,
    name: &'a Name,
}

impl VhostPlace<'_> {
    fn describe(&self, kind: &'static str, name: &Name) -> impl FnOnce() -> String + use<> {
        let (vhost, name) = (self.name.clone(), name.clone());
        move || format!("{kind} '{name}' in vhost '{vhost}'")
    }
}

impl DurableDefinitions {
    /// Has a catalog execute what is defined. Returns the definitions, for other replicas.
    ///
    /// # Errors
    /// The first that the catalog refuses: its limits are others than they were. The catalog is of no use then.
    pub fn restore(&self, catalog: &mut Catalog) -> Result<Vec<Definition>, RestoreFault> {
        let mut to = Restorer { catalog, executed: Vec::new() };
        let vhosts = in_order(&self.vhosts);
        for (name, vhost) in &vhosts {
            to.execute(Definition::CreateVhost { name: (*name).clone() }, || format!("vhost '{name}'"))?;
            // That there are too many queues is said once they are there.
            let limits = VhostLimits { queues_max: None, ..vhost.limits };
            if limits != VhostLimits::default() {
                let definition = Definition::SetVhostLimits { vhost: (*name).clone(), limits };
                to.execute(definition, || format!("vhost '{name}'"))?;
            }
        }
        self.restore_policies(&mut to)?;
        self.restore_users(&mut to)?;
        let mut places = Vec::with_capacity(vhosts.len());
        for (name, vhost) in vhosts {
            let id = to
                .catalog
                .vhost_by_name(name)
                .ok_or_else(|| RestoreFault { what: format!("vhost '{name}'"), why: "it is not there".to_owned() })?;
            places.push((VhostPlace { id, name }, vhost));
        }
        for (at, DurableVhost { exchanges, .. }) in &places {
            in_order(exchanges).into_iter().try_for_each(|(name, exchange)| to.exchange(at, name, exchange))?;
        }
        for (at, DurableVhost { queues, .. }) in &places {
            in_order(queues).into_iter().try_for_each(|(name, queue)| to.queue(at, name, queue))?;
        }
        for (at, DurableVhost { bindings, .. }) in &places {
            bindings.iter().try_for_each(|binding| to.binding(at, binding))?;
        }
        for (VhostPlace { name, .. }, DurableVhost { limits, .. }) in places {
            if limits.queues_max.is_some() {
                let definition = Definition::SetVhostLimits { vhost: name.clone(), limits: *limits };
                to.execute(definition, || format!("vhost '{name}'"))?;
            }
        }
        to.execute(Definition::NextQueueUid(self.next_queue_uid()), || "the number of the next queue".to_owned())?;
        while to.catalog.has_unfinished() {
            to.execute(Definition::Finish, || "the rules of queues and exchanges".to_owned())?;
        }
        Ok(to.executed)
    }

    fn restore_policies(&self, to: &mut Restorer<'_>) -> Result<(), RestoreFault> {
        if self.policies.is_empty() {
            return Ok(());
        }
        let of = |wanted: bool| -> Vec<Policy> {
            let policies = self.policies.iter().filter(|(_, is_operator)| *is_operator == wanted);
            policies.map(|(policy, _)| policy.clone()).collect()
        };
        let (policies, operator_policies) = (of(false).into(), of(true).into());
        to.execute(Definition::SetPolicies { policies, operator_policies }, || "the policies".to_owned())
    }

    fn restore_users(&self, to: &mut Restorer<'_>) -> Result<(), RestoreFault> {
        for (name, entry) in in_order(&self.users) {
            let what = || format!("user '{name}'");
            let StoredUser { password, tags, loopback_only } = entry.user.clone();
            let password = password.password().clone();
            to.execute(Definition::PutUser { name: name.clone(), password, tags, loopback_only }, what)?;
            if entry.limits != UserLimits::default() {
                to.execute(Definition::SetUserLimits { user: name.clone(), limits: entry.limits }, what)?;
            }
            for (vhost, permission) in &entry.permissions {
                let (user, vhost, permission) = (name.clone(), vhost.clone(), permission.clone());
                to.execute(Definition::SetPermission { user, vhost, permission }, what)?;
            }
            for ((vhost, exchange), permission) in &entry.topics {
                let (user, vhost, exchange) = (name.clone(), vhost.clone(), exchange.clone());
                let permission = permission.clone();
                to.execute(Definition::SetTopicPermission { user, vhost, exchange, permission }, what)?;
            }
        }
        Ok(())
    }
}
