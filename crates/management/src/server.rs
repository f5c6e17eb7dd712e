//! The server: connections of HTTP/1.1 on one thread, each of which gets answers of the API.
//!
//! Enters: listeners, a source.  Leaves: answers.
//! Owns:   the thread's runtime, the number of connections, the timeouts of slow clients, and the order login, access, body.

use crate::access::AccessDecision;
use crate::answer::{Answer, AnswerBody};
use crate::answer_bytes::{AnswerBytes, LongAnswerPermit, ScrapeTimer, SharedSource};
use crate::api::{Api, ApiOptions, ApiReply, RequestHead, RoutedRequest};
use crate::api_error::ApiError;
use crate::audit_line::AuditLine;
use crate::authenticator::{self, Authenticator};
use crate::broker_views;
use crate::direct_requests::{DirectAnswer, DirectRequest, DirectRequestQueue, PendingDirectRequest, whole_body};
use crate::limits::{
    ACCEPT_PAUSE, HEAD_BYTES_MAX, LOGIN_BODY_BYTES_MAX, LONG_ANSWERS_MAX, REFRESH_INTERVAL, ROWS_A_PIECE, STOP_TIMEOUT,
    SUSPECT_CONNECTIONS_MAX, ServerLimits, VERIFIER_THREADS,
};
use crate::login_checks::login_source;
use crate::page_files::CONTENT_SECURITY_POLICY;
use crate::query::Columns;
use crate::route::Handler;
use crate::session_cookie;
use crate::source::Source;
use crate::stalled_stream::StalledStream;
use crate::viewer::Viewer;
use bytes::Bytes;
use catalog::UserId;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Ends a server when it is dropped or told to.
pub struct ServerStopper(watch::Sender<bool>);

impl ServerStopper {
    /// With the end that the server listens at.
    pub fn channel() -> (Self, ServerStop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), ServerStop(receiver))
    }

    /// Lets requests that are being answered finish, and ends the server.
    pub fn stop(self) {}
}

impl Drop for ServerStopper {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// What a server waits for.
#[derive(Clone)]
pub struct ServerStop(watch::Receiver<bool>);

impl ServerStop {
    async fn stopped(&mut self) {
        // An error means that the other end is gone, which is the same.
        let _gone = self.0.wait_for(|is_stopped| *is_stopped).await;
    }
}

/// What is served at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedRoutes {
    /// All but metrics.
    Api,
    /// Metrics alone, for which nobody logs in.
    Metrics,
    All,
}

impl ServedRoutes {
    fn has(self, handler: Handler) -> bool {
        match self {
            ServedRoutes::Api => !handler.is_metrics(),
            ServedRoutes::Metrics => handler.is_metrics(),
            ServedRoutes::All => true,
        }
    }
}

/// Where the TLS configuration of the next connection comes from: its certificates may be read again meanwhile.
#[derive(Clone)]
pub struct TlsConfigSource(Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>);

impl TlsConfigSource {
    pub fn new(config: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static) -> Self {
        Self(Arc::new(config))
    }
}

impl std::fmt::Debug for TlsConfigSource {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("TlsConfigSource")
    }
}

/// A listener, and what is served there.
#[derive(Debug)]
pub struct HttpListener {
    pub listener: std::net::TcpListener,
    pub routes: ServedRoutes,
    /// Without it, HTTP is served in the clear.
    pub tls: Option<TlsConfigSource>,
}

/// What all connections of the thread share.
struct Shared {
    api: Api,
    source: SharedSource,
    limits: ServerLimits,
    scrape: ScrapeTimer,
    logins: Authenticator,
    long_answers: Rc<Cell<usize>>,
    /// Open connections by address.
    connections: RefCell<HashMap<IpAddr, usize>>,
}

/// Serves on the calling thread until it is stopped: the listeners, of which there may be none, and requests of the program.
///
/// # Errors
/// The system refuses the runtime or a listener.
pub fn serve(
    listeners: Vec<HttpListener>,
    direct_requests: DirectRequestQueue,
    mut source: Box<dyn Source>,
    options: ApiOptions,
    limits: ServerLimits,
    stop: ServerStop,
) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(VERIFIER_THREADS).build()?;
    let api = Api::new(options, &mut *source);
    let source: SharedSource = Rc::new(RefCell::new(source));
    let shared = Rc::new(Shared {
        logins: Authenticator::new(Rc::clone(&source), *api.key(), now),
        scrape: ScrapeTimer { requests: Rc::clone(api.requests()), clock: now },
        api,
        source,
        limits,
        long_answers: Rc::default(),
        connections: RefCell::default(),
    });
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        for HttpListener { listener, routes, tls } in listeners {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            tokio::task::spawn_local(accept(Rc::clone(&shared), listener, routes, tls, stop.clone()));
        }
        tokio::task::spawn_local(serve_direct_requests(Rc::clone(&shared), direct_requests, stop.clone()));
        let mut stopped = stop.clone();
        while timeout(REFRESH_INTERVAL, stopped.stopped()).await.is_err() {
            shared.source.borrow_mut().refresh();
            shared.api.take_readings(&**shared.source.borrow());
        }
        io::Result::Ok(())
    })?;
    // The rest of the answers that are under way; a client that takes its time is left behind.
    if runtime.block_on(async { timeout(STOP_TIMEOUT, tasks).await }).is_err() {
        tracing::info!("connections of the management API are cut");
    }
    runtime.shutdown_background();
    Ok(())
}

