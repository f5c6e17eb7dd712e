//! The path of a request, held against the table of routes.
//!
//! Enters: the raw path.  Leaves: the route and what its placeholders stand for, or which methods there would be.
//! Owns:   the one decoding of each segment: a `%2F` is part of a name, and what it decodes to is not decoded again.

use crate::limits::PATH_SEGMENTS_MAX;
use crate::percent;
use crate::route::{HttpMethod, Route};
use crate::routes::ROUTES;

/// Why a path is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// An escape is not `%` and two hexadecimal digits, or what it makes is no UTF-8.
    Escape,
    /// It has more segments than any route.
    Long,
}

/// The segments of a path, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestPath(Vec<String>);

/// A route, with what its placeholders stand for.
#[derive(Clone, Debug)]
pub struct RouteMatch {
    pub route: &'static Route,
    values: Vec<(&'static str, String)>,
}

impl RouteMatch {
    /// What `{name}` stands for; nothing if the route has no such placeholder.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    /// What a placeholder stands for that the pattern is known to have.
    pub fn at(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

/// What the table has for a path.
#[derive(Clone, Debug)]
pub enum Routed {
    Found(RouteMatch),
    /// The path is there, the method is not; these are.
    OtherMethods(Vec<HttpMethod>),
    Nowhere,
}

impl RequestPath {
    /// Splits at raw slashes, and decodes each segment once. A slash at the end counts for nothing.
    ///
    /// # Errors
    /// An escape is none, or the path is longer than that of any route.
    pub fn parse(raw: &str) -> Result<Self, PathFault> {
        let inner = raw.strip_prefix('/').unwrap_or(raw);
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let mut segments = Vec::new();
        for segment in inner.split('/') {
            if segments.len() == PATH_SEGMENTS_MAX {
                return Err(PathFault::Long);
            }
            segments.push(percent::decode(segment).ok_or(PathFault::Escape)?);
        }
        Ok(Self(segments))
    }

    /// The route for a method, the one with the earlier literal segment if there are two.
    pub fn route(&self, method: Option<HttpMethod>) -> Routed {
        let mut best: Option<&'static Route> = None;
        let mut others = Vec::new();
        // The pattern is chosen first, and then the method: `DELETE /api/users/bulk-delete` is no deletion of a user.
        for route in ROUTES.iter().flat_map(|(_, routes)| *routes).filter(|route| self.is_at(route.pattern)) {
            match best {
                Some(found) if route.pattern == found.pattern => others.push(route),
                Some(found) if !is_more_literal(route.pattern, found.pattern) => {}
                _ => {
                    best = Some(route);
                    others = vec![route];
                }
            }
        }
        let Some(_) = best else { return Routed::Nowhere };
        match others.iter().find(|route| Some(route.method) == method) {
            Some(route) => Routed::Found(RouteMatch { route, values: self.values(route.pattern) }),
            None => Routed::OtherMethods(others.iter().map(|route| route.method).collect()),
        }
    }

    fn is_at(&self, pattern: &str) -> bool {
        let mut segments = self.0.iter();
        let matches = pattern[1..].split('/').all(|part| {
            segments.next().is_some_and(|segment| match placeholder(part) {
                Some("kind") => segment == "q" || segment == "e",
                Some(_) => !segment.is_empty(),
                None => segment == part,
            })
        });
        matches && segments.next().is_none()
    }

    fn values(&self, pattern: &'static str) -> Vec<(&'static str, String)> {
        let parts = pattern[1..].split('/').zip(&self.0);
        parts.filter_map(|(part, segment)| Some((placeholder(part)?, segment.clone()))).collect()
    }
}

fn placeholder(part: &str) -> Option<&str> {
    part.strip_prefix('{')?.strip_suffix('}')
}

/// Whether the first segment in which two patterns differ is literal in the first one.
fn is_more_literal(one: &str, other: &str) -> bool {
    let differing = one.split('/').zip(other.split('/')).find(|(one, other)| one != other);
    differing.is_some_and(|(one, _)| placeholder(one).is_none())
}

/// The value of `Allow` for a path with these methods.
pub fn allow(methods: &[HttpMethod]) -> String {
    let mut names = Vec::new();
    for method in methods {
        names.push(method.name());
        if *method == HttpMethod::Get {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{PathFault, RequestPath, Routed, allow};
    use crate::route::{Handler, HttpMethod};
    use crate::routes::ROUTES;

    fn found(method: HttpMethod, path: &str) -> Option<(Handler, Vec<(&'static str, String)>)> {
        match RequestPath::parse(path).expect("a path").route(Some(method)) {
            Routed::Found(found) => Some((found.route.handler, found.values)),
            Routed::OtherMethods(_) | Routed::Nowhere => None,
        }
    }

    #[test]
    fn segments_are_split_raw_and_decoded_once() {
        use Handler as H;
        use HttpMethod::{Delete, Get, Post};
        let cases: &[(HttpMethod, &str, Handler, &[&str])] = &[
            (Get, "/api/queues", H::Queues, &[]),
            (Get, "/api/queues/", H::Queues, &[]),
            (Get, "/api/queues/%2F", H::Queues, &["/"]),
            (Get, "/api/queues/%2f/", H::Queues, &["/"]),
            (Get, "/api/queues/%2F/a%20b", H::Queue, &["/", "a b"]),
            (Get, "/api/queues/%2F/a+b", H::Queue, &["/", "a+b"]),
            (Get, "/api/queues/%2F/a%252Fb", H::Queue, &["/", "a%2Fb"]),
            (Get, "/api/queues/v/%C3%BC", H::Queue, &["v", "ü"]),
            (Get, "/api/queues/detailed", H::Queues, &[]),
            (Get, "/api/exchanges/%2F/amq.default", H::Exchange, &["/", "amq.default"]),
            (Get, "/api/connections/username/u", H::ConnectionsOfUser, &["u"]),
            (Get, "/api/connections/username/channels", H::ConnectionsOfUser, &["channels"]),
            (
                Get,
                "/api/connections/127.0.0.1%3A1%20-%3E%20127.0.0.1%3A2",
                H::Connection,
                &["127.0.0.1:1 -> 127.0.0.1:2"],
            ),
            (Get, "/api/connections/n/channels", H::ChannelsOfConnection, &["n"]),
            (Get, "/api/users/without-permissions", H::UsersWithoutPermissions, &[]),
            (Post, "/api/users/bulk-delete", H::UsersBulkDelete, &[]),
            (Get, "/api/nodes/rabbit@h/memory", H::Memory, &["rabbit@h"]),
            (Get, "/api/nodes/rabbit%40h", H::Node, &["rabbit@h"]),
            (Delete, "/api/bindings/%2F/e/x/q/d/a.%2523", H::BindingDelete, &["/", "x", "q", "d", "a.%23"]),
            (Get, "/api/bindings/%2F/e/x/e/d", H::BindingsBetween, &["/", "x", "e", "d"]),
            (Get, "/metrics/per-object", H::MetricsPerObject, &[]),
            (Get, "/api/federation-links/state/down", H::FederationLinks, &[]),
        ];
        for (method, path, handler, values) in cases {
            let (found, names) = found(*method, path).unwrap_or_else(|| panic!("{path} leads nowhere"));
            let names: Vec<_> = names.iter().map(|(_, value)| &**value).collect();
            assert_eq!((found, &names[..]), (*handler, *values), "{path}");
        }
    }

    #[test]
    fn what_is_nowhere_is_told_from_what_has_other_methods() {
        for path in [
            "/page",
            "/page/a/b",
            "/api",
            "/api//",
            "/api/queues//q",
            "/api/bindings/%2F/e/x/z/d",
            "/api/queues/a/b/c/d",
            "/apiqueues",
        ] {
            assert!(
                matches!(RequestPath::parse(path).expect(path).route(Some(HttpMethod::Get)), Routed::Nowhere),
                "{path}"
            );
        }
        for (method, path, allowed) in [
            (Some(HttpMethod::Post), "/api/queues/%2F/q", "GET, HEAD, PUT, DELETE, OPTIONS"),
            (None, "/api/overview", "GET, HEAD, OPTIONS"),
            (Some(HttpMethod::Delete), "/api/users/bulk-delete", "POST, OPTIONS"),
            (Some(HttpMethod::Get), "/api/queues/%2F/q/get", "POST, OPTIONS"),
        ] {
            let Routed::OtherMethods(methods) = RequestPath::parse(path).expect(path).route(method) else {
                panic!("{path} has the method");
            };
            assert_eq!(allow(&methods), allowed, "{path}");
        }
        for (path, fault) in [
            ("/api/%", PathFault::Escape),
            ("/api/%2", PathFault::Escape),
            ("/api/%zz", PathFault::Escape),
            ("/api/%FF", PathFault::Escape),
            ("/1/2/3/4/5/6/7/8/9/10/11/12/13", PathFault::Long),
        ] {
            assert_eq!(RequestPath::parse(path), Err(fault), "{path}");
        }
    }

    #[test]
    fn each_line_of_the_table_is_reached_by_its_own_path() {
        for route in ROUTES.iter().flat_map(|(_, routes)| *routes) {
            let path = route.pattern.replace("{kind}", "q");
            let Routed::Found(found) = RequestPath::parse(&path).expect(&path).route(Some(route.method)) else {
                panic!("{path} leads nowhere");
            };
            assert!(std::ptr::eq(found.route, route), "{path} leads to {}", found.route.pattern);
            assert!(
                route.does.ends_with('.') && !route.does.trim_end_matches('.').contains(". "),
                "{path}: one sentence"
            );
        }
    }
}
