//! The file: its sections and their entries, each checked for itself.
//!
//! Enters: JSON.  Leaves: typed entries with their places; every fault at once, and what is odd but no fault.
//! Owns:   which keys there are and what they hold.

use crate::json_table::table_of_json;
use crate::limits::{FAULTS_MAX, FILE_BYTES_MAX};
use crate::vhost_notes::{VHOST_NOTES, VHOSTS};
use crate::{DefinitionsFault, Json, KeptSections};
use catalog::QUEUE_TYPE;
use catalog::{
    ExchangeKind, Name, Password, Permission, Policy, ResourceKind, TopicPermission, UserLimits, VhostLimits,
};
use wire::{Table, Value};

/// An entry and where it stands.
pub(crate) struct Located<T> {
    pub path: String,
    pub entry: T,
}

pub(crate) struct UserEntry {
    pub name: Name,
    pub password: Password,
    pub tags: Vec<Name>,
    pub limits: UserLimits,
}

pub(crate) struct DefinedExchange {
    pub vhost: Name,
    pub name: Name,
    pub kind: ExchangeKind,
    pub durable: bool,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Table,
}

pub(crate) struct DefinedQueue {
    pub vhost: Name,
    pub name: Name,
    pub durable: bool,
    pub auto_delete: bool,
    pub arguments: Table,
}

pub(crate) struct DefinedBinding {
    pub vhost: Name,
    pub source: Name,
    pub destination: Name,
    pub to_queue: bool,
    pub routing_key: Box<[u8]>,
    pub arguments: Table,
}

/// A definitions file, sound entry by entry.
#[derive(Default)]
pub struct DefinitionsFile {
    pub(crate) vhosts: Vec<Located<Name>>,
    pub(crate) users: Vec<Located<UserEntry>>,
    pub(crate) permissions: Vec<Located<(Name, Name, Permission)>>,
    pub(crate) topic_permissions: Vec<Located<(Name, Name, Name, TopicPermission)>>,
    pub(crate) exchanges: Vec<Located<DefinedExchange>>,
    pub(crate) queues: Vec<Located<DefinedQueue>>,
    pub(crate) bindings: Vec<Located<DefinedBinding>>,
    pub(crate) policies: Vec<Located<Policy>>,
    pub(crate) operator_policies: Vec<Located<Policy>>,
    /// What each virtual host may hold: what its own entry says.
    pub(crate) vhost_limits: Vec<Located<(Name, VhostLimits)>>,
    /// The same, as the parameters say.
    pub(crate) limit_parameters: Vec<Located<(Name, VhostLimits)>>,
    /// What means nothing to this broker, as it is written: other `parameters`, `global_parameters`.
    pub kept: Vec<(String, Vec<Json>)>,
    /// What is odd but no fault, in sentences.
    pub warnings: Vec<String>,
}

impl DefinitionsFile {
    /// The policies: place and policy.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.policies.iter().map(|policy| (&*policy.path, &policy.entry))
    }

    /// The operator's own: place and policy.
    pub fn operator_policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.operator_policies.iter().map(|policy| (&*policy.path, &policy.entry))
    }

    /// Whether it has users of its own.
    pub fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Whether it has virtual hosts of its own.
    pub fn has_vhosts(&self) -> bool {
        !self.vhosts.is_empty()
    }

    /// How many entries each section has, the empty ones left out.
    pub fn counts(&self) -> Vec<(&str, usize)> {
        let mut counts = vec![
            ("vhosts", self.vhosts.len()),
            ("users", self.users.len()),
            ("permissions", self.permissions.len()),
            ("topic_permissions", self.topic_permissions.len()),
            ("exchanges", self.exchanges.len()),
            ("queues", self.queues.len()),
            ("bindings", self.bindings.len()),
            ("policies", self.policies.len()),
            ("operator_policies", self.operator_policies.len()),
            ("vhost-limits", self.limit_parameters.len()),
        ];
        let kept = self.kept.iter().filter(|(name, _)| name != VHOSTS);
        counts.extend(kept.map(|(name, entries)| (&**name, entries.len())));
        counts.retain(|(_, count)| *count > 0);
        counts
    }
}

