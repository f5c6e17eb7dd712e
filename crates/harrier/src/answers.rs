//! Answers to administrative requests: what administrators ask of a running broker, and what they are told.
//!
//! Enters: requests of whom the broker knows that they are administrators; JSON.  Leaves: answers; JSON.
//! Owns:   the thread that answers, one request after the other; the form of both (docs/operations/ctl.md); the table of commands.
//! Never:  asks who somebody is, which the broker has; leaves a request without an answer.

mod links;

pub use links::Federation;

use crate::definitions::salted;
use crate::greeting;
use definitions::{Json, Kept};
use shard::limits::ANSWER_BYTES_MAX;
use shard::{Operator, AdminRequest};
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use wire::{Properties, ShortStr};

/// The version of the form of requests and answers. It grows when one that is understood today would not be any more.
pub const VERSION: i64 = 1;
/// The MIME type of both.
pub const CONTENT_TYPE: &str = "application/json";
/// Bytes of an answer above which the memory that it took is given back.
const LONG_ANSWER_BYTES: usize = 1 << 20;

/// What of the definitions file has no effect, as it was read last; for exports.
#[derive(Clone, Default)]
pub struct Remains(Arc<Mutex<Kept>>);

impl Remains {
    /// It is this from now on.
    pub fn keep(&self, kept: Kept) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    fn get(&self) -> Kept {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why a request has no result.
struct Error {
    /// For programs.
    code: &'static str,
    /// For people.
    text: String,
}

fn error(code: &'static str, text: impl Into<String>) -> Error {
    Error { code, text: text.into() }
}

/// What is asked, and by whom.
struct Asked<'a> {
    user: &'a str,
    arguments: &'a Json,
}

type Command = fn(&mut Answers, &Asked<'_>) -> Result<Json, Error>;

/// What can be asked for, and with what arguments.
const COMMANDS: [(&str, &[&str], Command); 6] = [
    ("definitions", &["vhost"], Answers::definitions),
    ("links", links::LINKS, Answers::links),
    ("link-add", links::LINK_ADD, Answers::link_add),
    ("link-delete", links::LINK_DELETE, Answers::link_delete),
    ("route-add", links::ROUTE_ADD, Answers::route_add),
    ("route-delete", links::ROUTE_DELETE, Answers::route_delete),
];

/// Answers requests.
pub struct Answers {
    operator: Operator,
    kept: Remains,
    federation: Federation,
}

impl Answers {
    /// From the broker of this operator.
    pub fn new(operator: Operator, kept: Remains, federation: Federation) -> Self {
        Answers { operator, kept, federation }
    }

    /// Starts the thread that answers, until the broker has ended.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn serve(mut self, requests: Receiver<AdminRequest>) -> io::Result<()> {
        self.federation.begin(&self.operator);
        let serve = move || requests.iter().for_each(|request| self.answer(request));
        std::thread::Builder::new().name("requests".to_owned()).spawn(serve).map(drop)
    }

    fn answer(&mut self, request: AdminRequest) {
        let AdminRequest { user, reply_to, correlation_id, body } = request;
        let outcome = self.carry_out(&user, &body);
        if let Err(Error { code, text }) = &outcome {
            tracing::debug!(%user, code, text, "a request has no result");
        }
        let mut text = written(outcome);
        if text.len() > ANSWER_BYTES_MAX {
            let why = format!("the answer has {} bytes; {ANSWER_BYTES_MAX} are the most", text.len());
            text = written(Err(error("too-long", why)));
        }
        let bytes = text.len();
        let properties = Properties {
            content_type: Some(ShortStr::literal(CONTENT_TYPE).to_owned()),
            correlation_id: correlation_id.and_then(|id| Some(ShortStr::new(&id).ok()?.to_owned())),
            ..Properties::default()
        };
        self.operator.answer(reply_to, properties.to_bytes(), text.into_bytes());
        if bytes >= LONG_ANSWER_BYTES {
            slab::give_back_heap();
        }
    }

    fn carry_out(&mut self, user: &str, body: &[u8]) -> Result<Json, Error> {
        let request = Json::read(body).map_err(|why| error("malformed", format!("the request is no JSON: {why}")))?;
        let Json::Object(fields) = &request else {
            return Err(error("malformed", format!("a request is an object, not {}", request.kind())));
        };
        match request.get("version") {
            Some(Json::Int(VERSION)) => {}
            Some(other) => {
                let why = format!("version {} of requests is not known here; {VERSION} is", other.line());
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
        tracing::info!(%user, command = name, "an administrator asks");
        command(self, &Asked { user, arguments })
    }

    /// All that is defined now, or what is in one virtual host.
    fn definitions(&mut self, asked: &Asked<'_>) -> Result<Json, Error> {
        let vhost = asked.text("vhost")?.map(str::to_owned);
        let kept = self.kept.get();
        let seen = self.operator.look(move |catalog| {
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

impl Asked<'_> {
    fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.arguments.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(error("malformed", format!("argument '{key}' is a string, not {}", other.kind()))),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, Error> {
        match self.arguments.get(key) {
            None | Some(Json::Null) => Ok(false),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(other) => Err(error("malformed", format!("argument '{key}' is a boolean, not {}", other.kind()))),
        }
    }
}

fn written(outcome: Result<Json, Error>) -> String {
    let entry = match outcome {
        Ok(result) => ("result".to_owned(), result),
        Err(Error { code, text }) => {
            let fields = [("code", Json::text(code)), ("text", Json::Text(text))];
            ("error".to_owned(), Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()))
        }
    };
    Json::Object(vec![("version".to_owned(), Json::Int(VERSION)), entry]).line()
}