/// What the audit line has in the place of an address.
const DIRECT_PEER: &str = "admin request";

#[expect(
    clippy::disallowed_methods,
    reason = "when a login failed, when a session was used, and how long requests take"
)]
fn now() -> Instant {
    Instant::now()
}

async fn accept(
    shared: Rc<Shared>,
    listener: TcpListener,
    routes: ServedRoutes,
    tls: Option<TlsConfigSource>,
    mut stop: ServerStop,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.stopped() => return,
        };
        match accepted {
            Ok((stream, peer)) => match OpenConnection::open(&shared, peer.ip(), routes, tls.is_some()) {
                Some(open) => {
                    let config = tls.as_ref().map(|source| (source.0)());
                    tokio::task::spawn_local(serve_connection(open, stream, config, peer, stop.clone()));
                }
                // An answer in the clear means nothing to a client that begins with TLS.
                None if tls.is_some() => tracing::debug!(%peer, "a connection of the management API is one too many"),
                None => refuse(&stream, peer),
            },
            Err(error) => {
                // No descriptors are left, or the client has gone already.
                tracing::debug!(%error, "no connection of the management API was accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection that counts as long as it is there.
struct OpenConnection {
    shared: Rc<Shared>,
    source: IpAddr,
    routes: ServedRoutes,
    /// Nobody between the client and this program can read it.
    is_secure: bool,
}

impl OpenConnection {
    fn open(shared: &Rc<Shared>, peer: IpAddr, routes: ServedRoutes, is_secure: bool) -> Option<Self> {
        let source = login_source(peer);
        let mut connections = shared.connections.borrow_mut();
        let of_source = connections.get(&source).copied().unwrap_or_default();
        let is_suspect = shared.logins.is_suspect(peer);
        if connections.values().sum::<usize>() >= shared.limits.connections_max
            || is_suspect && of_source >= SUSPECT_CONNECTIONS_MAX
        {
            return None;
        }
        *connections.entry(source).or_default() += 1;
        Some(Self { shared: Rc::clone(shared), source, routes, is_secure })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut connections = self.shared.connections.borrow_mut();
        if let Some(count) = connections.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.source);
            }
        }
    }
}

/// Answers 503 to a connection that is one too many, as far as the socket takes it at once.
fn refuse(stream: &TcpStream, peer: SocketAddr) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n";
    if let Err(error) = stream.try_write(ANSWER) {
        tracing::debug!(%error, %peer, "a client is refused without an answer");
    }
}

async fn serve_connection(
    open: OpenConnection,
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    peer: SocketAddr,
    stop: ServerStop,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "an option of a socket is not set");
    }
    let limits = &open.shared.limits;
    let stream = StalledStream::new(stream, limits.write_timeout);
    let Some(config) = tls else { return serve_requests(&open, stream, peer, stop).await };
    match timeout(limits.head_timeout, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => serve_requests(&open, stream, peer, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, %peer, "a client of the management API has no TLS"),
        Err(_) => tracing::debug!(%peer, "a client of the management API does not end its handshake"),
    }
}

async fn serve_requests(
    open: &OpenConnection,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: SocketAddr,
    mut stop: ServerStop,
) {
    let shared = &open.shared;
    let serve = |request| async move { Ok::<_, Infallible>(serve_request(open, peer, request).await) };
    let service = service_fn(serve);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection of the management API ended");
    }
}

