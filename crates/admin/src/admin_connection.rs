//! Client side of the admin requests: sends commands to a running broker over AMQP and waits, with a time limit, for
//! the replies.
//!
//! Error texts never contain a password.

use crate::limits::{ANSWER_WAIT, STEP_WAIT};
use crate::{CONTENT_TYPE, VERSION};
use catalog::REQUEST_QUEUE;
use client::{
    Client, ClientChannel, ClientError, ConnectOptions, ConsumeOptions, Properties, Publish, RawProperties, Url, Value,
};
use definitions::Json;
use std::fmt;
use std::time::Duration;
use wire::ShortStr;

/// The pseudo-queue that receives replies (RabbitMQ extension).
const ANSWERS: &str = "amq.rabbitmq.reply-to";

/// Why a request has no result.
#[derive(Debug)]
pub struct RequestError {
    pub kind: RequestErrorKind,
    /// The text to print.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestErrorKind {
    /// Nothing answers at the address.
    Unreachable,
    /// The broker refuses the login or the virtual host.
    Login,
    /// The user is not an administrator.
    NotAllowed,
    /// The peer is not an AMQP broker.
    NotAmqp,
    /// The broker is not Harrier and takes no admin requests.
    NotHarrier,
    /// The broker refused the request, with this code.
    Refused(String),
    /// The time limit for a reply passed.
    TimedOut,
    /// Any other error.
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

/// Sends one command to the broker at an address, as the administrator named in the address.
///
/// # Errors
/// Why there is no result.
pub fn ask(url: &Url, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, RequestError> {
    let mut conversation = AdminConnection::begin(url, "harrier ctl", STEP_WAIT)?;
    let result = conversation.ask(command, arguments)?;
    conversation.end();
    Ok(result)
}

/// A connection for admin requests.
pub struct AdminConnection {
    client: Client,
    /// The broker's address, for error texts.
    place: String,
    /// The channel of requests, opened by the first one.
    channel: Option<ClientChannel>,
    /// Time limit for a reply.
    answer_wait: Duration,
}

impl AdminConnection {
    /// Connects and logs in, at a broker of any make.
    ///
    /// # Errors
    /// The address is unreachable, the login is refused, or the peer is not a broker.
    pub fn begin(url: &Url, name: &str, step_wait: Duration) -> Result<Self, RequestError> {
        let place = &url.address;
        let options =
            ConnectOptions { name: Some(name.to_owned()), answer_wait: step_wait, ..ConnectOptions::default() };
        let client = Client::connect_with(url, options).map_err(|error| match error {
            ClientError::Link(error) => {
                request_error(RequestErrorKind::Unreachable, format!("no broker answers at {place}: {error}"))
            }
            ClientError::ConnectionClosed { code, text } => request_error(
                RequestErrorKind::Login,
                format!("the broker at {place} refuses the connection: {code} {text}"),
            ),
            ClientError::Protocol(_) | ClientError::Unexpected { .. } => {
                request_error(RequestErrorKind::NotAmqp, format!("the peer at {place} is not an AMQP broker: {error}"))
            }
            other => request_error(RequestErrorKind::Other, format!("{place}: {other}")),
        })?;
        Ok(AdminConnection { client, place: place.clone(), channel: None, answer_wait: ANSWER_WAIT })
    }

    /// Waits for each reply as long as this.
    pub fn with_answer_wait(self, answer_wait: Duration) -> Self {
        AdminConnection { answer_wait, ..self }
    }

    /// A server property that the broker sent in `connection.start`.
    pub fn server_property(&self, name: &str) -> Option<String> {
        match self.client.server_properties().get(name) {
            Some(Value::LongStr(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// Sends a command and waits for its result.
    ///
    /// # Errors
    /// Why there is no result.
    pub fn ask(&mut self, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, RequestError> {
        let place = &self.place;
        let said = |name: &str| self.server_property(name).unwrap_or_else(|| "unknown".to_owned());
        if self.server_property("harrier").is_none() {
            let (product, version) = (said("product"), said("version"));
            let text =
                format!("the broker at {place} is not Harrier, and takes no requests: it is {product} {version}");
            return Err(request_error(RequestErrorKind::NotHarrier, text));
        }
        let version = said("harrier");
        let arguments = Json::Object(arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        let fields = [("version", Json::Int(VERSION)), ("command", Json::text(command)), ("arguments", arguments)];
        let request = Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()).line();
        let answer = exchange(&mut self.client, &mut self.channel, request.as_bytes(), self.answer_wait);
        let place = &self.place;
        let answer = answer.map_err(|failed| match failed {
            ExchangeFailure::Returned => {
                let text = format!("the broker at {place} is Harrier {version}, which takes no requests");
                request_error(RequestErrorKind::NotHarrier, text)
            }
            ExchangeFailure::Silent => request_error(
                RequestErrorKind::TimedOut,
                format!("the broker at {place} has not answered for {} s", self.answer_wait.as_secs()),
            ),
            ExchangeFailure::Call(ClientError::ChannelClosed { code, text, .. }) => {
                request_error(RequestErrorKind::NotAllowed, format!("the broker at {place} refuses: {code} {text}"))
            }
            ExchangeFailure::Call(error) => request_error(RequestErrorKind::Other, format!("{place}: {error}")),
        })?;
        let strange = |why: &str| {
            request_error(
                RequestErrorKind::Other,
                format!("the broker at {place} sent a reply that is not understood: {why}"),
            )
        };
        let answer = Json::read(&answer).map_err(|why| strange(&why))?;
        let Json::Object(fields) = answer else { return Err(strange("no object")) };
        let entry = |name: &str| fields.iter().position(|(key, _)| key == name);
        if let Some(at) = entry("error") {
            let error = &fields[at].1;
            return Err(match (error.get("code"), error.get("text")) {
                (Some(Json::Text(code)), Some(Json::Text(text))) => request_error(
                    RequestErrorKind::Refused(code.clone()),
                    format!("the broker at {place} says: {text} ({code})"),
                ),
                _ => strange("an error without a text"),
            });
        }
        let at = entry("result").ok_or_else(|| strange("no result"))?;
        Ok(fields.into_iter().nth(at).map_or(Json::Null, |(_, result)| result))
    }

    /// Waits before the next request.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn pause(&mut self, span: Duration) -> Result<(), RequestError> {
        match self.client.next_delivery(span) {
            Ok(_nobody_asked) => Ok(()),
            Err(error) => Err(request_error(RequestErrorKind::Other, format!("{}: {error}", self.place))),
        }
    }

    /// Closes the connection.
    pub fn end(self) {
        // A broker that throttles publishers would not read the close; the result has arrived.
        if self.client.blocked().is_none()
            && let Err(error) = self.client.close()
        {
            cli::print_error(&format!("harrier: the connection did not close cleanly: {error}"));
        }
    }
}

/// Why no reply came.
enum ExchangeFailure {
    /// The request was returned: the broker takes none.
    Returned,
    /// The time limit passed.
    Silent,
    /// A step was refused, or the connection is gone.
    Call(ClientError),
}

impl From<ClientError> for ExchangeFailure {
    fn from(error: ClientError) -> Self {
        ExchangeFailure::Call(error)
    }
}

/// Sends a request and waits for its reply.
fn exchange(
    client: &mut Client,
    open: &mut Option<ClientChannel>,
    request: &[u8],
    answer_wait: Duration,
) -> Result<Vec<u8>, ExchangeFailure> {
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
    // A returned message comes back before its confirm.
    client.wait_confirms(channel, 0)?;
    if client.take_returned().is_some() {
        return Err(ExchangeFailure::Returned);
    }
    let answer = client.next_delivery(answer_wait)?;
    answer.map(|delivery| delivery.body().to_vec()).ok_or(ExchangeFailure::Silent)
}
