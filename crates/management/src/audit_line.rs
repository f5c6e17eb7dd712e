//! The line of the log about a change: who, from where, what, and what came of it.
//!
//! Never: has a body or a query in it, which may have secrets, nor a value of a path that is none of a name.

use crate::api::RoutedRequest;
use crate::audit_log::{AuditEvent, AuditLog};
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
pub struct AuditLine<'a> {
    log: &'a AuditLog,
    event: AuditEvent,
}

impl<'a> AuditLine<'a> {
    pub fn new(log: &'a AuditLog, at_ms: u64, viewer: &Viewer, peer: &str, request: &RoutedRequest) -> Self {
        let route = request.matched.route;
        let names = NAMES.into_iter().filter_map(|key| Some(format!("{key}={:?}", request.matched.get(key)?)));
        let event = AuditEvent {
            at_ms,
            user: viewer.name.as_str().to_owned(),
            source: peer.to_owned(),
            method: route.method.name(),
            pattern: route.pattern,
            names: names.collect::<Vec<_>>().join(" "),
            status: 0,
        };
        Self { log, event }
    }

    /// What was answered.
    pub fn set_status(&mut self, status: u16) {
        self.event.status = status;
    }
}

impl Drop for AuditLine<'_> {
    fn drop(&mut self) {
        let AuditEvent { user, source: peer, method, pattern, names, status, .. } = &self.event;
        match status {
            0 => {
                tracing::info!(target: "audit", user, %peer, method, pattern, names, "a change was asked for; the client left")
            }
            status => {
                tracing::info!(target: "audit", user, %peer, method, pattern, names, status, "a change was asked for")
            }
        }
        self.log.add(&self.event);
    }
}
