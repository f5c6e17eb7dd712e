//! Who may do what: the tags of a user, its permissions, and what a route asks for (RabbitMQ's management).
//!
//! Enters: tags, a route, whether the user has a permission in the virtual host of the path.  Leaves: yes, or why not.
//! Owns:   the rule; AMQP's own permissions (configure, write, read) are the catalog's, and count beside it.

use crate::route::{RequiredTag, Route, RouteScope};

/// The tags of a user that mean something here. Others, such as `federation`, open nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessTags {
    pub management: bool,
    pub policymaker: bool,
    pub monitoring: bool,
    pub administrator: bool,
}

impl AccessTags {
    /// Of the tags that a user has.
    pub fn of<'a>(tags: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        for tag in tags {
            match tag {
                "management" => found.management = true,
                "policymaker" => found.policymaker = true,
                "monitoring" => found.monitoring = true,
                "administrator" => found.administrator = true,
                _ => {}
            }
        }
        found
    }

    /// Whether the user may use the API at all.
    pub(crate) fn is_any(self) -> bool {
        self.management || self.policymaker || self.monitoring || self.administrator
    }

    /// Whether lists have the objects of virtual hosts in which the user has no permission.
    pub(crate) fn sees_every_object(self) -> bool {
        self.administrator
    }

    /// Whether lists have every virtual host, and the connections and channels of others.
    pub(crate) fn sees_others(self) -> bool {
        self.monitoring || self.administrator
    }

    /// Whether the user may close the connections of others.
    pub(crate) fn closes_others(self) -> bool {
        self.administrator
    }
}

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AccessDecision {
    Granted,
    /// The user has no tag that opens the API.
    NotManagement,
    /// The user's tags do not open this route.
    NotTagged,
    /// The user has no permission in the virtual host.
    NotPermitted,
}

impl AccessDecision {
    /// The reason of the 401, as RabbitMQ words it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Granted => "",
            Self::NotManagement => "Not management user",
            Self::NotTagged => "Not authorised for this resource",
            Self::NotPermitted => "User not authorised to access virtual host",
        }
    }
}

/// Decides on a route that asks for a login, for a user with these tags who has some permission in the virtual host that the
/// path names, or not.
pub(crate) fn decide(tags: AccessTags, route: &Route, has_permission: bool) -> AccessDecision {
    if route.tag == RequiredTag::Open {
        return AccessDecision::Granted;
    }
    if !tags.is_any() {
        return AccessDecision::NotManagement;
    }
    let is_tagged = match route.tag {
        RequiredTag::Open | RequiredTag::Any | RequiredTag::Owner => true,
        RequiredTag::Policymaker => tags.policymaker || tags.administrator,
        RequiredTag::Monitoring => tags.monitoring || tags.administrator,
        RequiredTag::Administrator => tags.administrator,
    };
    if !is_tagged {
        return AccessDecision::NotTagged;
    }
    let is_permitted = match route.scope {
        RouteScope::Anywhere => true,
        RouteScope::Vhost => has_permission || tags.administrator,
        RouteScope::VisibleVhost => has_permission || tags.sees_others(),
    };
    if is_permitted { AccessDecision::Granted } else { AccessDecision::NotPermitted }
}

#[cfg(test)]
mod tests {
    use super::{AccessDecision, AccessTags, decide};
    use crate::route::{Handler, HttpMethod, RequiredTag as T, Route, RouteScope as S};

    /// The users of section "Tags": none, and one for each tag.
    const TAGS: [&str; 5] = ["", "management", "policymaker", "monitoring", "administrator"];

    /// What a user of each tag gets: `+` always, `p` with a permission in the virtual host, `-` nothing.
    const MATRIX: [(T, S, &str); 18] = [
        (T::Open, S::Anywhere, "+++++"),
        (T::Open, S::Vhost, "+++++"),
        (T::Open, S::VisibleVhost, "+++++"),
        (T::Any, S::Anywhere, "-++++"),
        (T::Any, S::Vhost, "-ppp+"),
        (T::Any, S::VisibleVhost, "-pp++"),
        (T::Owner, S::Anywhere, "-++++"),
        (T::Owner, S::Vhost, "-ppp+"),
        (T::Owner, S::VisibleVhost, "-pp++"),
        (T::Policymaker, S::Anywhere, "--+-+"),
        (T::Policymaker, S::Vhost, "--p-+"),
        (T::Policymaker, S::VisibleVhost, "--p-+"),
        (T::Monitoring, S::Anywhere, "---++"),
        (T::Monitoring, S::Vhost, "---p+"),
        (T::Monitoring, S::VisibleVhost, "---++"),
        (T::Administrator, S::Anywhere, "----+"),
        (T::Administrator, S::Vhost, "----+"),
        (T::Administrator, S::VisibleVhost, "----+"),
    ];

    #[test]
    fn every_tag_opens_what_the_matrix_says() {
        for (tag, scope, row) in MATRIX {
            let route = Route { method: HttpMethod::Get, pattern: "/", tag, scope, handler: Handler::Whoami, does: "" };
            for (name, expected) in TAGS.iter().zip(row.chars()) {
                let tags = AccessTags::of([*name]);
                let granted = [false, true].map(|has| decide(tags, &route, has) == AccessDecision::Granted);
                let found = match granted {
                    [true, true] => '+',
                    [false, true] => 'p',
                    [false, false] => '-',
                    [true, false] => panic!("a permission takes something away"),
                };
                assert_eq!(found, expected, "{tag:?} {scope:?} for '{name}'");
            }
        }
    }

    #[test]
    fn several_tags_open_what_each_of_them_does_and_others_nothing() {
        let both = AccessTags::of(["monitoring", "policymaker", "federation"]);
        assert!(both.sees_others() && both.policymaker && !both.administrator && !both.sees_every_object());
        assert!(!AccessTags::of(["federation", "carrier", "Administrator"]).is_any());
        let administrator = AccessTags::of(["administrator"]);
        assert!(administrator.closes_others() && administrator.sees_others() && !both.closes_others());
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        let route = |tag, scope| Route {
            method: HttpMethod::Get,
            pattern: "/",
            tag,
            scope,
            handler: Handler::Whoami,
            does: "",
        };
        let management = AccessTags::of(["management"]);
        for (tags, route, expected) in [
            (AccessTags::default(), route(T::Any, S::Vhost), AccessDecision::NotManagement),
            (management, route(T::Administrator, S::Vhost), AccessDecision::NotTagged),
            (management, route(T::Any, S::Vhost), AccessDecision::NotPermitted),
        ] {
            assert_eq!(decide(tags, &route, false), expected);
            assert!(!expected.reason().is_empty());
        }
    }
}