/// Checks a file.
///
/// # Errors
/// Its faults, the first hundred.
pub fn read(text: &[u8]) -> Result<DefinitionsFile, Vec<DefinitionsFault>> {
    let whole = |why: String| vec![DefinitionsFault { path: String::new(), why }];
    if text.len() > FILE_BYTES_MAX {
        return Err(whole(format!("a definitions file has {FILE_BYTES_MAX} bytes at most")));
    }
    let json: Json = serde_json::from_slice(text).map_err(|error| whole(format!("this is no JSON: {error}")))?;
    let Json::Object(sections) = json else { return Err(whole(format!("an object is needed, not {}", json.kind()))) };
    let mut file = DefinitionsFile::default();
    let mut faults = Vec::new();
    for (name, value) in sections {
        file.take_section(&name, value, &mut faults);
    }
    file.warn_of_limits();
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(file) } else { Err(faults) }
}

/// Components of parameters that have an effect.
pub(crate) const OPERATOR_POLICY: &str = "operator_policy";
pub(crate) const VHOST_LIMITS: &str = "vhost-limits";

/// Those that are kept as they are written, and that the broker's program makes links of.
const OF_LINKS: [&str; 3] = ["federation-upstream", "federation-upstream-set", "shovel"];

fn is_of(parameter: &Json, components: &[&str]) -> bool {
    let component = parameter.get("component");
    components.iter().any(|known| component == Some(&Json::text(known)))
}

fn is_read_here(parameter: &Json) -> bool {
    !matches!(parameter, Json::Object(_)) || is_of(parameter, &[OPERATOR_POLICY, VHOST_LIMITS])
}

/// Sections about the file and its origin.
const ABOUT: [&str; 7] = [
    "rabbit_version",
    "rabbitmq_version",
    "product_name",
    "product_version",
    "rabbitmq_definition_format",
    "original_cluster_name",
    "explanation",
];

impl DefinitionsFile {
    /// Keeps what the entry of a virtual host says that has no effect.
    fn keep_vhost_notes(&mut self, fields: &[(String, Json)]) {
        let is_kept = |key: &str| key == "name" || VHOST_NOTES.iter().any(|note| note.key() == key);
        let notes: Vec<_> = fields.iter().filter(|(key, _)| is_kept(key)).cloned().collect();
        if notes.len() > 1 {
            let mut kept = KeptSections(std::mem::take(&mut self.kept));
            kept.put(VHOSTS, &["name"], Json::Object(notes));
            self.kept = kept.0;
        }
    }

