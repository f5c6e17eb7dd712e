//! Channels to C, and what is declared on them.
//!
//! Enters: names, flags, arguments.  Leaves: the server's answers.
//! Owns:   which functions exchanges, queues and bindings have. Names are copied: while an answer is awaited, memory that was
//!         lent to C is written to.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use client::{Client, ConsumeOptions, ExchangeOptions, QueueOptions};

use crate::connections::{with, with_channel};
use crate::foreign::{LentText, wanted};
use crate::status::{Failure, Status};
use crate::types::{
    ChannelHandle, ConnectionHandle, FieldList, HARRIER_AUTO_DELETE, HARRIER_DURABLE, HARRIER_EXCLUSIVE,
    HARRIER_IF_EMPTY, HARRIER_IF_UNUSED, HARRIER_INTERNAL, HARRIER_NO_ACK, HARRIER_PASSIVE, NameBuffer, QueueState,
};
use crate::values::table;

/// Flags, of which only some have a meaning here.
#[derive(Clone, Copy)]
struct Flags(u32);

impl Flags {
    fn of(flags: u32, allowed: u32) -> Result<Self, Failure> {
        match flags & !allowed {
            0 => Ok(Self(flags)),
            others => Err(Failure::argument(format!("flags {others:#x} mean nothing here"))),
        }
    }

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

fn name(text: LentText, what: &str) -> Result<String, Failure> {
    text.get(what).map(str::to_owned)
}

/// A call's status: done, or asked.
fn done<T>(answer: Option<T>) -> Result<Status, Failure> {
    Ok(if answer.is_some() { Status::HarrierOk } else { Status::HarrierPending })
}

/// As `done`, and puts a number where it is wanted.
fn counted(answer: Option<u32>, messages: Option<&mut u32>) -> Result<Status, Failure> {
    if let (Some(count), Some(messages)) = (answer, messages) {
        *messages = count;
    }
    done(answer)
}

/// Opens a channel.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_open_channel(
    connection: ConnectionHandle,
    channel: Option<&mut MaybeUninit<ChannelHandle>>,
) -> Status {
    with(connection, |mine| {
        let out = wanted(channel, "channel")?;
        let opened = mine.ask(Client::open_channel)?;
        if let Some(opened) = opened {
            out.write(ChannelHandle { connection, id: opened.to_bits() });
        }
        done(opened)
    })
}

/// Closes a channel; what was delivered on it and not acknowledged is requeued.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_close_channel(channel: ChannelHandle) -> Status {
    with_channel(channel, |mine, channel| done(mine.ask(|client| client.close_channel(channel))?))
}

/// Declares an exchange of a kind: "direct", "fanout", "topic", "headers". Flags: PASSIVE, DURABLE, AUTO_DELETE, INTERNAL.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_declare_exchange(
    channel: ChannelHandle,
    exchange: LentText,
    kind: LentText,
    flags: u32,
    arguments: Option<&FieldList>,
) -> Status {
    with_channel(channel, |mine, channel| {
        let (exchange, kind) = (name(exchange, "exchange")?, name(kind, "kind")?);
        let flags = Flags::of(flags, HARRIER_PASSIVE | HARRIER_DURABLE | HARRIER_AUTO_DELETE | HARRIER_INTERNAL)?;
        let options = ExchangeOptions {
            passive: flags.has(HARRIER_PASSIVE),
            durable: flags.has(HARRIER_DURABLE),
            auto_delete: flags.has(HARRIER_AUTO_DELETE),
            internal: flags.has(HARRIER_INTERNAL),
            arguments: table(arguments)?,
        };
        done(mine.ask(|client| client.declare_exchange(channel, &exchange, &kind, &options))?)
    })
}

/// Deletes an exchange. Flags: IF_UNUSED.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_delete_exchange(channel: ChannelHandle, exchange: LentText, flags: u32) -> Status {
    with_channel(channel, |mine, channel| {
        let exchange = name(exchange, "exchange")?;
        let is_unused = Flags::of(flags, HARRIER_IF_UNUSED)?.has(HARRIER_IF_UNUSED);
        done(mine.ask(|client| client.delete_exchange(channel, &exchange, is_unused))?)
    })
}

/// Declares a queue; an empty name lets the server choose one. `state` has its name, and may be NULL. Flags: PASSIVE, DURABLE,
/// EXCLUSIVE, AUTO_DELETE.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_declare_queue(
    channel: ChannelHandle,
    queue: LentText,
    flags: u32,
    arguments: Option<&FieldList>,
    state: Option<&mut MaybeUninit<QueueState>>,
) -> Status {
    with_channel(channel, |mine, channel| {
        let queue = name(queue, "queue")?;
        let flags = Flags::of(flags, HARRIER_PASSIVE | HARRIER_DURABLE | HARRIER_EXCLUSIVE | HARRIER_AUTO_DELETE)?;
        let options = QueueOptions {
            passive: flags.has(HARRIER_PASSIVE),
            durable: flags.has(HARRIER_DURABLE),
            exclusive: flags.has(HARRIER_EXCLUSIVE),
            auto_delete: flags.has(HARRIER_AUTO_DELETE),
            arguments: table(arguments)?,
        };
        let declared = mine.ask(|client| client.declare_queue(channel, &queue, &options))?;
        if let (Some(queue), Some(state)) = (&declared, state) {
            let name = NameBuffer::of(&queue.name);
            state.write(QueueState { name, messages: queue.messages, consumers: queue.consumers });
        }
        done(declared)
    })
}

