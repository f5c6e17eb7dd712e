//! Admin server: answers the requests of administrators to a running broker.
//!
//! One thread answers one request after the other; every request gets an answer. The broker has authorized the user
//! before a request arrives here. The format of requests and answers is in docs/operations/admin-requests.md.

mod api_request;
mod body_uploads;
mod links;
mod log_level;
mod state_backup;
mod stated;
mod store;

pub use links::FederationAdmin;

use crate::greeting;
use crate::initial_definitions::salted;
use crate::kept_definitions::KeptDefinitions;
use crate::management::BrokerManagement;
use crate::stated_definitions::StatedDefinitions;
use admin::{CONTENT_TYPE, VERSION};
use body_uploads::BodyUploads;
use definitions::Json;
use durability::StoreBackup;
use shard::limits::ANSWER_BYTES_MAX;
use shard::{AdminHandle, AdminRequest, ReplyAddress};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use wire::{Properties, ShortStr};

/// An answer longer than this releases its buffer afterwards.
const LONG_ANSWER_BYTES: usize = 1 << 20;

/// Why a request failed.
struct AdminError {
    /// For programs.
    code: &'static str,
    /// For people.
    text: String,
}

fn error(code: &'static str, text: impl Into<String>) -> AdminError {
    AdminError { code, text: text.into() }
}

/// A request's user and arguments.
struct AdminCommand<'a> {
    user: &'a str,
    arguments: &'a Json,
}

