//! Federation's helper exchange (RabbitMQ's `x-federation-upstream`): what another broker pulls, without what it has had.
//!
//! Enters: the arguments of an exchange; the trace of a message.  Leaves: whether the message may go on to that broker.
//! Owns:   the meaning of `x-max-hops`, `x-downstream-name` and `x-downstream-vhost`, and of the header `x-received-from`.

use crate::{
    arguments::{DOWNSTREAM_NAME, DOWNSTREAM_VHOST, MAX_HOPS, X_RECEIVED_FROM, long_string},
    refusal::{Refusal, ResourceName},
};
use wire::{ListRef, RawProperties, Table, TableRef, Value, ValueRef};

/// Who pulls from such an exchange, and from how far.
#[derive(Clone)]
pub(crate) struct DownstreamFilter {
    hops_max: usize,
    name: Option<Box<[u8]>>,
    vhost: Option<Box<[u8]>>,
}

impl DownstreamFilter {
    /// Of a new exchange.
    pub fn new(what: ResourceName<'_>, arguments: &Table) -> Result<Self, Refusal> {
        let hops = match arguments.get(MAX_HOPS) {
            Some(Value::I64(hops)) => *hops,
            Some(_) => {
                return Err(Refusal::precondition(format_args!("Argument {MAX_HOPS} must be of type long")));
            }
            None => return Err(Refusal::precondition(format_args!("Argument {MAX_HOPS} missing"))),
        };
        let text = |argument| Ok::<_, Refusal>(long_string(what, arguments, argument)?.map(Into::into));
        Ok(Self {
            hops_max: usize::try_from(hops).unwrap_or(0),
            name: text(DOWNSTREAM_NAME)?,
            vhost: text(DOWNSTREAM_VHOST)?,
        })
    }

    /// Whether a message with this trace goes on: it has not come too far, and not from there.
    pub fn wants(&self, trace: Option<ListRef<'_>>) -> bool {
        let Some(trace) = trace else { return true };
        // As many hops as there may not be are as good as more of them.
        let mut count = 0;
        for hop in trace.iter().map_while(Result::ok).take(self.hops_max) {
            count += 1;
            if let ValueRef::Table(hop) = hop
                && self.is(hop)
            {
                return false;
            }
        }
        count < self.hops_max
    }

    fn is(&self, hop: TableRef<'_>) -> bool {
        let says = |name: &str, own: &Option<Box<[u8]>>| match (hop.get(name), own) {
            (Some(ValueRef::LongStr(theirs)), Some(own)) => *theirs == **own,
            _ => false,
        };
        says("cluster-name", &self.name) && says("vhost", &self.vhost)
    }
}

/// Through which brokers a message has come, if any said so: a list with a table for each.
#[inline]
pub fn trace(properties: RawProperties<'_>) -> Option<ListRef<'_>> {
    match properties.headers()?.get(X_RECEIVED_FROM)? {
        ValueRef::List(trace) => Some(trace),
        _ => None,
    }
}