async fn serve_request(open: &OpenConnection, peer: SocketAddr, request: Request<Incoming>) -> Response<AnswerBytes> {
    let (shared, routes, began) = (&open.shared, open.routes, now());
    let (parts, body) = request.into_parts();
    let is_gzip = parts.headers.get(header::ACCEPT_ENCODING).is_some_and(takes_gzip);
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let head = RequestHead {
        method: parts.method.as_str().to_owned(),
        target: parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned(),
        // A proxy's form of the request line has the host in it.
        host: parts.uri.authority().map(ToString::to_string).or_else(|| text(header::HOST)),
        origin: text(header::ORIGIN),
        content_type: text(header::CONTENT_TYPE),
        reason: text(HeaderName::from_static("x-reason")),
    };
    let answer = match shared.api.route(&head) {
        Ok(request) if !routes.has(request.matched.route.handler) => Answer::of_error(&ApiError::not_found()),
        Ok(request) => match serve_routed(open, peer, &parts.headers, &request, body).await {
            Ok(answer) => answer,
            Err(error) => Answer::of_error(&error),
        },
        Err(answer) => answer,
    };
    shared.api.requests().borrow_mut().count(answer.status, now().saturating_duration_since(began));
    let asks_for_credentials = answer.status == 401 && !session_cookie::is_of_page(&parts.headers);
    respond(shared, answer, is_gzip, asks_for_credentials)
}

async fn serve_routed(
    open: &OpenConnection,
    peer: SocketAddr,
    headers: &HeaderMap,
    request: &RoutedRequest,
    body: Incoming,
) -> Result<Answer, ApiError> {
    let shared = &open.shared;
    if matches!(request.matched.route.handler, Handler::Login | Handler::Logout) {
        return serve_login(open, peer, headers, request, body).await;
    }
    let identity = match request.needs_login() {
        true => Some(shared.logins.identify(peer, headers).await?),
        false => None,
    };
    if identity.is_some_and(|identity| identity.is_by_cookie) && request.is_change() {
        session_cookie::check_own_site(headers)?;
    }
    let user = identity.map(|identity| identity.user);
    let admit = |user| shared.api.admit(&**shared.source.borrow(), request, user);
    if let Some(user) = user {
        admit(user)?;
    }
    let body = if request.is_change() {
        read_body(body, shared.limits.body_bytes_max, &shared.limits).await?
    } else {
        Vec::new()
    };
    answer_request(shared, request, user, &peer.to_string(), &body).await
}

/// Answers a request of a user who is logged in, once the body is there.
async fn answer_request(
    shared: &Shared,
    request: &RoutedRequest,
    user: Option<UserId>,
    peer: &str,
    body: &[u8],
) -> Result<Answer, ApiError> {
    shared.source.borrow_mut().begin_request();
    shared.api.take_readings(&**shared.source.borrow());
    // What the user may do has perhaps changed while the body came.
    let viewer = user.map(|user| shared.api.admit(&**shared.source.borrow(), request, user)).transpose()?;
    let line = viewer.as_ref().filter(|_| request.is_change()).map(|viewer| audit_line(shared, viewer, peer, request));
    let reply = shared.api.answer(&mut **shared.source.borrow_mut(), request, viewer.as_ref(), body);
    let answer = match reply {
        ApiReply::Now(answer) => answer,
        ApiReply::Later(outcome) => match timeout(shared.limits.action_timeout, outcome).await {
            Ok(Ok(outcome)) => Answer::of_outcome(outcome),
            Ok(Err(_)) => Answer::of_error(&ApiError::unavailable("the broker stops")),
            Err(_) => Answer::of_error(&ApiError::unavailable("the broker takes too long")),
        },
    };
    if let Some(mut line) = line {
        line.set_status(answer.status);
    }
    Ok(answer)
}

/// Answers requests of the program one after the other.
async fn serve_direct_requests(shared: Rc<Shared>, mut requests: DirectRequestQueue, mut stop: ServerStop) {
    loop {
        let next = tokio::select! {
            next = requests.next() => next,
            () = stop.stopped() => return,
        };
        let Some(PendingDirectRequest { request, answer }) = next else { return };
        let bytes_max = request.answer_bytes_max;
        let found = answer_directly(&shared, request).await.unwrap_or_else(|error| Answer::of_error(&error));
        let (mut status, mut is_json) = (found.status, !matches!(found.body, AnswerBody::Metrics(_)));
        let body = whole_body(found.body, &shared.source, bytes_max).await.unwrap_or_else(|error| {
            (status, is_json) = (error.status, true);
            error.body().into_bytes()
        });
        if answer.send(DirectAnswer { status, body, is_json }).is_err() {
            tracing::debug!("nobody waits for the answer to a request any more");
        }
    }
}

async fn answer_directly(shared: &Shared, request: DirectRequest) -> Result<Answer, ApiError> {
    let DirectRequest { user, method, target, reason, body, .. } = request;
    if body.len() > shared.limits.body_bytes_max {
        let reason = format!("a body has {} bytes at most", shared.limits.body_bytes_max);
        return Err(ApiError::new(413, "payload_too_large", reason));
    }
    let routed = match shared.api.route(&RequestHead { method, target, reason, ..RequestHead::default() }) {
        Ok(routed) => routed.directly(),
        Err(answer) => return Ok(answer),
    };
    // The replica may not yet have the user, who has just been made.
    shared.source.borrow_mut().follow();
    let user = shared.source.borrow().catalog().user_by_name(&user).map(|(id, _)| id);
    let user = user.ok_or_else(ApiError::login_failed)?;
    answer_request(shared, &routed, Some(user), DIRECT_PEER, &body).await
}

