//! Asking a running broker: administrative requests over AMQP, and their answers.
//!
//! Enters: an address, commands with their arguments.  Leaves: results, or why there are none.
//! Owns:   the words for what goes wrong on the way.
//! Never:  waits without an end; shows a password.

use crate::admin_server::{CONTENT_TYPE, VERSION};
use catalog::REQUEST_QUEUE;
use client::{Channel, Client, ConsumeOptions, Error, Options, Properties, Publish, RawProperties, Url, Value};
use definitions::Json;
use std::fmt;
use std::time::Duration;
use wire::ShortStr;

/// The pseudo-queue by which answers come (RabbitMQ extension).
const ANSWERS: &str = "amq.rabbitmq.reply-to";
/// How long the broker may take for a connection, or for a step of the way.
pub const STEP_WAIT: Duration = Duration::from_secs(15);
/// How long it may take to answer: behind what others have asked it.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Why there is no result, in words for people.
#[derive(Debug)]
pub struct RequestError {
    /// What kind of reason it is.
    pub kind: RequestErrorKind,
    /// The words.
    pub text: String,
}

/// Kinds of reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestErrorKind {
    /// Nobody answers at the address.
    Unreachable,
    /// The broker refuses the login or the virtual host.
    Login,
    /// Whoever has logged in may not ask.
    NotAllowed,
    /// Something else answers there than an AMQP broker.
    NotAmqp,
    /// It is another broker, which takes no requests.
    NotHarrier,
    /// The broker says so: its code for it.
    Refused(String),
    /// Something else.
    Other,
}

impl fmt::Display for RequestError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

fn request_error(kind: RequestErrorKind, text: String) -> RequestError {
    RequestError { kind, text }
}

