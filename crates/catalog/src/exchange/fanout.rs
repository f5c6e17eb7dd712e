//! Fanout exchange: everything to everyone.
//!
//! Enters: the list of its bindings.  Leaves: where each leads.

use crate::binding::{BindingList, BindingTable, BindingTarget, ListHead};

/// Answers with the work.
pub(crate) fn route(bindings: &BindingTable, from: ListHead, found: &mut Vec<BindingTarget>) -> u64 {
    let before = found.len();
    found.extend(bindings.iter(BindingList::Source, from).map(|binding| bindings.get(binding).target));
    (found.len() - before) as u64
}
