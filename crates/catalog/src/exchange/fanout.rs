//! Fanout exchange: everything to everyone.
//!
//! Enters: the list of its bindings.  Leaves: the same list.

use crate::binding::{BindingList, ListHead, SelectedList};

/// Selects all bindings.
pub(crate) fn route(from: ListHead, found: &mut Vec<SelectedList>) {
    found.extend(from.first().map(|first| SelectedList { list: BindingList::Source, first }));
}
