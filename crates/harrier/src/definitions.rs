//! Virtual hosts, users and permissions of the configuration as definitions.
//!
//! Enters: a configuration.  Leaves: definitions that every catalog will take, or which one it refuses.
//! Owns:   their order.
//! Never:  lets a faulty pattern reach a running broker.

use catalog::{Catalog, Definition, Limits, Name, Password, Permission};
use config::{BrokerConfig, ConfigError, Fault, Origin};

/// The definitions to begin with.
///
/// # Errors
/// What a catalog of these limits refuses, with its place in the file.
pub fn definitions(config: &BrokerConfig, limits: &Limits) -> Result<Vec<Definition>, ConfigError> {
    let vhosts = config.vhosts.iter().map(|vhost| {
        let definition = Definition::CreateVhost { name: name(&vhost.name) };
        (definition, "vhost", &vhost.origin)
    });
    let mut passwords = Vec::new();
    for user in &config.users {
        passwords.push(match &user.password {
            config::Password::Plain(secret) => Password::plain(secret),
            config::Password::Hash(hash) => Password::hashed(hash).map_err(|why| Fault {
                origin: user.origin.clone(),
                key: "user.password_hash".to_owned(),
                why,
            })?,
        });
    }
    let users = config.users.iter().zip(passwords).map(|(user, password)| {
        let definition = Definition::PutUser {
            name: name(&user.name),
            password,
            tags: user.tags.iter().map(|tag| name(tag)).collect(),
            loopback_only: config.loopback_users.contains(&user.name),
        };
        (definition, "user", &user.origin)
    });
    let permissions = config.permissions.iter().map(|written| {
        let permission = Permission {
            configure: written.configure.clone(),
            write: written.write.clone(),
            read: written.read.clone(),
        };
        let definition =
            Definition::SetPermission { user: name(&written.user), vhost: name(&written.vhost), permission };
        (definition, "permission", &written.origin)
    });
    // Tried once here, where a refusal can be told with its line.
    let mut trial = Catalog::new(limits.clone());
    let tried = vhosts.chain(users).chain(permissions).map(|(definition, key, origin): (_, &str, &Origin)| match trial
        .execute(&definition)
    {
        Ok(_executed) => Ok(definition),
        Err(refusal) => Err(Fault { origin: origin.clone(), key: key.to_owned(), why: refusal.text }),
    });
    Ok(tried.collect::<Result<Vec<_>, Fault>>()?)
}

/// The configuration has checked its names.
fn name(text: &str) -> Name {
    Name::from(text)
}