    fn take_section(&mut self, name: &str, value: Json, faults: &mut Vec<DefinitionsFault>) {
        if ABOUT.contains(&name) {
            return;
        }
        let items = match value {
            Json::List(items) => items,
            other => {
                let why = format!("a list is needed, not {}", other.kind());
                return faults.push(DefinitionsFault { path: format!(".{name}"), why });
            }
        };
        let (items, kept): (Vec<_>, Vec<_>) = items.into_iter().enumerate().partition(|(_, item)| match name {
            "global_parameters" => false,
            "parameters" => is_read_here(item),
            _ => true,
        });
        if !kept.is_empty() {
            let count = kept.iter().filter(|(_, item)| !is_of(item, &OF_LINKS)).count();
            if count > 0 {
                self.warnings.push(format!(".{name}: {count} kept, but without effect in this broker"));
            }
            self.kept.push((name.to_owned(), kept.into_iter().map(|(_, item)| item).collect()));
        }
        for (at, item) in &items {
            let path = format!(".{name}[{at}]");
            let Json::Object(fields) = item else {
                faults.push(DefinitionsFault { path, why: format!("an object is needed, not {}", item.kind()) });
                continue;
            };
            let entry = EntryReader { path: &path, fields };
            let known = entry.take(self, name);
            match known {
                Ok(known) => {
                    for (key, _) in fields.iter().filter(|(key, _)| !known.contains(&&**key)) {
                        self.warnings.push(format!("{path}.{key}: unknown here, and ignored"));
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
    }
}

pub(crate) struct EntryReader<'a> {
    pub path: &'a str,
    pub fields: &'a [(String, Json)],
}

impl EntryReader<'_> {
    /// Takes the entry into its section. Answers the keys that are known there.
    fn take(&self, file: &mut DefinitionsFile, section: &str) -> Result<&'static [&'static str], DefinitionsFault> {
        let path = self.path.to_owned();
        Ok(match section {
            "vhosts" => {
                let name = self.name(ResourceKind::Vhost, "name")?;
                let limits = self.vhost_limits("limits")?;
                file.vhosts.push(Located { path: path.clone(), entry: name.clone() });
                file.keep_vhost_notes(self.fields);
                if limits != VhostLimits::default() {
                    file.vhost_limits.push(Located { path, entry: (name, limits) });
                }
                &[
                    "name",
                    "limits",
                    "metadata",
                    "description",
                    "tags",
                    "tracing",
                    "default_queue_type",
                    "protected_from_deletion",
                ]
            }
            "users" => {
                let (name, password, tags) = (self.name(ResourceKind::User, "name")?, self.password()?, self.tags()?);
                let entry = UserEntry { name, password, tags, limits: self.user_limits("limits")? };
                file.users.push(Located { path, entry });
                &["name", "password_hash", "hashing_algorithm", "tags", "limits"]
            }
            "permissions" => {
                let [configure, write, read] = [self.text("configure")?, self.text("write")?, self.text("read")?];
                let permission = Permission { configure, write, read };
                let entry =
                    (self.name(ResourceKind::User, "user")?, self.name(ResourceKind::Vhost, "vhost")?, permission);
                file.permissions.push(Located { path, entry });
                &["user", "vhost", "configure", "write", "read"]
            }
            "topic_permissions" => {
                let permission = TopicPermission { write: self.text("write")?, read: self.text("read")? };
                let (user, vhost) = (self.name(ResourceKind::User, "user")?, self.name(ResourceKind::Vhost, "vhost")?);
                let entry = (user, vhost, self.name(ResourceKind::Exchange, "exchange")?, permission);
                file.topic_permissions.push(Located { path, entry });
                &["user", "vhost", "exchange", "write", "read"]
            }
            "exchanges" => {
                let kind = self.text("type")?;
                let entry = DefinedExchange {
                    vhost: self.name(ResourceKind::Vhost, "vhost")?,
                    name: self.name(ResourceKind::Exchange, "name")?,
                    kind: ExchangeKind::parse(kind.as_bytes()).map_err(|refusal| self.fault("type", refusal.text))?,
                    durable: self.flag("durable", true)?,
                    auto_delete: self.flag("auto_delete", false)?,
                    internal: self.flag("internal", false)?,
                    arguments: self.arguments()?,
                };
                file.exchanges.push(Located { path, entry });
                &["vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"]
            }
            "queues" => {
                let mut arguments = self.arguments()?;
                match self.optional_text("type")?.as_deref() {
                    None | Some("classic") => {}
                    // RabbitMQ writes it in the arguments, too.
                    Some("quorum") if arguments.get(QUEUE_TYPE).is_some() => {}
                    Some(kind @ "quorum") => arguments = self.with_queue_type(arguments, kind)?,
                    Some(kind) => {
                        return Err(self.fault("type", format!("queues are classic or quorum queues here, not {kind}")));
                    }
                }
                let entry = DefinedQueue {
                    vhost: self.name(ResourceKind::Vhost, "vhost")?,
                    name: self.name(ResourceKind::Queue, "name")?,
                    durable: self.flag("durable", true)?,
                    auto_delete: self.flag("auto_delete", false)?,
                    arguments,
                };
                file.queues.push(Located { path, entry });
                &["vhost", "name", "type", "durable", "auto_delete", "arguments"]
            }
            "bindings" => {
                let to_queue = match &*self.text("destination_type")? {
                    "queue" => true,
                    "exchange" => false,
                    other => {
                        let why = format!("a destination is a queue or an exchange, not '{other}'");
                        return Err(self.fault("destination_type", why));
                    }
                };
                let routing_key = self.text("routing_key")?;
                if routing_key.len() > catalog::limits::NAME_BYTES_MAX {
                    return Err(self.fault("routing_key", "it has more than 255 bytes"));
                }
                let entry = DefinedBinding {
                    vhost: self.name(ResourceKind::Vhost, "vhost")?,
                    source: self.name(ResourceKind::Exchange, "source")?,
                    destination: self
                        .name(if to_queue { ResourceKind::Queue } else { ResourceKind::Exchange }, "destination")?,
                    to_queue,
                    routing_key: routing_key.into_bytes().into(),
                    arguments: self.arguments()?,
                };
                file.bindings.push(Located { path, entry });
                &["vhost", "source", "destination", "destination_type", "routing_key", "arguments", "properties_key"]
            }
            "policies" => {
                let policy =
                    self.policy_of_file(file, self.name(ResourceKind::Vhost, "vhost")?, self.policy_name()?, false)?;
                file.policies.push(Located { path, entry: policy });
                &["vhost", "name", "pattern", "apply-to", "definition", "priority"]
            }
            "parameters" => {
                let vhost = self.name(ResourceKind::Vhost, "vhost")?;
                if self.get("component") == Some(&Json::text(OPERATOR_POLICY)) {
                    let Some(Json::Object(fields)) = self.get("value") else {
                        return Err(self.fault("value", "an object is needed"));
                    };
                    let value = EntryReader { path: &format!("{path}.value"), fields };
                    let policy = value.policy_of_file(file, vhost, self.policy_name()?, true)?;
                    file.operator_policies.push(Located { path, entry: policy });
                } else {
                    let limits = self.vhost_limits("value")?;
                    file.limit_parameters.push(Located { path, entry: (vhost, limits) });
                }
                &["vhost", "component", "name", "value"]
            }
            other => {
                return Err(DefinitionsFault { path: format!(".{other}"), why: "there is no such section".to_owned() });
            }
        })
    }

    pub(crate) fn fault(&self, key: &str, why: impl Into<String>) -> DefinitionsFault {
        DefinitionsFault { path: format!("{}.{key}", self.path), why: why.into() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn optional_text(&self, key: &str) -> Result<Option<String>, DefinitionsFault> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.fault(key, format!("a string is needed, not {}", other.kind()))),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<String, DefinitionsFault> {
        self.optional_text(key)?.ok_or_else(|| self.fault(key, "it is missing"))
    }

    pub(crate) fn name(&self, kind: ResourceKind, key: &str) -> Result<Name, DefinitionsFault> {
        Name::new(kind, self.text(key)?.as_bytes()).map_err(|refusal| self.fault(key, refusal.text))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, DefinitionsFault> {
        match self.get(key) {
            None => Ok(default),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.fault(key, format!("a boolean is needed, not {}", other.kind()))),
        }
    }

    pub(crate) fn password(&self) -> Result<Password, DefinitionsFault> {
        let hash = self.optional_text("password_hash")?.unwrap_or_default();
        let algorithm = self.optional_text("hashing_algorithm")?;
        match algorithm.as_deref() {
            _ if hash.is_empty() => Ok(Password::Never),
            Some("rabbit_password_hashing_sha256" | "argon2" | "harrier_argon2") => {
                Password::hashed(&hash).map_err(|why| self.fault("password_hash", why))
            }
            None if hash.starts_with('$') => Password::hashed(&hash).map_err(|why| self.fault("password_hash", why)),
            Some(other) => {
                let why = format!("'{other}' is not known here: rabbit_password_hashing_sha256 and argon2 are");
                Err(self.fault("hashing_algorithm", why))
            }
            None => Err(self.fault("hashing_algorithm", "it is missing")),
        }
    }

    /// A list of texts, or, as older versions wrote them, one text with commas.
    pub(crate) fn tags(&self) -> Result<Vec<Name>, DefinitionsFault> {
        let wrong = || self.fault("tags", "a list of strings, or a string with commas, is needed");
        let texts: Vec<String> = match self.get("tags") {
            None => vec![],
            Some(Json::Text(text)) => text.split(',').map(|tag| tag.trim().to_owned()).collect(),
            Some(Json::List(items)) => {
                let text = |item: &Json| if let Json::Text(text) = item { Some(text.clone()) } else { None };
                items.iter().map(text).collect::<Option<_>>().ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        let tags = texts.iter().filter(|tag| !tag.is_empty());
        tags.map(|tag| {
            Name::new(ResourceKind::User, tag.as_bytes()).map_err(|refusal| self.fault("tags", refusal.text))
        })
        .collect()
    }

    /// The arguments of a queue whose type only the entry names.
    fn with_queue_type(&self, arguments: Table, kind: &str) -> Result<Table, DefinitionsFault> {
        arguments.with(QUEUE_TYPE, Value::text(kind)).map_err(|fault| self.fault("arguments", fault.to_string()))
    }

    fn arguments(&self) -> Result<Table, DefinitionsFault> {
        match self.get("arguments") {
            None => Ok(Table::new()),
            Some(value) => table_of_json(value).map_err(|(path, why)| self.fault(&format!("arguments{path}"), why)),
        }
    }
}
