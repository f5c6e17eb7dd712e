//! Messages to C: published, confirmed, delivered, acknowledged.
//!
//! Enters: bodies and properties of C's; delivery tags.  Leaves: messages in the client's memory, lent until the next call.
//! Owns:   which functions messages have, and the messages that C keeps.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::Duration;

use client::{Answer, Client, ClientChannel, Delivery, DeliveryTag, Publish, RawProperties, ReceivedMessage, Slice};

use crate::connections::{self, Lent, OpenedConnection, with, with_channel};
use crate::foreign::{LentBytes, LentText, items, room, wanted};
use crate::limits::BODY_BYTES_MAX;
use crate::status::{Failure, Status, guarded};
use crate::types::{CallAnswer, ChannelHandle, ConnectionHandle, LentDelivery, NameBuffer, PublishProperties};
use crate::values::encoded;

/// Publishes a message: written, and sent as the head of this file says. `exchange` is "" for the default exchange, whose routing
/// keys are the names of queues. With `mandatory` a message that no queue takes comes back (harrier_returned). `properties` may be
/// NULL. `tag` gets its number for confirms, or 0, and may be NULL. A body that was delivered in memory of its own (32 KiB and
/// more) is not copied while it is borrowed.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_publish(
    channel: ChannelHandle,
    exchange: LentText,
    routing_key: LentText,
    body: LentBytes,
    properties: Option<&PublishProperties>,
    mandatory: bool,
    tag: Option<&mut u64>,
) -> Status {
    publish(channel, (exchange, routing_key), &[body], properties, mandatory, tag)
}

/// Publishes `count` messages that differ in their bodies. `tag` gets the number of the last one.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_publish_many(
    channel: ChannelHandle,
    exchange: LentText,
    routing_key: LentText,
    bodies: *const LentBytes,
    count: usize,
    properties: Option<&PublishProperties>,
    mandatory: bool,
    tag: Option<&mut u64>,
) -> Status {
    match items(bodies, count, isize::MAX as usize / size_of::<LentBytes>(), "bodies") {
        Ok(bodies) => publish(channel, (exchange, routing_key), bodies, properties, mandatory, tag),
        Err(failure) => guarded(|| Err(failure)),
    }
}

fn publish(
    channel: ChannelHandle,
    (exchange, routing_key): (LentText, LentText),
    bodies: &[LentBytes],
    properties: Option<&PublishProperties>,
    mandatory: bool,
    tag: Option<&mut u64>,
) -> Status {
    with_channel(channel, |mine, channel| {
        let encoded = properties.map(encoded).transpose()?;
        let properties = encoded.as_deref().map_or(RawProperties::EMPTY, RawProperties::new);
        let mut last = 0;
        for body in bodies {
            mine.check_room()?;
            let (exchange, routing_key) = (exchange.get("exchange")?, routing_key.get("routing_key")?);
            let to = Publish { exchange, routing_key, mandatory, properties };
            last = write(mine, channel, &to, body)?;
            // Nothing that was lent is looked at any more once this reads.
            mine.written()?;
        }
        if let Some(tag) = tag {
            *tag = last;
        }
        Ok(Status::HarrierOk)
    })
}

fn write(
    mine: &mut OpenedConnection,
    channel: ClientChannel,
    to: &Publish<'_>,
    body: &LentBytes,
) -> Result<u64, Failure> {
    let bytes = body.get("body")?;
    if bytes.len() > BODY_BYTES_MAX {
        return Err(Failure::argument(format!(
            "a body of {} bytes; at most {BODY_BYTES_MAX} are possible",
            bytes.len()
        )));
    }
    let shared = match &mine.lent {
        Lent::Body(slice) if body.is(slice) => Some(slice.clone()),
        _ => None,
    };
    let client = mine.client()?;
    let written = match shared {
        Some(slice) => client.publish_shared(channel, to, &slice),
        None => client.publish(channel, to, bytes),
    };
    written.map_err(|error| mine.failed(error))
}