/// Deletes a queue; `messages` gets how many went with it, and may be NULL. Flags: IF_UNUSED, IF_EMPTY.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_delete_queue(
    channel: ChannelHandle,
    queue: LentText,
    flags: u32,
    messages: Option<&mut u32>,
) -> Status {
    with_channel(channel, |mine, channel| {
        let queue = name(queue, "queue")?;
        let flags = Flags::of(flags, HARRIER_IF_UNUSED | HARRIER_IF_EMPTY)?;
        let (is_unused, is_empty) = (flags.has(HARRIER_IF_UNUSED), flags.has(HARRIER_IF_EMPTY));
        counted(mine.ask(|client| client.delete_queue(channel, &queue, is_unused, is_empty))?, messages)
    })
}

/// Drops the ready messages of a queue; `messages` gets how many, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_purge_queue(channel: ChannelHandle, queue: LentText, messages: Option<&mut u32>) -> Status {
    with_channel(channel, |mine, channel| {
        let queue = name(queue, "queue")?;
        counted(mine.ask(|client| client.purge_queue(channel, &queue))?, messages)
    })
}

/// Binds a queue to an exchange.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_bind_queue(
    channel: ChannelHandle,
    queue: LentText,
    exchange: LentText,
    routing_key: LentText,
    arguments: Option<&FieldList>,
) -> Status {
    bind(channel, [queue, exchange, routing_key], arguments, Client::bind_queue)
}

/// Undoes harrier_bind_queue.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_unbind_queue(
    channel: ChannelHandle,
    queue: LentText,
    exchange: LentText,
    routing_key: LentText,
    arguments: Option<&FieldList>,
) -> Status {
    bind(channel, [queue, exchange, routing_key], arguments, Client::unbind_queue)
}

/// Binds an exchange to another one, the source (an extension of RabbitMQ's).
#[unsafe(no_mangle)]
pub extern "C" fn harrier_bind_exchange(
    channel: ChannelHandle,
    destination: LentText,
    source: LentText,
    routing_key: LentText,
    arguments: Option<&FieldList>,
) -> Status {
    bind(channel, [destination, source, routing_key], arguments, Client::bind_exchange)
}

/// Undoes harrier_bind_exchange.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_unbind_exchange(
    channel: ChannelHandle,
    destination: LentText,
    source: LentText,
    routing_key: LentText,
    arguments: Option<&FieldList>,
) -> Status {
    bind(channel, [destination, source, routing_key], arguments, Client::unbind_exchange)
}

type BindCall = fn(&mut Client, client::ClientChannel, &str, &str, &str, &client::Table) -> client::Result<()>;

fn bind(channel: ChannelHandle, names: [LentText; 3], arguments: Option<&FieldList>, call: BindCall) -> Status {
    with_channel(channel, |mine, channel| {
        let [to, from, key] = names;
        let (to, from) = (name(to, "the destination")?, name(from, "the source")?);
        let (key, arguments) = (name(key, "routing_key")?, table(arguments)?);
        done(mine.ask(|client| call(client, channel, &to, &from, &key, &arguments))?)
    })
}

/// How many deliveries may be unacknowledged: of each consumer, or (`global`) of the channel. 0: any number.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_qos(channel: ChannelHandle, prefetch: u16, global: bool) -> Status {
    with_channel(channel, |mine, channel| done(mine.ask(|client| client.qos(channel, prefetch, global))?))
}

/// Starts a consumer; harrier_next has its deliveries. `wanted_tag` may be NULL: the server chooses. `tag` gets it, and may be
/// NULL. Flags: NO_ACK, EXCLUSIVE.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_consume(
    channel: ChannelHandle,
    queue: LentText,
    wanted_tag: LentText,
    flags: u32,
    arguments: Option<&FieldList>,
    tag: Option<&mut MaybeUninit<NameBuffer>>,
) -> Status {
    with_channel(channel, |mine, channel| {
        let queue = name(queue, "queue")?;
        let flags = Flags::of(flags, HARRIER_NO_ACK | HARRIER_EXCLUSIVE)?;
        let options = ConsumeOptions {
            consumer_tag: wanted_tag.optional("wanted_tag")?.unwrap_or_default().to_owned(),
            no_ack: flags.has(HARRIER_NO_ACK),
            exclusive: flags.has(HARRIER_EXCLUSIVE),
            arguments: table(arguments)?,
        };
        let given = mine.ask(|client| client.consume(channel, &queue, &options))?;
        if let (Some(given), Some(tag)) = (&given, tag) {
            tag.write(NameBuffer::of(given));
        }
        done(given)
    })
}

/// Ends a consumer. Deliveries that are on their way still come.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_cancel(channel: ChannelHandle, tag: LentText) -> Status {
    with_channel(channel, |mine, channel| {
        let tag = name(tag, "tag")?;
        done(mine.ask(|client| client.cancel(channel, &tag))?)
    })
}

/// The next consumer that the server ended (its queue is gone) and that was not asked for yet; HARRIER_NONE if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_cancelled(
    connection: ConnectionHandle,
    channel: Option<&mut MaybeUninit<ChannelHandle>>,
    tag: Option<&mut MaybeUninit<NameBuffer>>,
) -> Status {
    with(connection, |mine| {
        let Some(cancelled) = mine.client()?.take_cancelled() else { return Ok(Status::HarrierNone) };
        if let Some(channel) = channel {
            channel.write(ChannelHandle { connection, id: cancelled.channel.to_bits() });
        }
        if let Some(tag) = tag {
            tag.write(NameBuffer::of(&cancelled.consumer_tag));
        }
        Ok(Status::HarrierOk)
    })
}

/// Has the server confirm what is published on the channel from now on.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_confirm_select(channel: ChannelHandle) -> Status {
    with_channel(channel, |mine, channel| done(mine.ask(|client| client.confirm_select(channel))?))
}
