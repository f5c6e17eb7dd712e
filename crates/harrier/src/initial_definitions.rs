//! The initial definitions of a broker: virtual hosts, users, permissions and policies of the configuration, and the
//! definitions file.
//!
//! They are tried on a catalog here, so that a faulty pattern never reaches a running broker.

use crate::policies;
use crate::process::salt;
use catalog::{
    Catalog, CatalogLimits, Definition, Name, Password, Permission, TopicPermission, UserLimits, VhostLimits,
};
use config::{BrokerConfig, ConfigError, ConfigFault, Origin};
use definitions::DefinitionsFile;

pub struct InitialDefinitions {
    /// In the order in which they apply.
    pub definitions: Vec<Definition>,
    /// The same without the defaults, for a broker that has users from an earlier life: the default user may have been deleted.
    pub without_defaults: Vec<Definition>,
    /// A catalog with the definitions applied.
    pub catalog: Catalog,
    /// The definitions file, if there is one.
    pub file: Option<DefinitionsFile>,
}

/// Reads a definitions file.
///
/// # Errors
/// All that is wrong with it, a line each.
pub fn read(path: &str) -> Result<DefinitionsFile, String> {
    let named = |why: String| format!("{path}: {why}");
    let text = std::fs::read(path).map_err(|error| named(format!("cannot be read: {error}")))?;
    let told = |faults: Vec<definitions::DefinitionsFault>| {
        faults.iter().map(|fault| named(fault.to_string())).collect::<Vec<_>>().join("\n")
    };
    definitions::read(&text).map_err(told)
}

/// The initial definitions of a broker with this many shards.
///
/// # Errors
/// What a catalog with these limits refuses, with its place in the file.
pub fn initial(config: &BrokerConfig, limits: &CatalogLimits, shards: u16) -> Result<InitialDefinitions, ConfigError> {
    let file = config.definitions.as_deref().map(read).transpose().map_err(|why| config.fault("definitions", why))?;
    let has_users = file.as_ref().is_some_and(DefinitionsFile::has_users);
    let has_vhosts = file.as_ref().is_some_and(DefinitionsFile::has_vhosts);
    // Defaults give way to what the file defines.
    let is_wanted = |origin: &Origin, replaced: bool| *origin != Origin::Default || !replaced;
    let vhosts = config.vhosts.iter().filter(|vhost| is_wanted(&vhost.origin, has_vhosts)).map(|vhost| {
        let definition = Definition::CreateVhost { name: name(&vhost.name) };
        (definition, "vhost", &vhost.origin)
    });
    let mut passwords = Vec::new();
    let users: Vec<_> = config.users.iter().filter(|user| is_wanted(&user.origin, has_users)).collect();
    for user in &users {
        passwords.push(match &user.password {
            config::PasswordConfig::Plain(secret) => Password::plain(secret),
            config::PasswordConfig::Hash(hash) => Password::hashed(hash).map_err(|why| ConfigFault {
                origin: user.origin.clone(),
                key: "user.password_hash".to_owned(),
                why,
            })?,
        });
    }
    let users = users.into_iter().zip(passwords).map(|(user, password)| {
        let definition = Definition::PutUser {
            name: name(&user.name),
            password,
            tags: user.tags.iter().map(|tag| name(tag)).collect(),
            loopback_only: config.loopback_users.contains(&user.name),
        };
        (definition, "user", &user.origin)
    });
    let is_default = |written: &&config::PermissionConfig| is_wanted(&written.origin, has_users || has_vhosts);
    let permissions = config.permissions.iter().filter(is_default).map(|written| {
        let permission = Permission {
            configure: written.configure.clone(),
            write: written.write.clone(),
            read: written.read.clone(),
        };
        let definition =
            Definition::SetPermission { user: name(&written.user), vhost: name(&written.vhost), permission };
        (definition, "permission", &written.origin)
    });
    let vhost_limits = config.vhosts.iter().filter_map(|vhost| {
        let limits = VhostLimits {
            connections_max: vhost.max_connections,
            queues_max: vhost.max_queues,
            queue_bytes_max: vhost.max_queue_bytes,
        };
        let definition = Definition::SetVhostLimits { vhost: name(&vhost.name), limits };
        (limits != VhostLimits::default()).then_some((definition, "vhost", &vhost.origin))
    });
    let user_limits = config.users.iter().filter_map(|user| {
        let limits = UserLimits { connections_max: user.max_connections, channels_max: user.max_channels };
        let definition = Definition::SetUserLimits { user: name(&user.name), limits };
        (limits != UserLimits::default()).then_some((definition, "user", &user.origin))
    });
    let topics = config.topic_permissions.iter().map(|written| {
        let definition = Definition::SetTopicPermission {
            user: name(&written.user),
            vhost: name(&written.vhost),
            exchange: name(&written.exchange),
            permission: TopicPermission { write: written.write.clone(), read: written.read.clone() },
        };
        (definition, "topic_permission", &written.origin)
    });
    // Tried here once, where an error can name its line.
    let mut trial = Catalog::new(limits.clone());
    let all = vhosts.chain(vhost_limits).chain(users).chain(user_limits).chain(permissions).chain(topics);
    let tried = all.map(|(definition, key, origin): (_, &str, &Origin)| match trial.execute(&definition) {
        Ok(_executed) => Ok((definition, *origin == Origin::Default)),
        Err(refusal) => Err(ConfigFault { origin: origin.clone(), key: key.to_owned(), why: refusal.text }),
    });
    let tried = tried.collect::<Result<Vec<_>, ConfigFault>>()?;
    let is_configured = |(definition, is_default): &(Definition, bool)| (!is_default).then(|| definition.clone());
    let mut without_defaults: Vec<_> = tried.iter().filter_map(is_configured).collect();
    let mut definitions: Vec<_> = tried.into_iter().map(|(definition, _)| definition).collect();
    let first_configured = definitions.len();
    if let Some(file) = &file {
        let loopback_only = |user: &str| config.loopback_users.iter().any(|name| name == user);
        let path = config.definitions.as_deref().unwrap_or_default();
        let loaded = file.load(&mut trial, shards, loopback_only);
        definitions.extend(loaded.map_err(|fault| config.fault("definitions", format!("{path}: {fault}")))?);
    }
    definitions.extend(policies::all(config, file.as_ref(), &mut trial)?);
    without_defaults.extend_from_slice(&definitions[first_configured..]);
    Ok(InitialDefinitions { definitions, without_defaults, catalog: trial, file })
}

/// Runs `write` with a source of salts for plain passwords.
///
/// # Errors
/// The system has no random numbers.
pub fn salted<T>(write: impl FnOnce(&mut dyn FnMut() -> [u8; 4]) -> T) -> Result<T, String> {
    let mut unsalted = None;
    let written = write(&mut || match salt() {
        Ok([a, b, c, d, ..]) => [a, b, c, d],
        Err(error) => {
            unsalted = Some(error);
            [0; 4]
        }
    });
    match unsalted {
        Some(error) => Err(format!("no random salt is available: {error}")),
        None => Ok(written),
    }
}

/// The configuration has validated its names.
fn name(text: &str) -> Name {
    Name::from(text)
}
