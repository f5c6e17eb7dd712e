//! The API without sockets: a request goes in, an answer or the promise of one comes out.
//!
//! Enters: the head of a request; who asks; its body.  Leaves: an answer.
//! Owns:   the order of the checks: path, site, login, tag, permission, body.

use crate::access::{AccessDecision, decide};
use crate::answer::Answer;
use crate::api_error::ApiError;
use crate::audit_log::AuditLog;
use crate::definitions_file;
use crate::found_route::found_route;
use crate::json_object::JsonObject;
use crate::limits::{DIRECT_PAGE_ROWS_MAX, PAGE_ROWS_MAX, TARGET_BYTES_MAX};
use crate::page_files;
use crate::query::{Columns, Query};
use crate::read_routes::Reader;
use crate::request_body::RequestBody;
use crate::request_counts::RequestCounts;
use crate::route::{Handler, HttpMethod, RequiredTag};
use crate::route_path::{PathFault, RequestPath, RouteMatch, Routed, allow};
use crate::site;
use crate::source::{Action, ActionKind, ActionOutcome, ActionReply, Source};
use crate::statistics_history::SharedHistory;
use crate::viewer::Viewer;
use catalog::{Password, UserId};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::oneshot;

/// What an operator sets.
#[derive(Clone, Debug, Default)]
pub struct ApiOptions {
    /// In front of every path: `/broker`, or nothing.
    pub path_prefix: String,
    /// Names of this host beside its addresses and `localhost`; `*` for any.
    pub hosts: Vec<String>,
}

/// The head of a request, as far as it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    pub method: String,
    /// The path with its query.
    pub target: String,
    pub host: Option<String>,
    pub origin: Option<String>,
    pub content_type: Option<String>,
    /// `X-Reason`.
    pub reason: Option<String>,
}

/// A request whose path leads somewhere.
#[derive(Clone, Debug)]
pub struct RoutedRequest {
    pub matched: RouteMatch,
    pub query: Query,
    content_type: Option<String>,
    reason: Option<String>,
    /// Of a page of a list.
    page_rows_max: usize,
}

impl RoutedRequest {
    /// One of the program itself, whose pages may be longer.
    pub(crate) fn directly(self) -> Self {
        Self { page_rows_max: DIRECT_PAGE_ROWS_MAX, ..self }
    }

    /// Whether somebody must have logged in.
    pub fn needs_login(&self) -> bool {
        self.matched.route.tag != RequiredTag::Open
    }

    /// Whether it changes something, and has a body that counts.
    pub fn is_change(&self) -> bool {
        self.matched.route.method.is_change()
    }
}

/// What becomes of a request.
pub enum ApiReply {
    Now(Answer),
    /// When the broker has done what was asked.
    Later(oneshot::Receiver<Result<ActionOutcome, ApiError>>),
}

/// Of all connections of the thread.
pub type SharedRequestCounts = Rc<RefCell<RequestCounts>>;

/// The API over some source.
pub struct Api {
    options: ApiOptions,
    /// Of the digests that stand for passwords.
    key: [u8; 32],
    audit: AuditLog,
    history: SharedHistory,
    requests: SharedRequestCounts,
}

