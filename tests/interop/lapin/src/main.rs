//! lapin's run of the expectations.
//!
//! Enters: AMQP_URL.  Leaves: a line for each expectation on standard output, as ../report.py has them.
//! Owns:   its connections; queues and exchanges of its own names, deleted in the end.
//! Never:  sleeps: every wait is for a message or an event, with a deadline.

mod scene;

use std::time::Duration;

use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind, ExchangeKind};

use crate::scene::*;

async fn expectation(name: &str, connection: &Connection, channel: Channel) -> Held {
    let none = FieldTable::default;
    let confirming = ConfirmSelectOptions::default();
    match name {
        "connect" => {
            let other = Connection::connect(&url(), ConnectionProperties::default()).await?;
            temporary(&channel).await?;
            other.close(200, "bye".into()).await?;
        }
        "exchanges" => {
            for kind in [ExchangeKind::Direct, ExchangeKind::Fanout, ExchangeKind::Topic, ExchangeKind::Headers] {
                let name = unique("exchange");
                exchange(&channel, &name, kind.clone(), none()).await?;
                exchange(&channel, &name, kind.clone(), none()).await?;
                channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await?;
                let side = connection.create_channel().await?;
                let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
                let gone = side.exchange_declare(name.as_str().into(), kind, passive, none()).await;
                refused(gone, 404, &format!("NOT_FOUND - no exchange '{name}' in vhost '/'"))?;
            }
        }
        "queues" => {
            equal(temporary(&channel).await?.as_str().starts_with("amq.gen-"), true, "server-named")?;
            let name: ShortString = unique("queue").as_str().into();
            channel
                .queue_declare(name.clone(), QueueDeclareOptions { durable: true, ..Default::default() }, none())
                .await?;
            channel.confirm_select(confirming).await?;
            for _ in 0..3 {
                publish(&channel, "", name.as_str(), b"x").await?;
            }
            equal(ready(&channel, &name).await?, 3, "ready")?;
            equal(channel.queue_purge(name.clone(), QueuePurgeOptions::default()).await?, 3, "purged")?;
            publish(&channel, "", name.as_str(), b"x").await?;
            equal(channel.queue_delete(name, QueueDeleteOptions::default()).await?, 1, "deleted")?;
        }
        "exclusive-queue" => {
            let queue = temporary(&channel).await?;
            let other = Connection::connect(&url(), ConnectionProperties::default()).await?;
            let text = format!(
                "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration."
            );
            let cut = if text.len() > 255 { format!("{}...", &text[..252]) } else { text };
            let side = other.create_channel().await?;
            refused(ready(&side, &queue).await, 405, &cut)?;
            other.close(200, "".into()).await?;
        }
        "auto-delete" => {
            let queue: ShortString = unique("auto").as_str().into();
            channel
                .queue_declare(queue.clone(), QueueDeclareOptions { auto_delete: true, ..Default::default() }, none())
                .await?;
            let consumer = consume(&channel, &queue, true).await?;
            channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
            refused(ready(&channel, &queue).await, 404, &format!("NOT_FOUND - no queue '{queue}' in vhost '/'"))?;
        }
        "refusals" => {
            let name = unique("refused");
            let options = QueueDeclareOptions { auto_delete: true, ..Default::default() };
            channel.queue_declare(name.as_str().into(), options, none()).await?;
            let side = connection.create_channel().await?;
            let other = QueueDeclareOptions { durable: true, ..options };
            refused(
                side.queue_declare(name.as_str().into(), other, none()).await,
                406,
                &format!(
                    "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': received 'true' but current is 'false'"
                ),
            )?;
            let side = connection.create_channel().await?;
            let reserved = format!("amq.{name}");
            refused(
                exchange(&side, &reserved, ExchangeKind::Direct, none()).await,
                403,
                &format!("ACCESS_REFUSED - exchange name '{reserved}' contains reserved prefix 'amq.*'"),
            )?;
            let side = connection.create_channel().await?;
            side.confirm_select(confirming).await?;
            refused(
                in_time("refusal", publish(&side, &name, "k", b"x")).await?,
                404,
                &format!("NOT_FOUND - no exchange '{name}' in vhost '/'"),
            )?;
            channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await?;
        }
        "connection-refusal" => {
            let kind = ExchangeKind::Custom("nonsense".into());
            refused(
                exchange(&channel, &unique("x"), kind, none()).await,
                503,
                "COMMAND_INVALID - unknown exchange type 'nonsense'",
            )?;
        }
        "bind-unbind" => {
            channel.confirm_select(confirming).await?;
            let queue = temporary(&channel).await?;
            bind(&channel, &queue, "amq.direct", "lapin-bind", none()).await?;
            bind(&channel, &queue, "amq.direct", "lapin-bind", none()).await?;
            equal(routed(&channel, "amq.direct", "lapin-bind", none()).await?, true, "bound")?;
            equal(ready(&channel, &queue).await?, 1, "one copy")?;
            channel.queue_unbind(queue, "amq.direct".into(), "lapin-bind".into(), none()).await?;
            equal(routed(&channel, "amq.direct", "lapin-bind", none()).await?, false, "unbound")?;
        }
        "bind-exchange" => {
            channel.confirm_select(confirming).await?;
            let (queue, first, second) = (temporary(&channel).await?, unique("first"), unique("second"));
            exchange(&channel, &first, ExchangeKind::Fanout, none()).await?;
            exchange(&channel, &second, ExchangeKind::Direct, none()).await?;
            channel
                .exchange_bind(
                    second.as_str().into(),
                    first.as_str().into(),
                    "k".into(),
                    ExchangeBindOptions::default(),
                    none(),
                )
                .await?;
            bind(&channel, &queue, &second, "k", none()).await?;
            equal(routed(&channel, &first, "k", none()).await?, true, "over both")?;
            channel
                .exchange_unbind(
                    second.as_str().into(),
                    first.as_str().into(),
                    "k".into(),
                    ExchangeUnbindOptions::default(),
                    none(),
                )
                .await?;
            equal(routed(&channel, &first, "k", none()).await?, false, "unbound")?;
            for name in [first, second] {
                channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await?;
            }
        }
        "topic" => {
            channel.confirm_select(confirming).await?;
            let name = unique("topic");
            exchange(&channel, &name, ExchangeKind::Topic, none()).await?;
            bind(&channel, &temporary(&channel).await?, &name, "a.*.c.#", none()).await?;
            for (key, want) in [("a.b.c", true), ("a.b.c.d.e", true), ("a.c", false), ("a.b.b.c", false), ("", false)] {
                equal(routed(&channel, &name, key, none()).await?, want, key)?;
            }
            channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await?;
        }
        "headers" => {
            channel.confirm_select(confirming).await?;
            for kind in ["all", "any"] {
                let name = unique("headers");
                exchange(&channel, &name, ExchangeKind::Headers, none()).await?;
                let wanted = table(&[("x-match", long(kind)), ("a", AMQPValue::LongInt(1)), ("b", long("two"))]);
                bind(&channel, &temporary(&channel).await?, &name, "", wanted).await?;
                let both = table(&[("a", AMQPValue::LongLongInt(1)), ("b", long("two"))]);
                equal(routed(&channel, &name, "", both).await?, true, "both, of another integer width")?;
                equal(
                    routed(&channel, &name, "", table(&[("a", AMQPValue::LongInt(1))])).await?,
                    kind == "any",
                    "one",
                )?;
                equal(routed(&channel, &name, "", table(&[("c", AMQPValue::LongInt(1))])).await?, false, "none")?;
                channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await?;
            }
        }
        "alternate-exchange" => {
            channel.confirm_select(confirming).await?;
            let (queue, main, alternate) = (temporary(&channel).await?, unique("main"), unique("alternate"));
            exchange(&channel, &alternate, ExchangeKind::Fanout, none()).await?;
            exchange(&channel, &main, ExchangeKind::Direct, table(&[("alternate-exchange", long(&alternate))])).await?;
            bind(&channel, &queue, &alternate, "", none()).await?;
            equal(routed(&channel, &main, "anything", none()).await?, true, "by the alternate")?;
            for name in [main, alternate] {
                channel.exchange_delete(name.as_str().into(), ExchangeDeleteOptions::default()).await?;
            }
        }
        "publish-consume" => {
            let queue = temporary(&channel).await?;
            let mut consumer = consume(&channel, &queue, true).await?;
            let headers = table(&[
                ("s", long("ü")),
                ("i", AMQPValue::LongInt(5)),
                ("l", AMQPValue::LongLongInt(1 << 40)),
                ("h", AMQPValue::ShortInt(-300)),
                ("b", AMQPValue::ShortShortInt(-3)),
                ("t", AMQPValue::Boolean(true)),
                ("n", AMQPValue::Void),
                ("f", AMQPValue::Float(1.5)),
                ("d", AMQPValue::Double(2.5)),
                ("time", AMQPValue::Timestamp(1_700_000_000)),
                ("list", AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::LongInt(1), long("two")]))),
                ("table", AMQPValue::FieldTable(table(&[("x", AMQPValue::LongInt(1))]))),
                ("bytes", AMQPValue::ByteArray(vec![0, 255].into())),
            ]);
            let sent = BasicProperties::default()
                .with_headers(headers)
                .with_content_type("text/plain".into())
                .with_content_encoding("utf-8".into())
                .with_delivery_mode(2)
                .with_priority(7)
                .with_correlation_id("c".into())
                .with_reply_to("r".into())
                .with_expiration("60000".into())
                .with_message_id("m".into())
                .with_timestamp(1_700_000_000)
                .with_type("t".into())
                .with_app_id("a".into());
            for number in 0..1000 {
                let properties = if number == 0 { sent.clone() } else { BasicProperties::default() };
                channel
                    .basic_publish(
                        "".into(),
                        queue.clone(),
                        BasicPublishOptions::default(),
                        number.to_string().as_bytes(),
                        properties,
                    )
                    .await?;
            }
            let got = take(&mut consumer, 1000).await?;
            for (number, delivery) in got.iter().enumerate() {
                equal(delivery.data.as_slice(), number.to_string().as_bytes(), "order")?;
            }
            equal(&got[0].properties, &sent, "properties")?;
        }
        "confirm" => {
            channel.confirm_select(confirming).await?;
            let queue = temporary(&channel).await?;
            let mut waits = Vec::new();
            for number in 0..500 {
                let key = if number % 2 == 0 { queue.clone() } else { "lapin-nowhere".into() };
                waits.push(
                    channel
                        .basic_publish("".into(), key, BasicPublishOptions::default(), b"x", BasicProperties::default())
                        .await?,
                );
            }
            for wait in waits {
                equal(in_time("confirm", wait).await??.is_ack(), true, "confirm")?;
            }
            equal(ready(&channel, &queue).await?, 250, "ready")?;
        }
        "return" => {
            channel.confirm_select(confirming).await?;
            let options = BasicPublishOptions { mandatory: true, ..Default::default() };
            let properties = BasicProperties::default().with_type("t".into());
            let confirm = channel
                .basic_publish("amq.direct".into(), "lapin-nowhere".into(), options, b"back", properties.clone())
                .await?;
            let back = in_time("return", confirm).await??.take_message().ok_or("not returned")?;
            equal((back.reply_code, back.reply_text.as_str()), (312, "NO_ROUTE"), "reply")?;
            equal(
                (back.delivery.data.as_slice(), &back.delivery.properties),
                (b"back".as_slice(), &properties),
                "content",
            )?;
        }
        "immediate" => {
            channel.confirm_select(confirming).await?;
            let options = BasicPublishOptions { immediate: true, ..Default::default() };
            let confirm = channel
                .basic_publish("".into(), "lapin-nowhere".into(), options, b"x", BasicProperties::default())
                .await?;
            refused(in_time("refusal", confirm).await?, 540, "NOT_IMPLEMENTED - immediate=true")?;
        }
        "ack-multiple" => {
            let queue = filled(connection, &channel, 5).await?;
            let side = connection.create_channel().await?;
            let got = take(&mut consume(&side, &queue, false).await?, 5).await?;
            got[2].ack(BasicAckOptions { multiple: true }).await?;
            side.close(200, "".into()).await?;
            equal(
                texts(&take(&mut consume(&channel, &queue, false).await?, 2).await?),
                "3r 4r".into(),
                "what was not acknowledged",
            )?;
            channel.basic_ack(0, BasicAckOptions { multiple: true }).await?;
            equal(ready(&channel, &queue).await?, 0, "ready")?;
        }
        "nack-requeue" => {
            let queue = filled(connection, &channel, 5).await?;
            let mut tags = Vec::new();
            for _ in 0..4 {
                let got = channel.basic_get(queue.clone(), BasicGetOptions::default()).await?.ok_or("empty")?;
                tags.push(got.delivery.delivery_tag);
            }
            let once = BasicNackOptions { multiple: false, requeue: true };
            channel.basic_nack(tags[2], once).await?;
            channel.basic_nack(tags[0], once).await?;
            channel.basic_nack(0, BasicNackOptions { multiple: true, requeue: true }).await?;
            equal(
                texts(&take(&mut consume(&channel, &queue, true).await?, 5).await?),
                "0r 1r 2r 3r 4".into(),
                "the old places",
            )?;
        }
        "reject" => {
            let queue = filled(connection, &channel, 3).await?;
            let mut consumer = consume(&channel, &queue, false).await?;
            let got = take(&mut consumer, 3).await?;
            got[0].reject(BasicRejectOptions { requeue: true }).await?;
            got[1].reject(BasicRejectOptions { requeue: false }).await?;
            equal(texts(&take(&mut consumer, 1).await?), "0r".into(), "requeued")?;
            equal(ready(&channel, &queue).await?, 0, "ready")?;
        }
        "recover" => {
            let queue = filled(connection, &channel, 3).await?;
            let mut consumer = consume(&channel, &queue, false).await?;
            let got = take(&mut consumer, 3).await?;
            got[1].ack(BasicAckOptions::default()).await?;
            channel.basic_recover(BasicRecoverOptions { requeue: true }).await?;
            equal(texts(&take(&mut consumer, 2).await?), "0r 2r".into(), "recovered")?;
        }
        "close-requeues" => {
            let queue = filled(connection, &channel, 3).await?;
            let side = connection.create_channel().await?;
            take(&mut consume(&side, &queue, false).await?, 3).await?;
            side.close(200, "".into()).await?;
            equal(texts(&take(&mut consume(&channel, &queue, true).await?, 3).await?), "0r 1r 2r".into(), "requeued")?;
        }
        "qos-consumer" => {
            let queue = filled(connection, &channel, 9).await?;
            channel.basic_qos(2, BasicQosOptions::default()).await?;
            let mut first = consume(&channel, &queue, false).await?;
            let got = take(&mut first, 2).await?;
            channel.basic_qos(3, BasicQosOptions::default()).await?;
            take(&mut consume(&channel, &queue, false).await?, 3).await?;
            equal(ready(&channel, &queue).await?, 4, "ready")?;
            got[0].ack(BasicAckOptions::default()).await?;
            take(&mut first, 1).await?;
            equal(ready(&channel, &queue).await?, 3, "ready")?;
        }
        "qos-global" => {
            let queue = filled(connection, &channel, 9).await?;
            channel.basic_qos(3, BasicQosOptions { global: true }).await?;
            let mut first = consume(&channel, &queue, false).await?;
            take(&mut first, 3).await?;
            let _second = consume(&channel, &queue, false).await?;
            equal(ready(&channel, &queue).await?, 6, "ready")?;
        }
        "get" => {
            let queue = filled(connection, &channel, 2).await?;
            let got = channel.basic_get(queue.clone(), BasicGetOptions::default()).await?.ok_or("empty")?;
            equal(
                (got.message_count, got.delivery.redelivered, got.delivery.data.as_slice()),
                (1, false, b"0".as_slice()),
                "get",
            )?;
            channel.basic_get(queue.clone(), BasicGetOptions { no_ack: true }).await?;
            equal(channel.basic_get(queue, BasicGetOptions { no_ack: true }).await?.is_none(), true, "empty")?;
        }
        "tx" => {
            let queue = filled(connection, &channel, 1).await?;
            channel.tx_select().await?;
            publish(&channel, "", queue.as_str(), b"rolled back").await?;
            channel.tx_rollback().await?;
            publish(&channel, "", queue.as_str(), b"committed").await?;
            equal(ready(&channel, &queue).await?, 1, "before the commit")?;
            channel.tx_commit().await?;
            equal(ready(&channel, &queue).await?, 2, "after the commit")?;
        }
        "cancel-notify" => {
            let queue: ShortString = unique("cancel").as_str().into();
            channel.queue_declare(queue.clone(), QueueDeclareOptions::default(), none()).await?;
            let mut consumer = consume(&channel, &queue, true).await?;
            connection.create_channel().await?.queue_delete(queue, QueueDeleteOptions::default()).await?;
            equal(in_time("basic.cancel", consumer.next()).await?.is_none(), true, "the stream ends")?;
            temporary(&channel).await?;
        }
        "consume-exclusive" => {
            let queue = temporary(&channel).await?;
            let options = BasicConsumeOptions { exclusive: true, ..Default::default() };
            let _first = channel.basic_consume(queue.clone(), "".into(), options, none()).await?;
            let side = connection.create_channel().await?;
            refused(
                consume(&side, &queue, true).await,
                403,
                &format!("ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"),
            )?;
        }
        "consumer-priority" => {
            let queue = temporary(&channel).await?;
            channel.basic_qos(2, BasicQosOptions::default()).await?;
            let mut low = consume(&channel, &queue, false).await?;
            let arguments = table(&[("x-priority", AMQPValue::LongInt(10))]);
            let mut high =
                channel.basic_consume(queue.clone(), "".into(), BasicConsumeOptions::default(), arguments).await?;
            for number in 0..4 {
                publish(&channel, "", queue.as_str(), number.to_string().as_bytes()).await?;
            }
            equal(texts(&take(&mut high, 2).await?), "0 1".into(), "the higher priority")?;
            equal(texts(&take(&mut low, 2).await?), "2 3".into(), "the lower priority")?;
        }
        "direct-reply-to" => {
            let requests = temporary(&channel).await?;
            let server = connection.create_channel().await?;
            let mut asked = consume(&server, &requests, true).await?;
            let mut replies = consume(&channel, &"amq.rabbitmq.reply-to".into(), true).await?;
            let properties = BasicProperties::default().with_reply_to("amq.rabbitmq.reply-to".into());
            channel.basic_publish("".into(), requests, BasicPublishOptions::default(), b"ask", properties).await?;
            let request = take(&mut asked, 1).await?.remove(0);
            let to = request.properties.reply_to().clone().ok_or("no reply-to")?;
            publish(&server, "", to.as_str(), b"answer").await?;
            equal(texts(&take(&mut replies, 1).await?), "answer".into(), "reply")?;
        }
        "bodies" => {
            let queue = temporary(&channel).await?;
            let mut consumer = consume(&channel, &queue, true).await?;
            let pattern: Vec<u8> = (0..5usize << 20).map(|at| (at * 7 + (at >> 9)) as u8).collect();
            for size in [0, 1, 4095, 128 << 10, 1 << 20, 5 << 20, 0] {
                publish(&channel, "", queue.as_str(), &pattern[..size]).await?;
                let got = take(&mut consumer, 1).await?;
                equal(got[0].data == pattern[..size], true, &format!("{size} bytes unchanged"))?;
            }
        }
        "heartbeat" => {
            let connection =
                Connection::connect(&format!("{}?heartbeat=1", url()), ConnectionProperties::default()).await?;
            equal(connection.configuration().heartbeat(), 1, "negotiated")?;
            let mut events = std::pin::pin!(connection.events_listener());
            // Idle for more than two intervals: only a lost connection may end this wait early.
            let idle = tokio::time::timeout(Duration::from_secs(4), async {
                while !matches!(events.next().await, Some(lapin::Event::Error(_)) | None) {}
            });
            equal(idle.await.is_err(), true, "still connected")?;
            let side = connection.create_channel().await?;
            temporary(&side).await?;
            connection.close(200, "".into()).await?;
        }
        "update-secret" => {
            let url = url();
            let secret = url.split(['@', ':']).nth(2).ok_or("the URL has no password")?;
            connection.update_secret(secret.into(), "renewed".into()).await?;
            temporary(&channel).await?;
        }
        "channels" => {
            let queue = temporary(&channel).await?;
            let mut consumer = consume(&channel, &queue, true).await?;
            let mut many = Vec::new();
            for _ in 0..100 {
                many.push(connection.create_channel().await?);
            }
            for one in &many {
                publish(one, "", queue.as_str(), b"x").await?;
            }
            take(&mut consumer, 100).await?;
            for one in many {
                one.close(200, "".into()).await?;
            }
            temporary(&connection.create_channel().await?).await?;
        }
        other => return Err(format!("no such expectation: {other}").into()),
    }
    Ok(())
}

