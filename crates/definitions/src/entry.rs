//! Single entries by the rules of a file, for those who get them one by one.
//!
//! Enters: an object whose fields are those of an entry.  Leaves: what it says, or its fault, whose place begins at the object.

use crate::file::EntryReader;
use crate::{DefinitionsFault, Json};
use catalog::{Name, Password, Policy, UserLimits, VhostLimits};

fn entry(object: &Json) -> EntryReader<'_> {
    let fields = if let Json::Object(fields) = object { &fields[..] } else { &[] };
    EntryReader { path: "", fields }
}

/// The policy of this name: `pattern`, `definition`, `apply-to`, `priority`.
///
/// # Errors
/// What is wrong with it.
pub fn read_policy(object: &Json, vhost: Name, name: Name, is_operator: bool) -> Result<Policy, DefinitionsFault> {
    entry(object).policy(vhost, name, is_operator)
}

/// A password: `password_hash`, `hashing_algorithm`.
///
/// # Errors
/// The algorithm is unknown, or the hash is none.
pub fn read_password(object: &Json) -> Result<Password, DefinitionsFault> {
    entry(object).password()
}

/// The tags of a user, under `tags`.
///
/// # Errors
/// They are no texts, or one is too long.
pub fn read_tags(object: &Json) -> Result<Vec<Name>, DefinitionsFault> {
    entry(object).tags()
}

/// The limits of a virtual host, under this key.
///
/// # Errors
/// There is no such limit, or it is no number.
pub fn read_vhost_limits(object: &Json, key: &str) -> Result<VhostLimits, DefinitionsFault> {
    entry(object).vhost_limits(key)
}

/// The limits of a user, under this key.
///
/// # Errors
/// There is no such limit, or it is no number.
pub fn read_user_limits(object: &Json, key: &str) -> Result<UserLimits, DefinitionsFault> {
    entry(object).user_limits(key)
}
