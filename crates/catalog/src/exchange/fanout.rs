//! Fanout exchange: everything to everyone.
//!
//! Enters: the list of its bindings.  Leaves: where each leads.

use crate::binding::{BindingList, BindingTable, BindingTarget, ListHead};

pub(crate) fn route(bindings: &BindingTable, from: ListHead, found: &mut Vec<BindingTarget>) {
    found.extend(bindings.iter(BindingList::Source, from).map(|binding| bindings.get(binding).target));
}