const NAMES: [&str; 33] = [
    "connect",
    "exchanges",
    "queues",
    "exclusive-queue",
    "auto-delete",
    "refusals",
    "connection-refusal",
    "bind-unbind",
    "bind-exchange",
    "topic",
    "headers",
    "alternate-exchange",
    "publish-consume",
    "confirm",
    "return",
    "immediate",
    "ack-multiple",
    "nack-requeue",
    "reject",
    "recover",
    "close-requeues",
    "qos-consumer",
    "qos-global",
    "get",
    "tx",
    "cancel-notify",
    "consume-exclusive",
    "consumer-priority",
    "direct-reply-to",
    "bodies",
    "heartbeat",
    "update-secret",
    "channels",
];

/// What an expectation has dropped, lapin cancels and closes by itself, and a close that overtakes that may wait for ever: lapin
/// sends none, and ends the socket. Its requests go in order, so one more channel comes behind them.
async fn close(connection: &Connection) -> lapin::Result<()> {
    connection.create_channel().await?.close(200, "bye".into()).await?;
    connection.close(200, "bye".into()).await
}

async fn attempt(name: &str) -> Held {
    let connection = in_time("connect", Connection::connect(&url(), ConnectionProperties::default())).await??;
    let channel = in_time("a channel", connection.create_channel()).await??;
    let held = in_time("the whole expectation", expectation(name, &connection, channel)).await?;
    if connection.status().connected()
        && let Err(error) = in_time("close", close(&connection)).await?
        && !matches!(error.kind(), ErrorKind::InvalidChannelState(..))
    {
        // A channel that was dropped is still closing by itself: lapin's own affair. All else is not.
        return Err(error.into());
    }
    held
}

#[tokio::main]
async fn main() {
    let only = std::env::var("INTEROP_ONLY").unwrap_or_default();
    let only: Vec<&str> = only.split(',').filter(|name| !name.is_empty()).collect();
    let mut failed = false;
    for name in NAMES.into_iter().filter(|name| only.is_empty() || only.contains(name)) {
        match attempt(name).await {
            Ok(()) => println!("ok {name}"),
            Err(why) => {
                failed = true;
                println!("not ok {name} - {}", why.to_string().replace('\n', " "));
            }
        }
    }
    std::process::exit(i32::from(failed));
}
