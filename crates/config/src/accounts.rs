//! Virtual hosts, users and permissions of the file.
//!
//! Enters: `[[vhost]]`, `[[user]]`, `[[permission]]`.  Leaves: the same, checked against each other.
//! Owns:   their keys, and what stands in when the file has none.
//! Never:  decides what a pattern matches; shows a password in an error or in `Debug`.

use crate::limits::{NAME_BYTES_MAX, PASSWORD_BYTES_MAX};
use crate::origin::{Fault, Origin, Place};
use crate::setting::{quoted, type_of};
use std::collections::HashSet;
use std::fmt::{self, Write};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A virtual host.
#[derive(Clone, Debug)]
pub struct Vhost {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A user.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// How it proves itself.
    pub password: Password,
    /// Labels such as `administrator`.
    pub tags: Vec<String>,
    /// Where it is declared.
    pub origin: Origin,
}

/// What a user's password is kept as.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// As it is.
    Plain(String),
    /// As a hash; empty for a user without a password.
    Hash(String),
}

impl fmt::Debug for User {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("User").field("name", &self.name).field("tags", &self.tags).finish_non_exhaustive()
    }
}

/// What a user may do in a virtual host: three patterns of names.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The user.
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

/// A key of one of the tables, for the documents.
pub(crate) struct Key {
    pub name: &'static str,
    pub form: &'static str,
    pub help: &'static str,
}

/// A kind of table, for the documents.
pub(crate) struct TableForm {
    pub name: &'static str,
    pub help: &'static str,
    pub keys: &'static [Key],
}

const fn key(name: &'static str, form: &'static str, help: &'static str) -> Key {
    Key { name, form, help }
}

pub(crate) const TABLES: [TableForm; 3] = [
    TableForm {
        name: "vhost",
        help: "A virtual host. Without any, there is one: /.",
        keys: &[key("name", "text", "Its name.")],
    },
    TableForm {
        name: "user",
        help: "A user. Without any, there is one: guest with password guest, from loopback only. With any, guest is \
               gone unless it is among them.",
        keys: &[
            key("name", "text", "The name."),
            key(
                "password_hash",
                "text",
                "A hash of the password: what harrier hash-password prints (Argon2), or the password_hash of RabbitMQ. \
                 Empty: the user has no password, and only a certificate can log it in.",
            ),
            key("password", "text", "Instead of the hash: the password, as it is. The broker warns of it."),
            key("tags", "list of texts, optional", "Labels such as administrator, for the management side."),
        ],
    },
    TableForm {
        name: "permission",
        help: "What a user may do in a virtual host. The three patterns are regular expressions that are looked for \
               anywhere in the name of an exchange or queue: ^orders$ is one name, .* is all, the empty one is none. A \
               user without a permission on a virtual host cannot open it. The default user may do everything in \
               every virtual host, unless the file has a [[user]] or a [[permission]].",
        keys: &[
            key("user", "text", "A user of this file, or guest if the file has none."),
            key("vhost", "text", "A virtual host of this file, or / if the file has none."),
            key("configure", "pattern", "Names it may declare and delete."),
            key("write", "pattern", "Names it may publish to, and bind to something."),
            key("read", "pattern", "Names it may consume from, and bind something to."),
        ],
    },
];

/// The accounts of a file.
#[derive(Default)]
pub(crate) struct Accounts {
    pub vhosts: Vec<Vhost>,
    pub users: Vec<User>,
    pub permissions: Vec<Permission>,
}

/// One table under way: what it has, and what is wrong with it.
struct Entry<'t, 'd> {
    place: &'t Place<'t>,
    form: &'static TableForm,
    table: &'t DeTable<'d>,
    origin: Origin,
    faults: &'t mut Vec<Fault>,
}

