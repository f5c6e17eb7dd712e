//! Asking a running broker: an administrative request over AMQP, and its answer.
//!
//! Enters: an address, a command with its arguments.  Leaves: the result, or why there is none.
//! Owns:   the words for what goes wrong on the way.
//! Never:  waits without an end; shows a password.

use crate::answers::{CONTENT_TYPE, VERSION};
use catalog::REQUEST_QUEUE;
use client::{Client, ConsumeOptions, Error, Options, Properties, Publish, RawProperties, Url, Value};
use definitions::Json;
use std::time::Duration;
use wire::ShortStr;

/// The pseudo-queue by which answers come (RabbitMQ extension).
const ANSWERS: &str = "amq.rabbitmq.reply-to";
/// How long the broker may take for a connection, or for a step of the way.
const STEP_WAIT: Duration = Duration::from_secs(15);
/// How long it may take to answer: behind what others have asked it.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Asks the broker at an address, as the administrator that the address names.
///
/// # Errors
/// Why there is no result, in words for people.
pub fn ask(url: &Url, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, String> {
    let place = &url.address;
    let options = Options { name: Some("harrier ctl".to_owned()), answer_wait: STEP_WAIT, ..Options::default() };
    let mut client = Client::connect_with(url, options).map_err(|error| match error {
        Error::Link(error) => format!("no broker answers at {place}: {error}"),
        Error::ConnectionClosed { code, text } => {
            format!("the broker at {place} refuses the connection: {code} {text}")
        }
        Error::Protocol(_) | Error::Unexpected { .. } => format!("what answers at {place} is no AMQP broker: {error}"),
        other => format!("{place}: {other}"),
    })?;
    let said = |name: &str| match client.server_properties().get(name) {
        Some(Value::LongStr(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => "unknown".to_owned(),
    };
    if client.server_properties().get("harrier").is_none() {
        let (product, version) = (said("product"), said("version"));
        return Err(format!("the broker at {place} is no Harrier, and takes no requests: it is {product} {version}"));
    }
    let version = said("harrier");
    let arguments = Json::Object(arguments.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
    let fields = [("version", Json::Int(VERSION)), ("command", Json::text(command)), ("arguments", arguments)];
    let request = Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()).line();
    let answer = exchange(&mut client, request.as_bytes()).map_err(|failed| match failed {
        Failed::Returned => format!("the broker at {place} is Harrier {version}, which takes no requests"),
        Failed::Silent => format!("the broker at {place} has not answered for {} s", ANSWER_WAIT.as_secs()),
        Failed::Call(Error::ChannelClosed { code, text, .. }) => {
            format!("the broker at {place} refuses: {code} {text}")
        }
        Failed::Call(error) => format!("{place}: {error}"),
    })?;
    // A broker that holds publishers back would not hear a farewell; what was asked for is here.
    if client.blocked().is_none()
        && let Err(error) = client.close()
    {
        eprintln!("harrier: the connection did not end in order: {error}");
    }
    let strange = |why: &str| format!("the broker at {place} has answered what is not understood: {why}");
    let answer = Json::read(&answer).map_err(|why| strange(&why))?;
    let Json::Object(fields) = answer else { return Err(strange("no object")) };
    let entry = |name: &str| fields.iter().position(|(key, _)| key == name);
    if let Some(at) = entry("error") {
        let error = &fields[at].1;
        return Err(match (error.get("code"), error.get("text")) {
            (Some(Json::Text(code)), Some(Json::Text(text))) => format!("the broker at {place} says: {text} ({code})"),
            _ => strange("an error without words"),
        });
    }
    let at = entry("result").ok_or_else(|| strange("no result"))?;
    Ok(fields.into_iter().nth(at).map_or(Json::Null, |(_, result)| result))
}

/// Why no answer came.
enum Failed {
    /// Nobody takes requests there.
    Returned,
    /// It takes too long.
    Silent,
    /// A step of the way was refused, or the connection is gone.
    Call(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Call(error)
    }
}

/// Sends a request, and waits for its answer.
fn exchange(client: &mut Client, request: &[u8]) -> Result<Vec<u8>, Failed> {
    let channel = client.open_channel()?;
    client.confirm_select(channel)?;
    client.consume(channel, ANSWERS, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
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
