//! Asks a broker before and after a run what its durable store has written.
//!
//! Harrier tells its administrators (`docs/operations/ctl.md`); of other brokers only the bytes that the system counts for their
//! processes are known.

use client::{
    Client, ClientError, ConnectOptions, ConsumeOptions, Properties, Publish, RawProperties, Url, Value as AmqpValue,
};
use report::document::StoreUsage;
use serde_json::Value;
use wire::ShortStr;

use crate::limits::STORE_ANSWER_WAIT;

/// The pseudo-queue of administrative requests, and the one that receives their replies.
const REQUESTS: &str = "amq.harrier.requests";
const REPLIES: &str = "amq.rabbitmq.reply-to";
const REQUEST: &[u8] = br#"{"version": 1, "command": "store"}"#;

/// The counts of one broker.
pub(crate) struct StoreMeter {
    url: String,
    /// The counts at the beginning of the run; `None` if the broker has none.
    before: Option<StoreUsage>,
    /// Why it has none although it should.
    note: Option<String>,
}

/// What was written in a run.
#[derive(Clone, Debug, Default)]
pub struct StoreReading {
    /// `None` if the broker does not tell.
    pub usage: Option<StoreUsage>,
    /// Why not, if that is unexpected.
    pub note: Option<String>,
}

impl StoreMeter {
    /// A meter of the broker at this address.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), before: None, note: None }
    }

    /// Reads the counts before a run.
    pub fn begin(&mut self) {
        (self.before, self.note) = match counts(&self.url) {
            Ok(counts) => (counts, None),
            Err(why) => (None, Some(format!("the store's counts are unknown: {why}"))),
        };
    }

    /// Reads them again.
    pub fn end(&mut self) -> StoreReading {
        let Some(before) = self.before.take() else { return StoreReading { usage: None, note: self.note.take() } };
        match counts(&self.url) {
            Ok(after) => StoreReading { usage: after.map(|after| difference(&after, &before)), note: None },
            Err(why) => StoreReading { usage: None, note: Some(format!("the store's counts are unknown: {why}")) },
        }
    }
}

fn difference(after: &StoreUsage, before: &StoreUsage) -> StoreUsage {
    StoreUsage {
        messages: after.messages.saturating_sub(before.messages),
        groups: after.groups.saturating_sub(before.groups),
        syncs: after.syncs.saturating_sub(before.syncs),
        bytes: after.bytes.saturating_sub(before.bytes),
    }
}

/// The counts of a broker since its start; `None` if it is not Harrier, or has no store.
pub fn counts(url: &str) -> Result<Option<StoreUsage>, String> {
    match ask(url).map_err(|error| error.to_string())? {
        None => Ok(None),
        Some(answer) => parse(&answer),
    }
}

fn parse(answer: &[u8]) -> Result<Option<StoreUsage>, String> {
    let answer: Value = serde_json::from_slice(answer).map_err(|error| format!("the answer is no JSON: {error}"))?;
    match answer.pointer("/error/code").and_then(Value::as_str) {
        Some("no-state") => return Ok(None),
        Some(code) => return Err(format!("the broker answers {code}")),
        None => {}
    }
    let count = |key: &str| {
        let of_log = |log: &str| answer.pointer(&format!("/result/{log}/{key}")).and_then(Value::as_u64);
        // The journal of definitions is written by groups of its own.
        let definitions = of_log("definitions").unwrap_or(0);
        of_log("all_shards").map(|count| count + definitions).ok_or_else(|| format!("the answer has no {key}"))
    };
    Ok(Some(StoreUsage {
        messages: count("messages_written")?,
        groups: count("groups_written")?,
        syncs: count("syncs")?,
        bytes: count("bytes_written")?,
    }))
}

/// Sends the request; `None` if the broker takes none.
fn ask(url: &str) -> client::Result<Option<Vec<u8>>> {
    let options = ConnectOptions {
        name: Some("harrier bench store".to_owned()),
        answer_wait: STORE_ANSWER_WAIT,
        ..ConnectOptions::default()
    };
    let mut client = Client::connect_with(&Url::parse(url)?, options)?;
    if client.server_properties().get("harrier").and_then(AmqpValue::as_str).is_none() {
        client.close()?;
        return Ok(None);
    }
    let channel = client.open_channel()?;
    client.confirm_select(channel)?;
    client.consume(channel, REPLIES, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    let properties = Properties { reply_to: Some(ShortStr::literal(REPLIES).to_owned()), ..Properties::default() };
    let properties = properties.to_bytes();
    let to = Publish { mandatory: true, properties: RawProperties::new(&properties), ..Publish::to("", REQUESTS) };
    client.publish(channel, &to, REQUEST)?;
    client.wait_confirms(channel, 0)?;
    if client.take_returned().is_some() {
        client.close()?;
        return Ok(None);
    }
    let answer = client.next_delivery(STORE_ANSWER_WAIT)?.map(|answer| answer.body().to_vec());
    client.close()?;
    answer.map(Some).ok_or(ClientError::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let usage = StoreUsage { messages: 9, groups: 4, syncs: 5, bytes: 8_192 };
        let counts = r#"{"messages_written":9,"groups_written":4,"syncs":5,"bytes_written":8192,"later":1}"#;
        let answer = |result: &str| format!(r#"{{"version":1,{result}}}"#);
        let whole = answer(&format!(r#""result":{{"all_shards":{counts},"definitions":null}}"#));
        assert_eq!(parse(whole.as_bytes()), Ok(Some(usage)));
        let both = answer(&format!(r#""result":{{"all_shards":{counts},"definitions":{counts}}}"#));
        let doubled = StoreUsage { messages: 18, groups: 8, syncs: 10, bytes: 16_384 };
        assert_eq!(parse(both.as_bytes()), Ok(Some(doubled)));
        assert_eq!(parse(answer(r#""error":{"code":"no-state","text":""}"#).as_bytes()), Ok(None));
        let why = parse(answer(r#""error":{"code":"unknown-command","text":""}"#).as_bytes());
        assert_eq!(why, Err("the broker answers unknown-command".to_owned()));
        let why = parse(answer(r#""result":{"all_shards":{"messages_written":1}}"#).as_bytes());
        assert_eq!(why, Err("the answer has no groups_written".to_owned()));
    }

    #[test]
    fn a_run_is_what_came_in_between() {
        let before = StoreUsage { messages: 1, groups: 1, syncs: 2, bytes: 4_096 };
        let after = StoreUsage { messages: 11, groups: 3, syncs: 5, bytes: 12_288 };
        let run = StoreUsage { messages: 10, groups: 2, syncs: 3, bytes: 8_192 };
        assert_eq!(difference(&after, &before), run);
    }
}
