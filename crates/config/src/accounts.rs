//! Virtual hosts, users and permissions of the file.
//!
//! Enters: `[[vhost]]`, `[[user]]`, `[[permission]]`, `[[topic_permission]]`.  Leaves: the same, checked against each other.
//! Owns:   their keys, and what stands in when the file has none.
//! Never:  decides what a pattern matches; shows a password in an error or in `Debug`.

use crate::broker::BrokerConfig;
use crate::limits::{MAX_QUEUE_BYTES_MOST, NAME_BYTES_MAX, PASSWORD_BYTES_MAX};
use crate::origin::{ConfigFault, Origin, SourceText};
use crate::policies::PolicyConfig;
use crate::setting::{SettingKind, SettingValue, quoted, type_of};
use crate::tables::{TABLES, TableForm};
use std::collections::HashSet;
use std::fmt::{self, Write};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A virtual host.
#[derive(Clone, Debug)]
pub struct VhostConfig {
    pub name: String,
    /// Connections at one time.
    pub max_connections: Option<u32>,
    pub max_queues: Option<u32>,
    /// Bytes that wait in its queues.
    pub max_queue_bytes: Option<u64>,
    /// Where it is declared.
    pub origin: Origin,
}

#[derive(Clone)]
pub struct UserConfig {
    pub name: String,
    /// How it proves itself.
    pub password: PasswordConfig,
    /// Labels such as `administrator`.
    pub tags: Vec<String>,
    /// Connections at one time.
    pub max_connections: Option<u32>,
    /// Channels of all its connections.
    pub max_channels: Option<u32>,
    /// Where it is declared.
    pub origin: Origin,
}

/// What a user's password is kept as.
#[derive(Clone, PartialEq, Eq)]
pub enum PasswordConfig {
    Plain(String),
    /// As a hash; empty for a user without a password.
    Hash(String),
}

impl fmt::Debug for UserConfig {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("User").field("name", &self.name).field("tags", &self.tags).finish_non_exhaustive()
    }
}

