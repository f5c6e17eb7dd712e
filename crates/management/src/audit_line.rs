//! The line of the log about a change: who, from where, what, and what came of it.
//!
//! Never: has a body or a query in it, which may have secrets, nor a value of a path that is none of a name.

use crate::api::RoutedRequest;
use crate::viewer::Viewer;

/// Placeholders of paths that name something.
const NAMES: [&str; 12] = [
    "vhost",
    "name",
    "user",
    "source",
    "kind",
    "destination",
    "props",
    "exchange",
    "component",
    "node",
    "id",
    "pattern",
];

/// Begun when a change is admitted, and written when it is dropped: also for a client that does not wait for the answer.
pub struct AuditLine {
    user: String,
    peer: String,
    method: &'static str,
    pattern: &'static str,
    names: String,
    /// 0 as long as nothing is answered.
    pub status: u16,
}

impl AuditLine {
    pub fn new(viewer: &Viewer, peer: &str, request: &RoutedRequest) -> Self {
        let route = request.matched.route;
        let names = NAMES.into_iter().filter_map(|key| Some(format!("{key}={:?}", request.matched.get(key)?)));
        let names = names.collect::<Vec<_>>().join(" ");
        Self {
            user: viewer.name.as_str().to_owned(),
            peer: peer.to_owned(),
            method: route.method.name(),
            pattern: route.pattern,
            names,
            status: 0,
        }
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        let Self { user, peer, method, pattern, names, status } = self;
        match status {
            0 => {
                tracing::info!(target: "audit", user, %peer, method, pattern, names, "a change was asked for; the client left")
            }
            status => {
                tracing::info!(target: "audit", user, %peer, method, pattern, names, status, "a change was asked for")
            }
        }
    }
}