/// Waits until at most `outstanding_max` publishes of the channel are unconfirmed. HARRIER_REFUSED if the server refused some
/// since they were asked for last. A polled connection gets HARRIER_PENDING instead of a wait.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_wait_confirms(channel: ChannelHandle, outstanding_max: u64) -> Status {
    with_channel(channel, |mine, channel| {
        let must_wait = mine.client()?.outstanding(channel) > outstanding_max;
        if mine.is_polled && must_wait {
            return Ok(Status::HarrierPending);
        }
        mine.is_idle &= !must_wait;
        mine.lent = Lent::Nothing;
        let waited = mine.client()?.wait_confirms(channel, outstanding_max);
        waited.map_err(|error| mine.failed(error))?;
        let has_refused = mine.client()?.has_refused(channel);
        if has_refused {
            return Err(Failure::new(Status::HarrierRefused, "the server refused messages: harrier_take_refused"));
        }
        Ok(Status::HarrierOk)
    })
}

/// The number up to which all publishes of the channel are confirmed or refused; 0 if the channel is not open.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_confirmed_up_to(channel: ChannelHandle) -> u64 {
    let mut tag = 0;
    with_channel(channel, |mine, channel| {
        tag = mine.client()?.confirmed_up_to(channel);
        Ok(Status::HarrierOk)
    });
    tag
}

/// The numbers of publishes that the server refused since this was asked last: up to `len` of them into `tags`, and how many
/// there were into `count`. Those that find no room are not told again.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_take_refused(
    channel: ChannelHandle,
    tags: *mut u64,
    len: usize,
    count: Option<&mut usize>,
) -> Status {
    with_channel(channel, |mine, channel| {
        let out = room(tags, len)?;
        let refused = mine.client()?.take_refused(channel).map_err(|error| mine.failed(error))?;
        for (to, tag) in out.iter_mut().zip(&refused) {
            *to = *tag;
        }
        if let Some(count) = count {
            *count = refused.len();
        }
        Ok(Status::HarrierOk)
    })
}

/// The next delivery: waits for it up to `timeout_ms`, for ever with a negative one, and only looks with 0. HARRIER_NONE if none
/// came. A polled connection only looks.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_next(
    connection: ConnectionHandle,
    timeout_ms: i64,
    delivery: Option<&mut MaybeUninit<LentDelivery>>,
) -> Status {
    with(connection, |mine| {
        let out = wanted(delivery, "delivery")?;
        let timeout = u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis);
        mine.lent = Lent::Nothing;
        let only_looks = mine.is_polled || timeout.is_zero();
        if only_looks {
            mine.begin_look()?;
        }
        mine.is_idle = false;
        let client = mine.client()?;
        let found = if only_looks { client.next_delivery_now() } else { client.next_delivery(timeout) };
        let found =
            found.map(|found| found.map(|delivery| (lent(connection, &delivery), delivery.shared_body().cloned())));
        match found.map_err(|error| mine.failed(error))? {
            Some((delivery, body)) => {
                out.write(delivery);
                mine.lent = body.map_or(Lent::Nothing, Lent::Body);
                Ok(Status::HarrierOk)
            }
            None => {
                let client = mine.client()?;
                let is_drained = client.is_drained();
                let alive = client.send_heartbeat();
                alive.map_err(|error| mine.failed(error))?;
                mine.is_idle = only_looks && is_drained;
                Ok(Status::HarrierNone)
            }
        }
    })
}

fn lent(connection: ConnectionHandle, from: &Delivery<'_>) -> LentDelivery {
    LentDelivery {
        channel: ChannelHandle { connection, id: from.channel.to_bits() },
        delivery_tag: from.delivery_tag.0,
        redelivered: from.redelivered,
        reply_code: 0,
        messages_left: 0,
        consumer_tag: LentBytes::of(from.consumer_tag),
        exchange: LentBytes::of(from.exchange),
        routing_key: LentBytes::of(from.routing_key),
        properties: LentBytes::of(from.properties.as_bytes()),
        body: LentBytes::of(from.body()),
        reply_text: LentBytes::NONE,
    }
}

