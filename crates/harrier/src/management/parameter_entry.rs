//! A parameter as it is kept, and the user in whose name its links act.

use catalog::Catalog;
use definitions::{Json, KeptSections};
use management::{PARAMETER_PAUSED, PARAMETER_USER};

/// The section of parameters.
pub const PARAMETERS: &str = "parameters";

/// A parameter of a component.
#[derive(Clone, Copy)]
pub struct ParameterEntry<'a> {
    pub vhost: &'a str,
    pub name: &'a str,
    pub value: &'a Json,
    /// Who has set it, if that is known: definitions files of RabbitMQ do not say.
    user: Option<&'a str>,
    pub is_paused: bool,
}

impl<'a> ParameterEntry<'a> {
    /// One that is not kept yet.
    pub fn new(vhost: &'a str, user: &'a str, value: &'a Json) -> Self {
        ParameterEntry { vhost, name: "", value, user: Some(user), is_paused: false }
    }

    /// Those of a component.
    pub fn of(kept: &'a KeptSections, component: &'a str) -> impl Iterator<Item = Self> {
        kept.section(PARAMETERS).iter().filter_map(move |entry| {
            let text = |key: &str| match entry.get(key) {
                Some(Json::Text(text)) => Some(&**text),
                _ => None,
            };
            (text("component")? == component).then_some(ParameterEntry {
                vhost: text("vhost")?,
                name: text("name")?,
                value: entry.get("value")?,
                user: text(PARAMETER_USER),
                is_paused: entry.get(PARAMETER_PAUSED) == Some(&Json::Bool(true)),
            })
        })
    }

    /// The user in whose name the links of this parameter act in a virtual host: who has set it, or else the first administrator by
    /// name who may use it.
    ///
    /// # Errors
    /// There is none.
    pub fn user(&self, catalog: &'a Catalog, vhost: &str) -> Result<&'a str, String> {
        if let Some(name) = self.user {
            let known = catalog.user_by_name(name).map(|(_, user)| &*user.name);
            return known.ok_or_else(|| format!("there is no user '{name}' any more, who has set this parameter"));
        }
        let may_use = |id| catalog.is_administrator(id) && catalog.open_vhost(id, vhost.as_bytes()).is_ok();
        let administrators = catalog.users().filter(|(id, _)| may_use(*id)).map(|(_, user)| &*user.name);
        administrators.min().ok_or_else(|| {
            format!("no administrator may use virtual host '{vhost}', and this parameter does not say who has set it")
        })
    }
}
