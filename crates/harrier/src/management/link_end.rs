//! One end of what a parameter joins: this broker, or another one at an address.

use crate::own_process;
use catalog::Catalog;
use client::Url;
use client::peer::{encoded, own_names, peer};

/// Where the address of a parameter leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// A virtual host of this broker, used in the name of this user.
    Here { vhost: String, user: String },
    /// Another broker: its addresses with passwords, and the first without a login.
    There { urls: Vec<Box<str>>, peer: Box<str> },
}

/// Whose parameter it is.
#[derive(Clone, Copy)]
pub struct EndReader<'a> {
    pub catalog: &'a Catalog,
    /// Addresses of this broker, in the notation of links.
    pub addresses: &'a [String],
    /// In whose name the parameter acts.
    pub user: &'a str,
    /// Of an address that names none.
    pub vhost: &'a str,
}

impl EndReader<'_> {
    /// Where addresses lead: all of them to this broker, or all of them elsewhere.
    ///
    /// # Errors
    /// One is malformed, they differ, or the user may not act as the one that an address names.
    pub fn read(&self, uris: &[String]) -> Result<LinkEnd, String> {
        let mut ends = Vec::new();
        for uri in uris {
            ends.push(self.read_one(uri)?);
        }
        let mut urls = Vec::new();
        let mut first_peer = None;
        for end in &ends {
            match end {
                LinkEnd::There { urls: of_one, peer } => {
                    urls.extend(of_one.iter().cloned());
                    first_peer.get_or_insert_with(|| peer.clone());
                }
                LinkEnd::Here { .. } if ends.len() == 1 => return Ok(end.clone()),
                LinkEnd::Here { .. } => return Err("this broker is an address by itself".to_owned()),
            }
        }
        first_peer.map(|peer| LinkEnd::There { urls, peer }).ok_or_else(|| "there is no address".to_owned())
    }

    fn read_one(&self, uri: &str) -> Result<LinkEnd, String> {
        let uri = self.with_vhost(uri);
        // What the address is stays out of the reason: it may have a password.
        let url = Url::parse(&uri).map_err(|error| error.to_string().replace(&uri, "the address"))?;
        let authority = authority(&uri);
        let has_login = authority.is_some_and(|authority| authority.contains('@'));
        let is_hostless = authority.is_some_and(|authority| authority.rsplit('@').next() == Some(""));
        let is_own = own_names(self.addresses, &url.vhost).iter().any(|own| **own == *peer(&url));
        let may_be = !has_login || url.user == self.user || self.is_administrator();
        match (is_hostless, is_own && may_be) {
            (true, _) if !may_be => Err(format!(
                "user '{}' may not act as '{}' in this broker: only administrators may act as others",
                self.user, url.user
            )),
            (true, _) | (_, true) => {
                let user = if has_login { url.user } else { self.user.to_owned() };
                Ok(LinkEnd::Here { vhost: url.vhost, user })
            }
            (false, false) => {
                let peer = peer(&url).into();
                Ok(LinkEnd::There { urls: vec![uri.into()], peer })
            }
        }
    }

    fn is_administrator(&self) -> bool {
        self.catalog.user_by_name(self.user).is_some_and(|(id, _)| self.catalog.is_administrator(id))
    }

    /// An address that names a virtual host.
    fn with_vhost(&self, uri: &str) -> String {
        let (place, parameters) = uri.split_once('?').map_or((uri, None), |(place, rest)| (place, Some(rest)));
        let Some((scheme, authority)) = place.split_once("://") else { return uri.to_owned() };
        if authority.contains('/') || scheme == "amqp+unix" {
            return uri.to_owned();
        }
        let parameters = parameters.map_or_else(String::new, |parameters| format!("?{parameters}"));
        format!("{place}/{}{parameters}", encoded(self.vhost))
    }
}

/// What stands between `://` and the path; a Unix socket has none.
fn authority(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    (scheme != "amqp+unix").then(|| rest.split(['/', '?']).next().unwrap_or_default())
}

impl LinkEnd {
    /// Without a login.
    pub fn shown(&self) -> String {
        match self {
            LinkEnd::Here { vhost, .. } => format!("amqp:///{}", encoded(vhost)),
            LinkEnd::There { peer, .. } => peer.to_string(),
        }
    }

    /// What a link dials: its addresses, and the name by which the link is known.
    pub fn dialled(&self) -> (Vec<Box<str>>, Box<str>) {
        match self {
            LinkEnd::Here { vhost, user } => (vec![own_process::address(user, vhost).into()], self.shown().into()),
            LinkEnd::There { urls, peer } => (urls.clone(), peer.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EndReader, LinkEnd};
    use catalog::{Catalog, CatalogLimits, default_definitions};

    fn catalog() -> Catalog {
        let mut catalog = Catalog::new(CatalogLimits::default());
        for definition in default_definitions() {
            catalog.execute(&definition).expect("sound");
        }
        catalog
    }

    #[test]
    fn an_address_leads_here_or_elsewhere() {
        let (catalog, addresses) = (catalog(), ["0.0.0.0:5672".to_owned()]);
        let as_user = |user, uris: &[&str]| {
            let uris: Vec<_> = uris.iter().map(|uri| (*uri).to_owned()).collect();
            EndReader { catalog: &catalog, addresses: &addresses, user, vhost: "v 1" }.read(&uris)
        };
        let here = |vhost: &str, user: &str| Ok(LinkEnd::Here { vhost: vhost.to_owned(), user: user.to_owned() });
        let there = |urls: &[&str], peer: &str| {
            let urls = urls.iter().map(|url| (*url).into()).collect();
            Ok(LinkEnd::There { urls, peer: peer.into() })
        };
        assert_eq!(as_user("guest", &["amqp://"]), here("v 1", "guest"));
        assert_eq!(as_user("guest", &["amqp:///%2F"]), here("/", "guest"));
        assert_eq!(as_user("guest", &["amqp://other@/%2F"]), here("/", "other"), "an administrator may");
        assert_eq!(as_user("me", &["amqp://me:pw@localhost:5672/%2F"]), here("/", "me"));
        let why = as_user("me", &["amqp://guest@/%2F"]).expect_err("somebody else");
        assert!(why.starts_with("user 'me' may not act as 'guest'"), "{why}");
        // With a password, it is proved over a connection like any other.
        let url = "amqp://guest:pw@localhost:5672/%2F";
        assert_eq!(as_user("me", &[url]), there(&[url], "amqp://localhost:5672"));
        let two = ["amqp://u:p@h1?heartbeat=5", "amqp://u:p@h2/w"];
        let full = ["amqp://u:p@h1/v%201?heartbeat=5", "amqp://u:p@h2/w"];
        assert_eq!(as_user("me", &two), there(&full, "amqp://h1:5672/v%201"));
        let why = as_user("me", &["http://u:secret@h"]).expect_err("no address");
        assert!(!why.contains("secret"), "{why}");
        assert!(as_user("me", &["amqp://", "amqp://h"]).is_err() && as_user("me", &[]).is_err());
    }

    #[test]
    fn what_is_shown_has_no_login() {
        let here = LinkEnd::Here { vhost: "v 1".to_owned(), user: "u".to_owned() };
        assert_eq!(here.shown(), "amqp:///v%201");
        let (urls, name) = here.dialled();
        assert_eq!((&*urls[0], &*name), ("in-process:u/v%201", "amqp:///v%201"));
    }
}
