//! Asking a running broker: administrative requests over AMQP, and their answers.
//!
//! Enters: an address, commands with their arguments.  Leaves: results, or why there are none.
//! Owns:   the words for what goes wrong on the way.
//! Never:  waits without an end; shows a password.

use crate::answers::{CONTENT_TYPE, VERSION};
use catalog::REQUEST_QUEUE;
use client::{ClientChannel, Client, ConsumeOptions, ClientError, ConnectOptions, Properties, Publish, RawProperties, Url, Value};
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
pub struct NoResult {
    /// What kind of reason it is.
    pub kind: Reason,
    /// The words.
    pub text: String,
}

/// Kinds of reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
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
    Said(String),
    /// Something else.
    Other,
}

impl fmt::Display for NoResult {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

fn no(kind: Reason, text: String) -> NoResult {
    NoResult { kind, text }
}

/// Asks the broker at an address, as the administrator that the address names.
///
/// # Errors
/// Why there is no result.
pub fn ask(url: &Url, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, NoResult> {
    let mut conversation = Conversation::begin(url, "harrier ctl", STEP_WAIT)?;
    let result = conversation.ask(command, arguments)?;
    conversation.end();
    Ok(result)
}

/// A connection over which a broker is asked.
pub struct Conversation {
    client: Client,
    /// Where the broker is, for people.
    place: String,
    /// Where requests go from, once there was one.
    channel: Option<ClientChannel>,
}

impl Conversation {
    /// Logs in at a broker of whatever make.
    ///
    /// # Errors
    /// Nobody is there, it refuses, or it is no broker.
    pub fn begin(url: &Url, name: &str, step_wait: Duration) -> Result<Self, NoResult> {
        let place = &url.address;
        let options = ConnectOptions { name: Some(name.to_owned()), answer_wait: step_wait, ..ConnectOptions::default() };
        let client = Client::connect_with(url, options).map_err(|error| match error {
            ClientError::Link(error) => no(Reason::Unreachable, format!("no broker answers at {place}: {error}")),
            ClientError::ConnectionClosed { code, text } => {
                no(Reason::Login, format!("the broker at {place} refuses the connection: {code} {text}"))
            }
            ClientError::Protocol(_) | ClientError::Unexpected { .. } => {
                no(Reason::NotAmqp, format!("what answers at {place} is no AMQP broker: {error}"))
            }
            other => no(Reason::Other, format!("{place}: {other}")),
        })?;
        Ok(Conversation { client, place: place.clone(), channel: None })
    }

    /// What the broker says of itself.
    pub fn said(&self, name: &str) -> Option<String> {
        match self.client.server_properties().get(name) {
            Some(Value::LongStr(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// Asks.
    ///
    /// # Errors
    /// Why there is no result.
    pub fn ask(&mut self, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, NoResult> {
        let place = &self.place;
        let said = |name: &str| self.said(name).unwrap_or_else(|| "unknown".to_owned());
        if self.said("harrier").is_none() {
            let (product, version) = (said("product"), said("version"));
            let text = format!("the broker at {place} is no Harrier, and takes no requests: it is {product} {version}");
            return Err(no(Reason::NotHarrier, text));
        }
        let version = said("harrier");
        let arguments = Json::Object(arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        let fields = [("version", Json::Int(VERSION)), ("command", Json::text(command)), ("arguments", arguments)];
        let request = Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()).line();
        let answer = exchange(&mut self.client, &mut self.channel, request.as_bytes());
        let place = &self.place;
        let answer = answer.map_err(|failed| match failed {
            Failed::Returned => {
                let text = format!("the broker at {place} is Harrier {version}, which takes no requests");
                no(Reason::NotHarrier, text)
            }
            Failed::Silent => {
                no(Reason::Other, format!("the broker at {place} has not answered for {} s", ANSWER_WAIT.as_secs()))
            }
            Failed::Call(ClientError::ChannelClosed { code, text, .. }) => {
                no(Reason::NotAllowed, format!("the broker at {place} refuses: {code} {text}"))
            }
            Failed::Call(error) => no(Reason::Other, format!("{place}: {error}")),
        })?;
        let strange =
            |why: &str| no(Reason::Other, format!("the broker at {place} has answered what is not understood: {why}"));
        let answer = Json::read(&answer).map_err(|why| strange(&why))?;
        let Json::Object(fields) = answer else { return Err(strange("no object")) };
        let entry = |name: &str| fields.iter().position(|(key, _)| key == name);
        if let Some(at) = entry("error") {
            let error = &fields[at].1;
            return Err(match (error.get("code"), error.get("text")) {
                (Some(Json::Text(code)), Some(Json::Text(text))) => {
                    no(Reason::Said(code.clone()), format!("the broker at {place} says: {text} ({code})"))
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
    pub fn pause(&mut self, span: Duration) -> Result<(), NoResult> {
        match self.client.next_delivery(span) {
            Ok(_nobody_asked) => Ok(()),
            Err(error) => Err(no(Reason::Other, format!("{}: {error}", self.place))),
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
enum Failed {
    /// Nobody takes requests there.
    Returned,
    /// It takes too long.
    Silent,
    /// A step of the way was refused, or the connection is gone.
    Call(ClientError),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Failed::Call(error)
    }
}

/// Sends a request, and waits for its answer.
fn exchange(client: &mut Client, open: &mut Option<ClientChannel>, request: &[u8]) -> Result<Vec<u8>, Failed> {
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
        return Err(Failed::Returned);
    }
    let answer = client.next_delivery(ANSWER_WAIT)?;
    answer.map(|delivery| delivery.body().to_vec()).ok_or(Failed::Silent)
}