impl Api {
    /// One with a key that the source draws.
    pub fn new(options: ApiOptions, source: &mut dyn Source) -> Self {
        let mut key = [0; 32];
        key.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = source.random().to_le_bytes());
        Self { options, key, audit: AuditLog::default(), history: Rc::default(), requests: Rc::default() }
    }

    pub fn path_prefix(&self) -> &str {
        &self.options.path_prefix
    }

    /// Counts of requests, which whoever serves them keeps.
    pub fn requests(&self) -> &SharedRequestCounts {
        &self.requests
    }

    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// What was changed lately.
    pub(crate) fn audit_log(&self) -> &AuditLog {
        &self.audit
    }

    /// Takes the source's numbers into the past that answers have samples of. To be called each time there may be others.
    pub fn take_readings(&self, source: &dyn Source) {
        self.history.borrow_mut().update(source);
    }

    /// Finds the route of a request.
    ///
    /// # Errors
    /// The answer, if there is none, or if it is a browser's for another site.
    pub fn route(&self, head: &RequestHead) -> Result<RoutedRequest, Answer> {
        self.find_route(head).map_err(|error| match (&*head.method, &error.allow[..]) {
            ("OPTIONS", methods @ [_, ..]) => Answer::empty(200).with_header("allow", allow(methods)),
            _ => Answer::of_error(&error),
        })
    }

    fn find_route(&self, head: &RequestHead) -> Result<RoutedRequest, ApiError> {
        if head.target.len() > TARGET_BYTES_MAX {
            let reason = format!("a path with its query has {TARGET_BYTES_MAX} bytes at most");
            return Err(ApiError::new(414, "uri_too_long", reason));
        }
        let (path, query) = head.target.split_once('?').unwrap_or((&head.target, ""));
        let path = path.strip_prefix(&*self.options.path_prefix).ok_or_else(ApiError::not_found)?;
        let path = RequestPath::parse(path).map_err(|fault| match fault {
            PathFault::Escape => ApiError::bad_request("an escape in the path is malformed"),
            PathFault::Long => ApiError::not_found(),
        })?;
        site::check_host(head.host.as_deref(), &self.options.hosts)?;
        let method = HttpMethod::parse(&head.method);
        let matched = match path.route(method) {
            Routed::Found(matched) => matched,
            Routed::OtherMethods(methods) => return Err(ApiError::other_methods(methods)),
            Routed::Nowhere => return Err(ApiError::not_found()),
        };
        if matched.route.method.is_change() {
            site::check_origin(head.origin.as_deref(), head.host.as_deref())?;
        }
        Ok(RoutedRequest {
            matched,
            query: Query::parse(query)?,
            content_type: head.content_type.clone(),
            reason: head.reason.clone(),
            page_rows_max: PAGE_ROWS_MAX,
        })
    }

    /// Lets a user in who has proved itself, if its tags and permissions open the route.
    ///
    /// # Errors
    /// They do not.
    pub fn admit(&self, source: &dyn Source, request: &RoutedRequest, user: UserId) -> Result<Viewer, ApiError> {
        let viewer = Viewer::of(source, user).ok_or_else(ApiError::login_failed)?;
        let vhost = request.matched.get("vhost").and_then(|name| source.catalog().vhost_by_name(name));
        let is_permitted = vhost.is_some_and(|vhost| viewer.is_permitted(source, vhost));
        match decide(viewer.tags, request.matched.route, is_permitted) {
            AccessDecision::Granted => Ok(viewer),
            refused => Err(ApiError::not_authorised(refused.reason())),
        }
    }

    /// Answers a request that is admitted.
    pub fn answer(
        &self,
        source: &mut dyn Source,
        request: &RoutedRequest,
        viewer: Option<&Viewer>,
        body: &[u8],
    ) -> ApiReply {
        self.try_answer(source, request, viewer, body).unwrap_or_else(|error| ApiReply::Now(Answer::of_error(&error)))
    }

    fn try_answer(
        &self,
        source: &mut dyn Source,
        request: &RoutedRequest,
        viewer: Option<&Viewer>,
        body: &[u8],
    ) -> Result<ApiReply, ApiError> {
        let RoutedRequest { matched, query, content_type, reason, page_rows_max } = request;
        if request.needs_login() && viewer.is_none() {
            return Err(ApiError::login_failed());
        }
        match matched.route.handler {
            Handler::PageDocument => return Ok(ApiReply::Now(page_files::document(&self.options.path_prefix))),
            Handler::PageFile => return page_files::page_file(matched.at("file")).map(ApiReply::Now),
            Handler::Audit => return Ok(ApiReply::Now(Answer::json(self.audit.to_json(), &Columns::of(query)?))),
            Handler::ExchangeRoute => return found_route(source, matched, query).map(ApiReply::Now),
            _ => {}
        }
        let reader = Reader {
            source,
            matched,
            query,
            viewer,
            key: &self.key,
            history: &self.history,
            requests: *self.requests.borrow(),
            page_rows_max: *page_rows_max,
        };
        if let Some(answer) = reader.read() {
            return answer.map(ApiReply::Now);
        }
        let Some(viewer) = viewer else { return Err(ApiError::login_failed()) };
        let kind = match matched.route.handler {
            Handler::HashPassword => return hash_password(source, matched, body).map(ApiReply::Now),
            Handler::ResetStatistics => return self.reset_statistics(source, matched).map(ApiReply::Now),
            Handler::RebalanceQueues => return Ok(ApiReply::Now(Answer::empty(204))),
            Handler::QueueAction => return queue_action(source, matched, body).map(ApiReply::Now),
            Handler::FeatureFlagEnable => return Err(ApiError::bad_request("there is no such feature flag")),
            Handler::DefinitionsImport | Handler::DefinitionsOfVhostImport => {
                let name = matched.get("vhost");
                let vhost = name.map(|name| source.catalog().vhost_by_name(name).ok_or_else(ApiError::not_found));
                let vhost = vhost.transpose()?;
                let file = Box::new(definitions_file::read(body, content_type.as_deref(), name)?);
                ActionKind::Import { file, vhost }
            }
            handler => {
                check_closes(source, handler, matched, viewer)?;
                let body = RequestBody::parse(body)?;
                ActionKind::Route { matched: matched.clone(), query: query.clone(), body, reason: reason.clone() }
            }
        };
        let (reply, outcome) = ActionReply::channel();
        let [a, b, c, d, ..] = source.random().to_le_bytes();
        let (user, user_name, salt) = (viewer.user, viewer.name.clone(), [a, b, c, d]);
        source.act(Action { user, user_name, salt, kind }, reply);
        Ok(ApiReply::Later(outcome))
    }

    /// Counts are since the start of the broker, and stay: what is reset is the past that samples show.
    fn reset_statistics(&self, source: &dyn Source, matched: &RouteMatch) -> Result<Answer, ApiError> {
        if matched.get("node").is_some_and(|node| node != source.facts().node) {
            return Err(ApiError::not_found());
        }
        self.history.borrow_mut().clear();
        Ok(Answer::empty(204))
    }
}