/// What a user may do in a virtual host: three patterns of names.
#[derive(Clone, Debug)]
pub struct PermissionConfig {
    pub user: String,
    /// The virtual host.
    pub vhost: String,
    /// Names it may declare and delete.
    pub configure: String,
    /// Names it may publish and bind to.
    pub write: String,
    /// Names it may consume and bind from.
    pub read: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// With which routing keys a user may use a topic exchange: two patterns.
#[derive(Clone, Debug)]
pub struct TopicPermissionConfig {
    pub user: String,
    /// The virtual host.
    pub vhost: String,
    pub exchange: String,
    /// Keys it may publish with.
    pub write: String,
    /// Keys it may bind with.
    pub read: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The accounts of a file, and its policies.
#[derive(Default)]
pub(crate) struct Accounts {
    pub vhosts: Vec<VhostConfig>,
    pub users: Vec<UserConfig>,
    pub permissions: Vec<PermissionConfig>,
    pub topic_permissions: Vec<TopicPermissionConfig>,
    pub policies: Vec<PolicyConfig>,
    pub operator_policies: Vec<PolicyConfig>,
}

/// One table under way: what it has, and what is wrong with it.
pub(crate) struct TableReader<'t, 'd> {
    pub place: &'t SourceText<'t>,
    form: &'static TableForm,
    pub table: &'t DeTable<'d>,
    pub origin: Origin,
    faults: &'t mut Vec<ConfigFault>,
}

impl Accounts {
    /// Takes in the value of a key that is one of the tables.
    pub fn read(
        &mut self,
        place: &SourceText<'_>,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        faults: &mut Vec<ConfigFault>,
    ) {
        let Some(form) = TABLES.iter().find(|form| form.name == name) else { return };
        let DeValue::Array(items) = value.get_ref() else {
            let what = type_of(value.get_ref());
            let why = format!("it is written [[{name}]], once for each, and not as {what}");
            return faults.push(ConfigFault::new(place.line_of(value.span().start), name, why));
        };
        for item in items {
            let origin = place.line_of(item.span().start);
            let DeValue::Table(table) = item.get_ref() else {
                let why = format!("it is written [[{name}]], once for each");
                faults.push(ConfigFault::new(origin, name, why));
                continue;
            };
            let mut entry = TableReader { place, form, table, origin: origin.clone(), faults };
            entry.find_unknown_keys();
            match name {
                "vhost" => {
                    let name = entry.name("name");
                    let (max_connections, max_queues) = (entry.count("max_connections"), entry.count("max_queues"));
                    let max_queue_bytes = entry.bytes("max_queue_bytes");
                    let vhost = |name| VhostConfig { name, max_connections, max_queues, max_queue_bytes, origin };
                    self.vhosts.extend(name.map(vhost));
                }
                "user" => {
                    let (name, password, tags) = (entry.name("name"), entry.password(), entry.tags());
                    let (max_connections, max_channels) = (entry.count("max_connections"), entry.count("max_channels"));
                    if let (Some(name), Some(password)) = (name, password) {
                        self.users.push(UserConfig { name, password, tags, max_connections, max_channels, origin });
                    }
                }
                "policy" => self.policies.extend(PolicyConfig::read(&mut entry)),
                "operator_policy" => self.operator_policies.extend(PolicyConfig::read(&mut entry)),
                "topic_permission" => {
                    let names = ["user", "vhost", "exchange"].map(|key| entry.name(key));
                    let patterns = ["write", "read"].map(|key| entry.text(key));
                    if let ([Some(user), Some(vhost), Some(exchange)], [Some(write), Some(read)]) = (names, patterns) {
                        self.topic_permissions.push(TopicPermissionConfig {
                            user,
                            vhost,
                            exchange,
                            write,
                            read,
                            origin,
                        });
                    }
                }
                _ => {
                    let (user, vhost) = (entry.name("user"), entry.name("vhost"));
                    let patterns = ["configure", "write", "read"].map(|key| entry.text(key));
                    if let (Some(user), Some(vhost), [Some(configure), Some(write), Some(read)]) =
                        (user, vhost, patterns)
                    {
                        self.permissions.push(PermissionConfig { user, vhost, configure, write, read, origin });
                    }
                }
            }
        }
    }

    /// Fills in the defaults and checks each against the others.
    pub fn complete(mut self, faults: &mut Vec<ConfigFault>, warnings: &mut Vec<String>) -> Self {
        let guest_may_do_everything = self.users.is_empty() && self.permissions.is_empty();
        if self.vhosts.is_empty() {
            self.vhosts.push(VhostConfig {
                name: "/".into(),
                max_connections: None,
                max_queues: None,
                max_queue_bytes: None,
                origin: Origin::Default,
            });
        }
        if self.users.is_empty() {
            let password = PasswordConfig::Plain("guest".to_owned());
            self.users.push(UserConfig {
                name: "guest".to_owned(),
                password,
                tags: vec!["administrator".to_owned()],
                max_connections: None,
                max_channels: None,
                origin: Origin::Default,
            });
        }
        if guest_may_do_everything {
            let all = || ".*".to_owned();
            self.permissions.extend(self.vhosts.iter().map(|vhost| PermissionConfig {
                user: "guest".into(),
                vhost: vhost.name.clone(),
                configure: all(),
                write: all(),
                read: all(),
                origin: Origin::Default,
            }));
        }
        let (mut vhosts, mut users, mut pairs, mut allowed) =
            (HashSet::new(), HashSet::new(), HashSet::new(), HashSet::new());
        let mut fault = |origin: &Origin, key, why| faults.push(ConfigFault::new(origin.clone(), key, why));
        for vhost in &self.vhosts {
            if !vhosts.insert(&*vhost.name) {
                fault(&vhost.origin, "vhost.name", format!("there are two virtual hosts '{}'", vhost.name));
            }
        }
        for user in &self.users {
            if !users.insert(&*user.name) {
                fault(&user.origin, "user.name", format!("there are two users '{}'", user.name));
            }
        }
        for PermissionConfig { user, vhost, origin, .. } in &self.permissions {
            allowed.insert(&**user);
            if *origin == Origin::Default {
                continue;
            }
            if !users.contains(&**user) {
                fault(origin, "permission.user", format!("there is no user '{user}'"));
            }
            if !vhosts.contains(&**vhost) {
                fault(origin, "permission.vhost", format!("there is no virtual host '{vhost}'"));
            }
            if !pairs.insert((&**user, &**vhost)) {
                fault(origin, "permission", format!("there are two for user '{user}' in virtual host '{vhost}'"));
            }
        }
        let mut topics = HashSet::new();
        for TopicPermissionConfig { user, vhost, exchange, origin, .. } in &self.topic_permissions {
            if !users.contains(&**user) {
                fault(origin, "topic_permission.user", format!("there is no user '{user}'"));
            }
            if !vhosts.contains(&**vhost) {
                fault(origin, "topic_permission.vhost", format!("there is no virtual host '{vhost}'"));
            }
            if !topics.insert((&**user, &**vhost, &**exchange)) {
                let why =
                    format!("there are two for user '{user}' and exchange '{exchange}' in virtual host '{vhost}'");
                fault(origin, "topic_permission", why);
            }
        }
        for user in self.users.iter().filter(|user| user.origin != Origin::Default) {
            if let PasswordConfig::Plain(_) = user.password {
                let place = &user.origin;
                warnings.push(format!(
                    "{place}: the password of user '{}' can be read there; harrier hash-password makes a password_hash",
                    user.name
                ));
            }
        }
        for user in self.users.iter().filter(|user| !allowed.contains(&*user.name)) {
            warnings.push(format!("user '{}' has no permission on any virtual host", user.name));
        }
        self
    }

