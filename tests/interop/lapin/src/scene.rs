//! What every expectation stands on: names, waits, refusals, filled queues, consumers.
//!
//! Enters: AMQP_URL.  Leaves: errors that say what was expected.
//! Never:  waits without a deadline.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, Consumer, ErrorKind, ExchangeKind};

pub const DEADLINE: Duration = Duration::from_secs(15);

pub type Held = Result<(), Box<dyn StdError>>;

pub fn unique(word: &str) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    format!("lapin-{word}-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

pub fn equal<T: PartialEq + Debug>(got: T, want: T, what: &str) -> Held {
    if got == want { Ok(()) } else { Err(format!("{what}: got {got:?}, expected {want:?}").into()) }
}

pub fn url() -> String {
    std::env::var("AMQP_URL").expect("AMQP_URL names the broker")
}

pub async fn in_time<T>(what: &str, wait: impl Future<Output = T>) -> Result<T, Box<dyn StdError>> {
    tokio::time::timeout(DEADLINE, wait).await.map_err(|_| format!("not in time: {what}").into())
}

pub fn refused<T>(result: lapin::Result<T>, code: u16, text: &str) -> Held {
    match result {
        Ok(_) => Err(format!("not refused: {text}").into()),
        Err(error) => match error.kind() {
            ErrorKind::ProtocolError(said) => {
                equal((said.get_id(), said.get_message().as_str()), (code, text), "refusal")
            }
            other => Err(format!("got {other:?}, expected {code} {text}").into()),
        },
    }
}

pub fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut out = FieldTable::default();
    for (name, value) in entries {
        out.insert((*name).into(), value.clone());
    }
    out
}

pub fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

pub async fn temporary(channel: &Channel) -> lapin::Result<ShortString> {
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    Ok(channel.queue_declare("".into(), options, FieldTable::default()).await?.name().clone())
}

pub async fn ready(channel: &Channel, queue: &ShortString) -> lapin::Result<u32> {
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    Ok(channel.queue_declare(queue.clone(), options, FieldTable::default()).await?.message_count())
}

pub async fn exchange(channel: &Channel, name: &str, kind: ExchangeKind, arguments: FieldTable) -> lapin::Result<()> {
    channel.exchange_declare(name.into(), kind, ExchangeDeclareOptions::default(), arguments).await
}

pub async fn bind(
    channel: &Channel,
    queue: &ShortString,
    exchange: &str,
    key: &str,
    arguments: FieldTable,
) -> lapin::Result<()> {
    channel.queue_bind(queue.clone(), exchange.into(), key.into(), QueueBindOptions::default(), arguments).await
}

pub async fn publish(channel: &Channel, exchange: &str, key: &str, body: &[u8]) -> lapin::Result<lapin::Confirmation> {
    channel
        .basic_publish(exchange.into(), key.into(), BasicPublishOptions::default(), body, BasicProperties::default())
        .await?
        .await
}

pub async fn filled(
    connection: &Connection,
    channel: &Channel,
    count: usize,
) -> Result<ShortString, Box<dyn StdError>> {
    let queue = temporary(channel).await?;
    let side = connection.create_channel().await?;
    side.confirm_select(ConfirmSelectOptions::default()).await?;
    for number in 0..count {
        equal(publish(&side, "", queue.as_str(), number.to_string().as_bytes()).await?.is_ack(), true, "confirm")?;
    }
    side.close(200, "".into()).await?;
    Ok(queue)
}

pub async fn consume(channel: &Channel, queue: &ShortString, no_ack: bool) -> lapin::Result<Consumer> {
    let options = BasicConsumeOptions { no_ack, ..Default::default() };
    channel.basic_consume(queue.clone(), "".into(), options, FieldTable::default()).await
}

pub async fn take(consumer: &mut Consumer, count: usize) -> Result<Vec<Delivery>, Box<dyn StdError>> {
    let mut got = Vec::new();
    while got.len() < count {
        let next = in_time(&format!("delivery {} of {count}", got.len() + 1), consumer.next()).await?;
        got.push(next.ok_or("the consumer was cancelled")??);
    }
    Ok(got)
}

pub fn texts(deliveries: &[Delivery]) -> String {
    let word = |delivery: &Delivery| {
        format!("{}{}", String::from_utf8_lossy(&delivery.data), if delivery.redelivered { "r" } else { "" })
    };
    deliveries.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Whether a mandatory publish reached a queue; the channel is in confirm mode.
pub async fn routed(channel: &Channel, exchange: &str, key: &str, headers: FieldTable) -> lapin::Result<bool> {
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let properties = BasicProperties::default().with_headers(headers);
    let confirm = channel.basic_publish(exchange.into(), key.into(), options, b"x", properties).await?.await?;
    Ok(confirm.take_message().is_none())
}