fn lent_message(connection: ConnectionHandle, from: &ReceivedMessage) -> LentDelivery {
    LentDelivery {
        channel: ChannelHandle { connection, id: from.channel.to_bits() },
        delivery_tag: from.delivery_tag.0,
        redelivered: from.redelivered,
        reply_code: 0,
        messages_left: from.messages_left,
        consumer_tag: LentBytes::of(&from.consumer_tag),
        exchange: LentBytes::of(&from.exchange),
        routing_key: LentBytes::of(&from.routing_key),
        properties: LentBytes::of(from.properties().as_bytes()),
        body: LentBytes::of(from.body()),
        reply_text: LentBytes::NONE,
    }
}

/// Takes a message out of a queue; HARRIER_NONE if there is none. Flags: NO_ACK, as a truth.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_get(
    channel: ChannelHandle,
    queue: LentText,
    no_ack: bool,
    delivery: Option<&mut MaybeUninit<LentDelivery>>,
) -> Status {
    with(channel.connection, |mine| {
        let queue = queue.get("queue")?.to_owned();
        let out = wanted(delivery, "delivery")?;
        let asked = mine.ask(|client| client.get(ClientChannel::from_bits(channel.id), &queue, no_ack))?;
        let Some(got) = asked else { return Ok(Status::HarrierPending) };
        let Some(message) = got.map(Box::new) else { return Ok(Status::HarrierNone) };
        out.write(lent_message(channel.connection, &message));
        mine.lent = Lent::Message(message);
        Ok(Status::HarrierOk)
    })
}

/// The oldest message that came back and was not asked for yet; HARRIER_NONE if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_returned(
    connection: ConnectionHandle,
    delivery: Option<&mut MaybeUninit<LentDelivery>>,
) -> Status {
    with(connection, |mine| {
        let out = wanted(delivery, "delivery")?;
        let Some(returned) = mine.client()?.take_returned().map(Box::new) else { return Ok(Status::HarrierNone) };
        out.write(LentDelivery {
            channel: ChannelHandle { connection, id: returned.channel.to_bits() },
            delivery_tag: 0,
            redelivered: false,
            reply_code: returned.code,
            messages_left: 0,
            consumer_tag: LentBytes::NONE,
            exchange: LentBytes::of(&returned.exchange),
            routing_key: LentBytes::of(&returned.routing_key),
            properties: LentBytes::of(returned.properties().as_bytes()),
            body: LentBytes::of(returned.body()),
            reply_text: LentBytes::of(returned.text.as_bytes()),
        });
        mine.lent = Lent::Returned(returned);
        Ok(Status::HarrierOk)
    })
}

/// Acknowledges one delivery, or with `multiple` all of the channel up to it. Sent like a publish.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_ack(channel: ChannelHandle, delivery_tag: u64, multiple: bool) -> Status {
    settle(channel, |client, channel| client.ack(channel, DeliveryTag(delivery_tag), multiple))
}

/// Refuses one delivery, or with `multiple` all of the channel up to it; what is not requeued is dropped or dead-lettered.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_nack(channel: ChannelHandle, delivery_tag: u64, multiple: bool, requeue: bool) -> Status {
    settle(channel, |client, channel| client.nack(channel, DeliveryTag(delivery_tag), multiple, requeue))
}

/// Refuses one delivery.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_reject(channel: ChannelHandle, delivery_tag: u64, requeue: bool) -> Status {
    settle(channel, |client, channel| client.reject(channel, DeliveryTag(delivery_tag), requeue))
}

fn settle(channel: ChannelHandle, written: impl FnOnce(&mut Client, ClientChannel) -> client::Result<()>) -> Status {
    with_channel(channel, |mine, channel| {
        mine.check_room()?;
        written(mine.client()?, channel).map_err(|error| mine.failed(error))?;
        mine.written()?;
        Ok(Status::HarrierOk)
    })
}