    /// As a file has them.
    pub fn print(config: &BrokerConfig) -> String {
        let mut out = String::new();
        let mut put = |table: &str, keys: &[(&str, String)]| {
            let _infallible = write!(out, "\n[[{table}]]\n");
            for (key, value) in keys.iter().filter(|(_, value)| !value.is_empty()) {
                let _infallible = writeln!(out, "{key} = {value}");
            }
        };
        fn number(limit: Option<impl ToString>) -> String {
            limit.map(|limit| limit.to_string()).unwrap_or_default()
        }
        for VhostConfig { name, max_connections, max_queues, max_queue_bytes, .. } in &config.vhosts {
            let limits = [
                ("max_connections", number(*max_connections)),
                ("max_queues", number(*max_queues)),
                ("max_queue_bytes", number(*max_queue_bytes)),
            ];
            put("vhost", &[&[("name", quoted(name))], &limits[..]].concat());
        }
        for user in &config.users {
            let tags = user.tags.iter().map(|tag| quoted(tag)).collect::<Vec<_>>().join(", ");
            let password = match &user.password {
                PasswordConfig::Plain(secret) => ("password", quoted(secret)),
                PasswordConfig::Hash(hash) => ("password_hash", quoted(hash)),
            };
            let limits =
                [("max_connections", number(user.max_connections)), ("max_channels", number(user.max_channels))];
            put(
                "user",
                &[&[("name", quoted(&user.name)), password, ("tags", format!("[{tags}]"))], &limits[..]].concat(),
            );
        }
        for permission in &config.permissions {
            let PermissionConfig { user, vhost, configure, write, read, .. } = permission;
            let pairs = [("user", user), ("vhost", vhost), ("configure", configure), ("write", write), ("read", read)];
            put("permission", &pairs.map(|(key, value)| (key, quoted(value))));
        }
        for permission in &config.topic_permissions {
            let TopicPermissionConfig { user, vhost, exchange, write, read, .. } = permission;
            let pairs = [("user", user), ("vhost", vhost), ("exchange", exchange), ("write", write), ("read", read)];
            put("topic_permission", &pairs.map(|(key, value)| (key, quoted(value))));
        }
        config.policies.iter().for_each(|policy| put("policy", &policy.printed()));
        config.operator_policies.iter().for_each(|policy| put("operator_policy", &policy.printed()));
        out
    }
}

impl TableReader<'_, '_> {
    pub fn fault(&mut self, origin: Origin, key: &str, why: impl Into<String>) {
        self.faults.push(ConfigFault::new(origin, format!("{}.{key}", self.form.name), why));
    }

