//! What a client knows of its connection beside the bytes.
//!
//! Enters: every event but deliveries.  Leaves: answers for those who wait, and news for those who ask.
//! Owns:   channels, the last answer, returned messages, cancelled consumers, why the connection ended.

use std::collections::VecDeque;

use session::{Capabilities, Event, Outbound};
use slab::Pool;
use wire::method::{basic, channel, connection};
use wire::{ChannelNumber, DeliveryTag, Method, ShortStr, Table, TableRef, ValueRef};

use crate::channel::{ClientChannel, ClientChannels};
use crate::client::Client;
use crate::limits::RETURNED_MAX;
use crate::message::{OwnedBody, ReceivedMessage, Returned};

/// What came as the answer to something, in memory of its own.
#[derive(Debug)]
pub(crate) enum Reply {
    Started { mechanisms: Vec<u8> },
    Tune(connection::Tune),
    Opened,
    ConnectionCloseOk,
    ChannelOpened,
    ChannelCloseOk,
    QueueDeclared { queue: String, messages: u32, consumers: u32 },
    Messages(u32),
    ConsumerTag(String),
    Got(Box<ReceivedMessage>),
    Plain,
}

/// An answer, the channel it came on, and its name on the wire.
#[derive(Debug)]
pub(crate) struct ReceivedReply {
    pub(crate) channel: ChannelNumber,
    pub(crate) name: &'static str,
    pub(crate) answer: Reply,
}

/// A consumer that the server ended: its queue is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    pub channel: ClientChannel,
    pub consumer_tag: String,
}

#[derive(Debug, Default)]
pub(crate) struct SessionState {
    pub(crate) channels: ClientChannels,
    pub(crate) reply: Option<ReceivedReply>,
    /// Code and text of the server's `connection.close`.
    pub(crate) closed: Option<(u16, String)>,
    /// Channels the server closed that no call has told of yet.
    pub(crate) channel_closed: VecDeque<ClientChannel>,
    pub(crate) blocked: Option<String>,
    pub(crate) returned: VecDeque<Returned>,
    pub(crate) returned_count: u64,
    pub(crate) cancelled: VecDeque<Cancelled>,
    /// What the server said of itself in its greeting; empty if that is no table.
    pub(crate) server_properties: Table,
}

impl Client {
    /// What the server says of itself: `product`, `version`, `capabilities` and the like (AMQP 0-9-1 §1.4.2.1).
    pub fn server_properties(&self) -> &Table {
        &self.state.server_properties
    }

    /// The extensions of AMQP 0-9-1 that the server says it understands. A call that needs another one fails with
    /// `Error::NotAnnounced` and sends nothing.
    pub fn announced(&self) -> Capabilities {
        self.state.channels.announced
    }
}

impl SessionState {
    /// Takes in an event that is no delivery.
    pub(crate) fn note(&mut self, event: Event<'_>, outbound: &mut Outbound, pool: &Pool) {
        match event {
            Event::Method { channel, method } => self.method(channel, &method, outbound, pool),
            Event::GetOk {
                channel,
                delivery_tag,
                redelivered,
                exchange,
                routing_key,
                message_count,
                properties,
                body,
            } => {
                let message = ReceivedMessage {
                    channel: self.channels.handle(channel),
                    consumer_tag: Box::default(),
                    delivery_tag,
                    redelivered,
                    exchange: exchange.into(),
                    routing_key: routing_key.into(),
                    messages_left: message_count,
                    properties: properties.as_bytes().into(),
                    body: OwnedBody::of(&body),
                };
                self.answer(channel, "basic.get-ok", Reply::Got(Box::new(message)));
            }
            Event::Return { channel, code, text, exchange, routing_key, properties, body } => {
                self.returned_count += 1;
                if self.returned.len() < RETURNED_MAX {
                    self.returned.push_back(Returned {
                        channel: self.channels.handle(channel),
                        code,
                        text: text_of(text),
                        exchange: exchange.into(),
                        routing_key: routing_key.into(),
                        properties: properties.as_bytes().into(),
                        body: OwnedBody::of(&body),
                    });
                }
            }
            Event::ChannelOpened { channel } => self.answer(channel, "channel.open-ok", Reply::ChannelOpened),
            Event::ChannelClosed { channel, code, text, .. } => {
                self.channels.closed_by_server(channel, code, &text_of(text));
                self.channel_closed.push_back(self.channels.handle(channel));
            }
            Event::ChannelCloseOk { channel } => self.answer(channel, "channel.close-ok", Reply::ChannelCloseOk),
            Event::Start(start) => {
                self.channels.announced = announced(start.server_properties);
                self.server_properties = start.server_properties.to_table().unwrap_or_default();
                self.answer(
                    ChannelNumber::CONNECTION,
                    "connection.start",
                    Reply::Started { mechanisms: start.mechanisms.to_vec() },
                )
            }
            Event::Tune(tune) => self.answer(ChannelNumber::CONNECTION, "connection.tune", Reply::Tune(tune)),
            Event::OpenOk => self.answer(ChannelNumber::CONNECTION, "connection.open-ok", Reply::Opened),
            Event::Secure { .. } => self.answer(ChannelNumber::CONNECTION, "connection.secure", Reply::Plain),
            Event::Blocked { reason } => self.blocked = Some(text_of(reason)),
            Event::Unblocked => self.blocked = None,
            Event::CloseRequested { code, text, .. } => self.closed = Some((code, text_of(text))),
            Event::CloseOk => self.answer(ChannelNumber::CONNECTION, "connection.close-ok", Reply::ConnectionCloseOk),
            Event::Deliver { .. } => debug_assert!(false, "deliveries are taken before"),
            // The session gives these to servers and federation links only.
            Event::Publish { .. }
            | Event::PublishRun { .. }
            | Event::PublishBegun { .. }
            | Event::Login { .. }
            | Event::LoginResponse { .. }
            | Event::Tuned(_)
            | Event::PassedOver { .. }
            | Event::Open { .. } => {
                debug_assert!(false, "a server's event at a client");
            }
        }
    }

