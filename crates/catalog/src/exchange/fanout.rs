//! Fanout exchange: everything to everyone.
//!
//! Enters: the list of its bindings.  Leaves: where each leads.
//! Never:  looks at a routing key.

use crate::binding::{Bindings, Head, Target, Through};

pub(crate) fn route(bindings: &Bindings, from: Head, found: &mut Vec<Target>) {
    found.extend(bindings.iter(Through::Source, from).map(|binding| bindings.get(binding).target));
}