/// Whether a user may close what a route closes: its own connections, or as an administrator any.
fn check_closes(source: &dyn Source, handler: Handler, matched: &RouteMatch, viewer: &Viewer) -> Result<(), ApiError> {
    let owner = match handler {
        Handler::ConnectionClose => {
            let mut connections = source.connections().iter();
            &*connections.find(|of| of.name == matched.at("name")).ok_or_else(ApiError::not_found)?.user
        }
        Handler::ConnectionsOfUserClose => matched.at("user"),
        _ => return Ok(()),
    };
    match viewer.tags.closes_others() || *viewer.name == *owner {
        true => Ok(()),
        false => Err(ApiError::not_authorised("the connection is another user's")),
    }
}

/// RabbitMQ's hash of a password, with a salt of its own.
fn hash_password(source: &mut dyn Source, matched: &RouteMatch, body: &[u8]) -> Result<Answer, ApiError> {
    let body = RequestBody::parse(body)?;
    let password = match matched.get("password") {
        Some(password) => password,
        None => body.required_text("password")?,
    };
    let [a, b, c, d, ..] = source.random().to_le_bytes();
    let hash = Password::sha256(password.as_bytes(), [a, b, c, d]).written().unwrap_or_default();
    Ok(Answer::json(JsonObject::new().text("ok", &hash).build(), &Columns::default()))
}

/// A queue has no copies that could be behind.
fn queue_action(source: &dyn Source, matched: &RouteMatch, body: &[u8]) -> Result<Answer, ApiError> {
    let catalog = source.catalog();
    let vhost = catalog.vhost_by_name(matched.at("vhost")).ok_or_else(ApiError::not_found)?;
    catalog.queue(vhost, matched.at("name").as_bytes()).ok_or_else(ApiError::not_found)?;
    match RequestBody::parse(body)?.required_text("action")? {
        "sync" | "cancel_sync" => Ok(Answer::empty(204)),
        other => Err(ApiError::bad_request(format!("there is no action '{other}'"))),
    }
}