    fn method(&mut self, channel: ChannelNumber, method: &Method<'_>, outbound: &mut Outbound, pool: &Pool) {
        let answer = match *method {
            Method::BasicAck(basic::Ack { delivery_tag, multiple }) => {
                return self.settle(channel, delivery_tag, multiple, false);
            }
            Method::BasicNack(basic::Nack { delivery_tag, multiple, .. }) => {
                return self.settle(channel, delivery_tag, multiple, true);
            }
            Method::BasicCancel(basic::Cancel { consumer_tag, no_wait }) => {
                self.cancelled.push_back(Cancelled {
                    channel: self.channels.handle(channel),
                    consumer_tag: text_of(consumer_tag),
                });
                if !no_wait {
                    outbound.method(pool, channel, &basic::CancelOk { consumer_tag }.into());
                }
                return;
            }
            // Content is written only on the program's word, so there is nothing to pause but the acknowledgement.
            Method::ChannelFlow(channel::Flow { active }) => {
                return outbound.method(pool, channel, &channel::FlowOk { active }.into());
            }
            Method::QueueDeclareOk(ok) => Reply::QueueDeclared {
                queue: text_of(ok.queue),
                messages: ok.message_count,
                consumers: ok.consumer_count,
            },
            Method::QueuePurgeOk(ok) => Reply::Messages(ok.message_count),
            Method::QueueDeleteOk(ok) => Reply::Messages(ok.message_count),
            Method::BasicConsumeOk(ok) => Reply::ConsumerTag(text_of(ok.consumer_tag)),
            Method::BasicCancelOk(ok) => Reply::ConsumerTag(text_of(ok.consumer_tag)),
            _ => Reply::Plain,
        };
        self.answer(channel, method.name(), answer);
    }

    fn answer(&mut self, channel: ChannelNumber, name: &'static str, answer: Reply) {
        self.reply = Some(ReceivedReply { channel, name, answer });
    }

    fn settle(&mut self, channel: ChannelNumber, tag: DeliveryTag, multiple: bool, refused: bool) {
        if let Some(record) = self.channels.record(channel).filter(|record| record.confirming) {
            record.confirms.settle(tag, multiple, refused);
        }
    }
}

/// The extensions that a server names in its greeting: RabbitMQ's table of capabilities, and the one that Qpid names in
/// a property of its own.
fn announced(properties: TableRef<'_>) -> Capabilities {
    let named = Capabilities::of(properties);
    match properties.get("qpid.confirmed_publish_supported") {
        Some(ValueRef::LongStr(b"true")) => named.with(Capabilities::PUBLISHER_CONFIRMS),
        _ => named,
    }
}

fn text_of(text: ShortStr<'_>) -> String {
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Value;

    #[test]
    fn extensions_are_what_the_greeting_names() {
        let none = Table::new().to_bytes();
        assert_eq!(announced(TableRef::new(&none)), Capabilities::default());
        let rabbit = Capabilities::PUBLISHER_CONFIRMS.with(Capabilities::BASIC_NACK);
        let named =
            Table::new().with("capabilities", Value::Table(rabbit.to_table())).expect("a short name").to_bytes();
        assert_eq!(announced(TableRef::new(&named)), rabbit);
        for (text, expected) in [("true", Capabilities::PUBLISHER_CONFIRMS), ("false", Capabilities::default())] {
            let value = Value::LongStr(text.as_bytes().into());
            let qpid = Table::new().with("qpid.confirmed_publish_supported", value).expect("a short name").to_bytes();
            assert_eq!(announced(TableRef::new(&qpid)), expected, "{text}");
        }
    }
}