/// The answer to what a polled connection asked, once it has come; HARRIER_NONE before. Ask after harrier_process or
/// harrier_next.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_take_answer(
    connection: ConnectionHandle,
    answer: Option<&mut MaybeUninit<CallAnswer>>,
) -> Status {
    with(connection, |mine| {
        let out = wanted(answer, "answer")?;
        let taken = mine.client()?.take_answer().map_err(|error| mine.failed(error))?;
        let Some(taken) = taken else { return Ok(Status::HarrierNone) };
        let (answer, lent) = answer_of(connection, taken);
        mine.lent = lent;
        out.write(answer);
        Ok(Status::HarrierOk)
    })
}

/// The answer to a call, and the message that it lends.
fn answer_of(connection: ConnectionHandle, taken: Answer) -> (CallAnswer, Lent) {
    let mut answer = CallAnswer {
        channel: ChannelHandle { connection: ConnectionHandle { id: 0 }, id: 0 },
        name: NameBuffer::of(""),
        messages: 0,
        consumers: 0,
        has_message: false,
        message: LentDelivery {
            channel: ChannelHandle { connection: ConnectionHandle { id: 0 }, id: 0 },
            delivery_tag: 0,
            redelivered: false,
            reply_code: 0,
            messages_left: 0,
            consumer_tag: LentBytes::NONE,
            exchange: LentBytes::NONE,
            routing_key: LentBytes::NONE,
            properties: LentBytes::NONE,
            body: LentBytes::NONE,
            reply_text: LentBytes::NONE,
        },
    };
    let mut kept = Lent::Nothing;
    match taken {
        Answer::Done => {}
        Answer::Opened(channel) => answer.channel = ChannelHandle { connection, id: channel.to_bits() },
        Answer::Queue(queue) => {
            answer.name = NameBuffer::of(&queue.name);
            (answer.messages, answer.consumers) = (queue.messages, queue.consumers);
        }
        Answer::Messages(count) => answer.messages = count,
        Answer::ConsumerTag(tag) => answer.name = NameBuffer::of(&tag),
        Answer::Message(message) => {
            answer.has_message = true;
            answer.message = lent_message(connection, &message);
            kept = Lent::Message(message);
        }
    }
    (answer, kept)
}

/// A message that C keeps, beyond its connection if need be.
pub(crate) struct KeptMessage {
    delivery: LentDelivery,
    /// What the delivery points to.
    _copies: Vec<Box<[u8]>>,
    _body: Option<Slice>,
}

/// Keeps a borrowed message until harrier_message_free, on any thread: a body in memory of its own (32 KiB and more) is kept
/// without a copy, and the rest is copied. NULL after a failure.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_keep(delivery: Option<&LentDelivery>) -> Option<Box<KeptMessage>> {
    let mut kept = None;
    let keep = |from: &LentDelivery, shared: Option<Slice>| -> Result<KeptMessage, Failure> {
        let mut copies = Vec::new();
        let mut copy = |bytes: LentBytes| -> Result<LentBytes, Failure> {
            let copied: Box<[u8]> = bytes.get("a part of the message")?.into();
            let lent = LentBytes::of(&copied);
            copies.push(copied);
            Ok(lent)
        };
        let mut delivery = *from;
        for part in [
            &mut delivery.consumer_tag,
            &mut delivery.exchange,
            &mut delivery.routing_key,
            &mut delivery.properties,
            &mut delivery.reply_text,
        ] {
            *part = copy(*part)?;
        }
        if shared.is_none() {
            delivery.body = copy(delivery.body)?;
        }
        Ok(KeptMessage { delivery, _copies: copies, _body: shared })
    };
    let Some(from) = delivery else {
        guarded(|| Err(Failure::argument("delivery is NULL")));
        return None;
    };
    connections::with(from.channel.connection, |mine| {
        let shared = match &mine.lent {
            Lent::Body(slice) if from.body.is(slice) => Some(slice.clone()),
            _ => None,
        };
        kept = Some(Box::new(keep(from, shared)?));
        Ok(Status::HarrierOk)
    });
    kept
}

/// What is kept. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_message_delivery(message: Option<&KeptMessage>) -> Option<&LentDelivery> {
    message.map(|message| &message.delivery)
}

/// Frees a message that was kept, on any thread. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_message_free(message: Option<Box<KeptMessage>>) {
    drop(message);
}