/// Asks the broker at an address, as the administrator that the address names.
///
/// # Errors
/// Why there is no result.
pub fn ask(url: &Url, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, RequestError> {
    let mut conversation = AdminConnection::begin(url, "harrier ctl", STEP_WAIT)?;
    let result = conversation.ask(command, arguments)?;
    conversation.end();
    Ok(result)
}

/// A connection over which a broker is asked.
pub struct AdminConnection {
    client: Client,
    /// Where the broker is, for people.
    place: String,
    /// Where requests go from, once there was one.
    channel: Option<Channel>,
}

impl AdminConnection {
    /// Logs in at a broker of whatever make.
    ///
    /// # Errors
    /// Nobody is there, it refuses, or it is no broker.
    pub fn begin(url: &Url, name: &str, step_wait: Duration) -> Result<Self, RequestError> {
        let place = &url.address;
        let options = Options { name: Some(name.to_owned()), answer_wait: step_wait, ..Options::default() };
        let client = Client::connect_with(url, options).map_err(|error| match error {
            Error::Link(error) => request_error(RequestErrorKind::Unreachable, format!("no broker answers at {place}: {error}")),
            Error::ConnectionClosed { code, text } => {
                request_error(RequestErrorKind::Login, format!("the broker at {place} refuses the connection: {code} {text}"))
            }
            Error::Protocol(_) | Error::Unexpected { .. } => {
                request_error(RequestErrorKind::NotAmqp, format!("what answers at {place} is no AMQP broker: {error}"))
            }
            other => request_error(RequestErrorKind::Other, format!("{place}: {other}")),
        })?;
        Ok(AdminConnection { client, place: place.clone(), channel: None })
    }

    /// What the broker says of itself.
    pub fn server_property(&self, name: &str) -> Option<String> {
        match self.client.server_properties().get(name) {
            Some(Value::LongStr(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// Asks.
    ///
    /// # Errors
    /// Why there is no result.
    pub fn ask(&mut self, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, RequestError> {
        let place = &self.place;
        let said = |name: &str| self.server_property(name).unwrap_or_else(|| "unknown".to_owned());
        if self.server_property("harrier").is_none() {
            let (product, version) = (said("product"), said("version"));
            let text = format!("the broker at {place} is no Harrier, and takes no requests: it is {product} {version}");
            return Err(request_error(RequestErrorKind::NotHarrier, text));
        }
        let version = said("harrier");
        let arguments = Json::Object(arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        let fields = [("version", Json::Int(VERSION)), ("command", Json::text(command)), ("arguments", arguments)];
        let request = Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()).line();
        let answer = exchange(&mut self.client, &mut self.channel, request.as_bytes());
        let place = &self.place;
        let answer = answer.map_err(|failed| match failed {
            ExchangeFailure::Returned => {
                let text = format!("the broker at {place} is Harrier {version}, which takes no requests");
                request_error(RequestErrorKind::NotHarrier, text)
            }
            ExchangeFailure::Silent => {
                request_error(RequestErrorKind::Other, format!("the broker at {place} has not answered for {} s", ANSWER_WAIT.as_secs()))
            }
            ExchangeFailure::Call(Error::ChannelClosed { code, text, .. }) => {
                request_error(RequestErrorKind::NotAllowed, format!("the broker at {place} refuses: {code} {text}"))
            }
            ExchangeFailure::Call(error) => request_error(RequestErrorKind::Other, format!("{place}: {error}")),
        })?;
        let strange =
            |why: &str| request_error(RequestErrorKind::Other, format!("the broker at {place} has answered what is not understood: {why}"));
        let answer = Json::read(&answer).map_err(|why| strange(&why))?;
        let Json::Object(fields) = answer else { return Err(strange("no object")) };
        let entry = |name: &str| fields.iter().position(|(key, _)| key == name);
        if let Some(at) = entry("error") {
            let error = &fields[at].1;
            return Err(match (error.get("code"), error.get("text")) {
                (Some(Json::Text(code)), Some(Json::Text(text))) => {
                    request_error(RequestErrorKind::Refused(code.clone()), format!("the broker at {place} says: {text} ({code})"))
                }
                _ => strange("an error without words"),
            });
        }
        let at = entry("result").ok_or_else(|| strange("no result"))?;
        Ok(fields.into_iter().nth(at).map_or(Json::Null, |(_, result)| result))
    }

    /// Lets some time pass before something is asked again.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn pause(&mut self, span: Duration) -> Result<(), RequestError> {
        match self.client.next_delivery(span) {
            Ok(_nobody_asked) => Ok(()),
            Err(error) => Err(request_error(RequestErrorKind::Other, format!("{}: {error}", self.place))),
        }
    }

    /// Says farewell.
    pub fn end(self) {
        // A broker that holds publishers back would not hear it; what was asked for is here.
        if self.client.blocked().is_none()
            && let Err(error) = self.client.close()
        {
            eprintln!("harrier: the connection did not end in order: {error}");
        }
    }
}

/// Why no answer came.
enum ExchangeFailure {
    /// Nobody takes requests there.
    Returned,
    /// It takes too long.
    Silent,
    /// A step of the way was refused, or the connection is gone.
    Call(Error),
}

impl From<Error> for ExchangeFailure {
    fn from(error: Error) -> Self {
        ExchangeFailure::Call(error)
    }
}

/// Sends a request, and waits for its answer.
fn exchange(client: &mut Client, open: &mut Option<Channel>, request: &[u8]) -> Result<Vec<u8>, ExchangeFailure> {
    let channel = match *open {
        Some(channel) => channel,
        None => {
            let channel = client.open_channel()?;
            client.confirm_select(channel)?;
            client.consume(channel, ANSWERS, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
            *open.insert(channel)
        }
    };
    let properties = Properties {
        content_type: Some(ShortStr::literal(CONTENT_TYPE).to_owned()),
        reply_to: Some(ShortStr::literal(ANSWERS).to_owned()),
        ..Properties::default()
    };
    let properties = properties.to_bytes();
    let to = Publish { mandatory: true, properties: RawProperties::new(&properties), ..Publish::to("", REQUEST_QUEUE) };
    client.publish(channel, &to, request)?;
    // What nobody takes comes back before its confirm does.
    client.wait_confirms(channel, 0)?;
    if client.take_returned().is_some() {
        return Err(ExchangeFailure::Returned);
    }
    let answer = client.next_delivery(ANSWER_WAIT)?;
    answer.map(|delivery| delivery.body().to_vec()).ok_or(ExchangeFailure::Silent)
}