/// Who executes a command.
enum CommandHandler {
    /// It returns the result.
    Value(fn(&mut AdminServer, &AdminCommand<'_>) -> Result<Json, AdminError>),
    /// It returns the text of the result, and depends on the channel that sends the request.
    Text(fn(&mut AdminServer, &AdminCommand<'_>, ReplyAddress) -> Result<String, AdminError>),
}

use CommandHandler::{Text, Value};

/// Commands, with the arguments that each accepts.
const COMMANDS: [(&str, &[&str], CommandHandler); 12] = [
    ("api", &["method", "target", "body", "uploaded", "reason"], Text(AdminServer::api)),
    ("api-body", &["piece"], Text(AdminServer::upload)),
    ("backup", &["folder"], Value(AdminServer::backup)),
    ("definitions", &["vhost"], Value(AdminServer::definitions)),
    ("links", links::LINKS, Value(AdminServer::links)),
    ("link-add", links::LINK_ADD, Value(AdminServer::link_add)),
    ("link-delete", links::LINK_DELETE, Value(AdminServer::link_delete)),
    ("route-add", links::ROUTE_ADD, Value(AdminServer::route_add)),
    ("route-delete", links::ROUTE_DELETE, Value(AdminServer::route_delete)),
    ("set-log-level", &["level"], Value(AdminServer::set_log_level)),
    ("stated", &[], Value(AdminServer::stated)),
    ("store", &[], Value(AdminServer::store)),
];

/// Executes admin requests.
pub struct AdminServer {
    operator: AdminHandle,
    kept: KeptDefinitions,
    federation: FederationAdmin,
    /// Without a store there is nothing to copy.
    store: Option<StoreBackup>,
    management: BrokerManagement,
    stated: StatedDefinitions,
    uploads: BodyUploads,
}

impl AdminServer {
    /// A server for the broker of this operator.
    pub fn new(
        operator: AdminHandle,
        kept: KeptDefinitions,
        federation: FederationAdmin,
        management: BrokerManagement,
    ) -> Self {
        let (stated, uploads) = (StatedDefinitions::default(), BodyUploads::default());
        AdminServer { operator, kept, federation, store: None, management, stated, uploads }
    }

    /// Tells administrators what the configuration states.
    pub fn with_stated(self, stated: StatedDefinitions) -> Self {
        AdminServer { stated, ..self }
    }

    /// Lets administrators copy the store.
    pub fn with_store(self, store: Option<StoreBackup>) -> Self {
        AdminServer { store, ..self }
    }

    /// Starts the thread, which ends when the broker does.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn serve(mut self, requests: Receiver<AdminRequest>) -> io::Result<()> {
        self.federation.restore(&self.operator);
        let serve = move || {
            loop {
                let next = match self.uploads.is_empty() {
                    true => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    false => requests.recv_timeout(BodyUploads::TIMEOUT),
                };
                match next {
                    Ok(request) => self.answer(request),
                    Err(RecvTimeoutError::Timeout) => self.uploads.clear(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        std::thread::Builder::new().name("requests".to_owned()).spawn(serve).map(drop)
    }

    fn answer(&mut self, request: AdminRequest) {
        let AdminRequest { user, reply_to, correlation_id, body } = request;
        let outcome = self.execute(&user, reply_to, &body);
        if let Err(AdminError { code, text }) = &outcome {
            tracing::debug!(%user, code, text, "a request has no result");
        }
        let mut text = encode_reply(outcome);
        if text.len() > ANSWER_BYTES_MAX {
            let why = format!("the answer has {} bytes, more than {ANSWER_BYTES_MAX}", text.len());
            text = encode_reply(Err(error("too-long", why)));
        }
        let bytes = text.len();
        let properties = Properties {
            content_type: Some(ShortStr::literal(CONTENT_TYPE).to_owned()),
            correlation_id: correlation_id.and_then(|id| Some(ShortStr::new(&id).ok()?.to_owned())),
            ..Properties::default()
        };
        self.operator.respond(reply_to, properties.to_bytes(), text.into_bytes());
        if bytes >= LONG_ANSWER_BYTES {
            slab::trim_heap();
        }
    }

    /// Executes a request. Returns the text of the result.
    fn execute(&mut self, user: &str, from: ReplyAddress, body: &[u8]) -> Result<String, AdminError> {
        let request = Json::read(body).map_err(|why| error("malformed", format!("the request is not JSON: {why}")))?;
        let Json::Object(fields) = &request else {
            return Err(error("malformed", format!("a request is an object, not {}", request.kind())));
        };
        match request.get("version") {
            Some(Json::Int(VERSION)) => {}
            Some(other) => {
                let why = format!("unknown request version {}; this broker has version {VERSION}", other.line());
                return Err(error("unknown-version", why));
            }
            None => return Err(error("malformed", "the request has no version")),
        }
        if let Some((key, _)) = fields.iter().find(|(key, _)| !["version", "command", "arguments"].contains(&&**key)) {
            return Err(error("malformed", format!("a request has no '{key}'")));
        }
        let Some(Json::Text(name)) = request.get("command") else {
            return Err(error("malformed", "the request has no command"));
        };
        let Some((name, known, command)) = COMMANDS.iter().find(|(known, ..)| known == name) else {
            return Err(error("unknown-command", format!("command '{name}' is not known here")));
        };
        let none = Json::Object(Vec::new());
        let arguments = request.get("arguments").unwrap_or(&none);
        let Json::Object(entries) = arguments else {
            return Err(error("malformed", format!("arguments are an object, not {}", arguments.kind())));
        };
        if let Some((key, _)) = entries.iter().find(|(key, _)| !known.contains(&&**key)) {
            return Err(error("unknown-argument", format!("command '{name}' has no argument '{key}'")));
        }
        let asked = AdminCommand { user, arguments };
        match command {
            Value(handler) => {
                tracing::info!(%user, command = name, "an administrator asks");
                handler(self, &asked).map(|result| result.line())
            }
            // The line about a change is the API's.
            Text(handler) => {
                tracing::debug!(%user, command = name, "an administrator asks the management API");
                handler(self, &asked, from)
            }
        }
    }

    /// All definitions, or those of one virtual host.
    fn definitions(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let vhost = asked.text("vhost")?.map(str::to_owned);
        let kept = self.kept.get();
        let seen = self.operator.with_catalog(move |catalog| {
            let only = match &vhost {
                None => None,
                Some(name) => {
                    let found = catalog.vhost_by_name(name);
                    Some(found.ok_or_else(|| error("not-found", format!("there is no virtual host '{name}'")))?)
                }
            };
            salted(|salt| definitions::snapshot(catalog, only, &kept, greeting::VERSION, salt))
                .map_err(|why| error("failed", why))
        });
        seen.unwrap_or_else(|| Err(error("stopping", "the broker stops")))
    }
}

impl AdminCommand<'_> {
    fn text(&self, key: &str) -> Result<Option<&str>, AdminError> {
        match self.arguments.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(error("malformed", format!("argument '{key}' is a string, not {}", other.kind()))),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, AdminError> {
        match self.arguments.get(key) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(other) => Err(error("malformed", format!("argument '{key}' is a boolean, not {}", other.kind()))),
        }
    }
}

fn encode_reply(outcome: Result<String, AdminError>) -> String {
    let (key, value) = match outcome {
        Ok(result) => ("result", result),
        Err(AdminError { code, text }) => {
            let fields = [("code", Json::text(code)), ("text", Json::Text(text))];
            ("error", Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()).line())
        }
    };
    format!(r#"{{"version":{VERSION},"{key}":{value}}}"#)
}