    fn find_unknown_keys(&mut self) {
        for (key, _) in self.table {
            let name = key.get_ref();
            if self.form.keys.iter().any(|known| known.name == *name) {
                continue;
            }
            let known = self.form.keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            let why = if crate::broker::SETTINGS.iter().any(|setting| setting.name == *name) {
                format!("this setting belongs above the first [[…]]; [[{}]] has {known}", self.form.name)
            } else {
                format!("unknown key; [[{}]] has {known}", self.form.name)
            };
            let origin = self.place.line_of(key.span().start);
            self.fault(origin, name, why);
        }
    }

    pub fn value(&self, key: &str) -> Option<(Origin, &DeValue<'_>)> {
        let value = self.table.get(key)?;
        Some((self.place.line_of(value.span().start), value.get_ref()))
    }

    pub fn text(&mut self, key: &str) -> Option<String> {
        let (origin, why) = match self.value(key) {
            Some((_, DeValue::String(text))) => return Some(text.to_string()),
            Some((origin, other)) => (origin, format!("a string is needed, not {}", type_of(other))),
            None => (self.origin.clone(), "it is missing".to_owned()),
        };
        self.fault(origin, key, why);
        None
    }

    pub fn name(&mut self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        let Some(why) = name_fault(&text) else { return Some(text) };
        let origin = self.value(key).map_or_else(|| self.origin.clone(), |(origin, _)| origin);
        self.fault(origin, key, why);
        None
    }

    /// A number that may be left out.
    fn number(&mut self, key: &str, kind: SettingKind) -> Option<u64> {
        let (origin, read) = self.value(key).map(|(origin, value)| (origin, kind.read_toml(value)))?;
        match read {
            Ok(SettingValue::Number(number)) => return Some(number),
            Ok(_) => self.fault(origin, key, "a number is needed"),
            Err(why) => self.fault(origin, key, why),
        }
        None
    }

    fn count(&mut self, key: &str) -> Option<u32> {
        let count = self.number(key, SettingKind::number(0, u32::MAX.into()))?;
        u32::try_from(count).ok()
    }

    fn bytes(&mut self, key: &str) -> Option<u64> {
        self.number(key, SettingKind::Bytes { least: 0, most: MAX_QUEUE_BYTES_MOST })
    }

    fn password(&mut self) -> Option<PasswordConfig> {
        if self.value("password_hash").is_some() {
            if let Some((origin, _)) = self.value("password") {
                self.fault(origin, "password", "a user has a password or a password_hash");
            }
            return self.text("password_hash").map(PasswordConfig::Hash);
        }
        let text = self.text("password")?;
        if text.len() <= PASSWORD_BYTES_MAX {
            return Some(PasswordConfig::Plain(text));
        }
        let origin = self.origin.clone();
        self.fault(origin, "password", format!("it has {} bytes; {PASSWORD_BYTES_MAX} are the most", text.len()));
        None
    }

    fn tags(&mut self) -> Vec<String> {
        let (origin, value) = match self.value("tags") {
            Some((origin, DeValue::Array(items))) => {
                let text = |item: &Spanned<DeValue<'_>>| item.get_ref().as_str().map(str::to_owned);
                (origin, items.iter().map(text).collect::<Option<Vec<_>>>())
            }
            Some((origin, _)) => (origin, None),
            None => return vec![],
        };
        match value {
            Some(tags) if tags.iter().all(|tag| name_fault(tag).is_none()) => tags,
            _ => {
                self.fault(origin, "tags", "a list of strings is needed, each a name of at most 255 bytes");
                vec![]
            }
        }
    }
}

/// Why a text is no name.
fn name_fault(text: &str) -> Option<String> {
    match text {
        "" => Some("a name is not empty".to_owned()),
        text if text.len() > NAME_BYTES_MAX => {
            Some(format!("a name of {} bytes is too long; {NAME_BYTES_MAX} are the most", text.len()))
        }
        text if text.chars().any(char::is_control) => Some("a name has no control characters".to_owned()),
        _ => None,
    }
}