fn audit_line<'a>(shared: &'a Shared, viewer: &Viewer, peer: &str, request: &RoutedRequest) -> AuditLine<'a> {
    AuditLine::new(shared.api.audit_log(), shared.source.borrow().now_ms(), viewer, peer, request)
}

/// `POST /api/login` and `DELETE /api/login`: a session begins, or ends.
async fn serve_login(
    open: &OpenConnection,
    peer: SocketAddr,
    headers: &HeaderMap,
    request: &RoutedRequest,
    body: Incoming,
) -> Result<Answer, ApiError> {
    let (shared, logins) = (&open.shared, &open.shared.logins);
    let cookie = |token| session_cookie::set_cookie(token, shared.api.path_prefix(), open.is_secure);
    let audit = |viewer: &Viewer, status| audit_line(shared, viewer, &peer.to_string(), request).set_status(status);
    if request.matched.route.handler == Handler::Logout {
        if let Some(user) = logins.user_of_session(peer, headers)? {
            session_cookie::check_own_site(headers)?;
            let viewer = Viewer::of(&**shared.source.borrow(), user);
            viewer.iter().for_each(|viewer| audit(viewer, 204));
        }
        logins.end_session(headers);
        return Ok(Answer::empty(204).with_header("set-cookie", cookie(None)));
    }
    let body = read_body(body, shared.limits.body_bytes_max.min(LOGIN_BODY_BYTES_MAX), &shared.limits).await?;
    let user = logins.prove(peer, &authenticator::credentials_of_body(&body)?).await?;
    let viewer = Viewer::of(&**shared.source.borrow(), user).ok_or_else(ApiError::login_failed)?;
    if !viewer.tags.is_any() {
        return Err(ApiError::not_authorised(AccessDecision::NotManagement.reason()));
    }
    logins.end_session(headers);
    let token = logins.begin_session(user);
    audit(&viewer, 200);
    let answer = Answer::json(broker_views::whoami(&**shared.source.borrow(), &viewer), &Columns::default());
    Ok(answer.with_header("set-cookie", cookie(Some(&token))))
}

/// The whole body, up to the limit.
async fn read_body(mut body: Incoming, max: usize, limits: &ServerLimits) -> Result<Vec<u8>, ApiError> {
    let too_long = || ApiError::new(413, "payload_too_large", format!("a body has {max} bytes at most"));
    if body.size_hint().lower() > max as u64 {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    loop {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Ok(frame) = timeout(limits.body_timeout, frame).await else {
            return Err(ApiError::new(408, "request_timeout", "the body takes too long"));
        };
        let Some(frame) = frame else { return Ok(bytes) };
        let frame = frame.map_err(|error| ApiError::bad_request(format!("the body is malformed: {error}")))?;
        let data: Bytes = frame.into_data().unwrap_or_default();
        if bytes.len() + data.len() > max {
            return Err(too_long());
        }
        bytes.extend_from_slice(&data);
    }
}

/// Whether a list of encodings has gzip in it, and does not refuse it.
fn takes_gzip(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    text.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_gzip && weight.is_none_or(|weight| weight > 0.0)
    })
}

fn respond(shared: &Shared, answer: Answer, is_gzip: bool, asks_for_credentials: bool) -> Response<AnswerBytes> {
    let is_long = match &answer.body {
        AnswerBody::Rows(rows) => rows.rows_left() > ROWS_A_PIECE,
        AnswerBody::Metrics(metrics) => metrics.is_long(),
        _ => false,
    };
    let permit = is_long.then(|| LongAnswerPermit::take(&shared.long_answers, LONG_ANSWERS_MAX));
    let (answer, permit) = match permit {
        Some(None) => (Answer::of_error(&ApiError::unavailable("too many long answers are under way")), None),
        permit => (answer, permit.flatten()),
    };
    let (body, is_compressed) = AnswerBytes::new(answer.body, &shared.source, is_gzip, permit, &shared.scrape);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept, accept-encoding, origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    ];
    headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
    if asks_for_credentials {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"RabbitMQ Management\""));
    }
    if answer.status == 204 {
        headers.remove(header::CONTENT_TYPE);
    }
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in answer.headers {
        match HeaderValue::from_str(&value) {
            Ok(value) => _ = headers.insert(HeaderName::from_static(name), value),
            Err(error) => tracing::error!(%error, name, "a header of an answer cannot be written"),
        }
    }
    response
}