impl Accounts {
    /// Takes in the value of the key `vhost`, `user` or `permission`.
    pub fn read(&mut self, place: &Place<'_>, name: &str, value: &Spanned<DeValue<'_>>, faults: &mut Vec<Fault>) {
        let Some(form) = TABLES.iter().find(|form| form.name == name) else { return };
        let DeValue::Array(items) = value.get_ref() else {
            let what = type_of(value.get_ref());
            let why = format!("it is written [[{name}]], once for each, and not as {what}");
            return faults.push(Fault::new(place.line_of(value.span().start), name, why));
        };
        for item in items {
            let origin = place.line_of(item.span().start);
            let DeValue::Table(table) = item.get_ref() else {
                let why = format!("it is written [[{name}]], once for each");
                faults.push(Fault::new(origin, name, why));
                continue;
            };
            let mut entry = Entry { place, form, table, origin: origin.clone(), faults };
            entry.find_unknown_keys();
            match name {
                "vhost" => {
                    let name = entry.name("name");
                    self.vhosts.extend(name.map(|name| Vhost { name, origin }));
                }
                "user" => {
                    let (name, password, tags) = (entry.name("name"), entry.password(), entry.tags());
                    if let (Some(name), Some(password)) = (name, password) {
                        self.users.push(User { name, password, tags, origin });
                    }
                }
                _ => {
                    let (user, vhost) = (entry.name("user"), entry.name("vhost"));
                    let patterns = ["configure", "write", "read"].map(|key| entry.text(key));
                    if let (Some(user), Some(vhost), [Some(configure), Some(write), Some(read)]) =
                        (user, vhost, patterns)
                    {
                        self.permissions.push(Permission { user, vhost, configure, write, read, origin });
                    }
                }
            }
        }
    }

    /// Fills in the defaults and checks each against the others.
    pub fn complete(mut self, faults: &mut Vec<Fault>, warnings: &mut Vec<String>) -> Self {
        let guest_may_do_everything = self.users.is_empty() && self.permissions.is_empty();
        if self.vhosts.is_empty() {
            self.vhosts.push(Vhost { name: "/".into(), origin: Origin::Default });
        }
        if self.users.is_empty() {
            let password = Password::Plain("guest".to_owned());
            self.users.push(User { name: "guest".to_owned(), password, tags: vec![], origin: Origin::Default });
        }
        if guest_may_do_everything {
            let all = || ".*".to_owned();
            self.permissions.extend(self.vhosts.iter().map(|vhost| Permission {
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
        let mut fault = |origin: &Origin, key, why| faults.push(Fault::new(origin.clone(), key, why));
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
        for Permission { user, vhost, origin, .. } in &self.permissions {
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
        for user in self.users.iter().filter(|user| user.origin != Origin::Default) {
            if let Password::Plain(_) = user.password {
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
    pub fn print(vhosts: &[Vhost], users: &[User], permissions: &[Permission]) -> String {
        let mut out = String::new();
        let mut put = |table: &str, keys: &[(&str, String)]| {
            let _infallible = write!(out, "\n[[{table}]]\n");
            for (key, value) in keys {
                let _infallible = writeln!(out, "{key} = {value}");
            }
        };
        for vhost in vhosts {
            put("vhost", &[("name", quoted(&vhost.name))]);
        }
        for user in users {
            let tags = user.tags.iter().map(|tag| quoted(tag)).collect::<Vec<_>>().join(", ");
            let password = match &user.password {
                Password::Plain(secret) => ("password", quoted(secret)),
                Password::Hash(hash) => ("password_hash", quoted(hash)),
            };
            put("user", &[("name", quoted(&user.name)), password, ("tags", format!("[{tags}]"))]);
        }
        for permission in permissions {
            let Permission { user, vhost, configure, write, read, .. } = permission;
            let pairs = [("user", user), ("vhost", vhost), ("configure", configure), ("write", write), ("read", read)];
            put("permission", &pairs.map(|(key, value)| (key, quoted(value))));
        }
        out
    }
}

impl Entry<'_, '_> {
    fn fault(&mut self, origin: Origin, key: &str, why: impl Into<String>) {
        self.faults.push(Fault::new(origin, format!("{}.{key}", self.form.name), why));
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

    fn value(&self, key: &str) -> Option<(Origin, &DeValue<'_>)> {
        let value = self.table.get(key)?;
        Some((self.place.line_of(value.span().start), value.get_ref()))
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let (origin, why) = match self.value(key) {
            Some((_, DeValue::String(text))) => return Some(text.to_string()),
            Some((origin, other)) => (origin, format!("a string is needed, not {}", type_of(other))),
            None => (self.origin.clone(), "it is missing".to_owned()),
        };
        self.fault(origin, key, why);
        None
    }

    fn name(&mut self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        let Some(why) = name_fault(&text) else { return Some(text) };
        let origin = self.value(key).map_or_else(|| self.origin.clone(), |(origin, _)| origin);
        self.fault(origin, key, why);
        None
    }

    fn password(&mut self) -> Option<Password> {
        if self.value("password_hash").is_some() {
            if let Some((origin, _)) = self.value("password") {
                self.fault(origin, "password", "a user has a password or a password_hash");
            }
            return self.text("password_hash").map(Password::Hash);
        }
        let text = self.text("password")?;
        if text.len() <= PASSWORD_BYTES_MAX {
            return Some(Password::Plain(text));
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
