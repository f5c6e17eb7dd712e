//! What a user of the management API does with messages: over a connection within the process, with the user's own rights.

use crate::management::management_limits::{GOT_BYTES_MAX, SESSION_TIMEOUT};
use client::{Client, ClientChannel, ClientError, ConnectOptions, Publish, QueueOptions, Url};
use definitions::Json;
use management::{
    ActionOutcome, ApiError, ConditionalDeletion, GetAckMode, GotMessage, MessageToPublish, MessagesToGet,
};
use shard::AdminHandle;
use wire::{RawProperties, ReplyCode};

/// What the connection is called.
const LABEL: &str = "management API";
/// The body of the message by which it is found out that the broker passes messages on.
const PROBE: &[u8] = b"test_message";

/// A session of a user in a virtual host, with one channel.
pub struct UserSession {
    client: Client,
    channel: ClientChannel,
}

impl UserSession {
    /// # Errors
    /// The user may not connect there, or the broker ends.
    pub fn open(operator: &AdminHandle, user: &str, vhost: &str) -> Result<Self, ApiError> {
        let stops = || ApiError::unavailable("the broker stops");
        let link = operator.connect_as(user, LABEL).ok_or_else(stops)?;
        let link = link.map_err(|error| ApiError::unavailable(format!("no connection can be made: {error}")))?;
        let mut url = Url::parse("amqp://localhost").map_err(|error| refused(&error))?;
        (url.vhost, url.external) = (vhost.to_owned(), true);
        let options = ConnectOptions {
            name: Some(LABEL.to_owned()),
            answer_wait: SESSION_TIMEOUT,
            heartbeat_s: 0,
            ..ConnectOptions::default()
        };
        let mut client = Client::over(link, &url, options).map_err(|error| refused(&error))?;
        let channel = client.open_channel().map_err(|error| refused(&error))?;
        Ok(UserSession { client, channel })
    }

    /// Publishes a message, and says whether a queue took it.
    ///
    /// # Errors
    /// The broker refuses it, or does not confirm it in time.
    pub fn publish(mut self, message: &MessageToPublish) -> Result<ActionOutcome, ApiError> {
        let properties = message.properties.to_bytes();
        let (exchange, key) = (&*message.exchange, std::str::from_utf8(&message.routing_key));
        let routing_key = key.map_err(|_| ApiError::bad_request("the routing key is not UTF-8"))?;
        let properties = RawProperties::new(&properties);
        let to = Publish { exchange, routing_key, mandatory: true, properties };
        let was_routed = self.publish_confirmed(&to, &message.body).map_err(|error| refused(&error))?;
        self.close();
        Ok(ActionOutcome::Answer(Json::Object(vec![("routed".to_owned(), Json::Bool(was_routed))])))
    }

    /// True if a queue took it: it was neither returned nor refused.
    fn publish_confirmed(&mut self, to: &Publish<'_>, body: &[u8]) -> client::Result<bool> {
        self.client.confirm_select(self.channel)?;
        self.client.publish(self.channel, to, body)?;
        self.client.wait_confirms(self.channel, 0)?;
        let is_refused = !self.client.take_refused(self.channel)?.is_empty();
        Ok(self.client.take_returned().is_none() && !is_refused)
    }

    /// Gets messages, and does with them what was asked.
    ///
    /// # Errors
    /// The broker refuses it.
    pub fn get(mut self, wanted: &MessagesToGet) -> Result<ActionOutcome, ApiError> {
        let got = self.get_messages(wanted).map_err(|error| refused(&error))?;
        self.close();
        Ok(ActionOutcome::Answer(Json::List(got)))
    }

    fn get_messages(&mut self, wanted: &MessagesToGet) -> client::Result<Vec<Json>> {
        let mut messages = Vec::new();
        let (mut last, mut bytes) = (None, 0);
        while messages.len() < wanted.count && bytes < GOT_BYTES_MAX {
            let Some(message) = self.client.get(self.channel, &wanted.queue, false)? else { break };
            bytes += message.body().len();
            last = Some(message.delivery_tag);
            let got = GotMessage {
                exchange: &message.exchange,
                routing_key: &message.routing_key,
                redelivered: message.redelivered,
                messages_left: message.messages_left,
                properties: message.properties(),
                body: message.body(),
                body_bytes: message.body().len(),
            };
            messages.push(got.to_json(wanted.encoding, wanted.body_bytes_max));
        }
        // All at once, so that those that go back keep their order.
        if let Some(last) = last {
            match wanted.ack_mode {
                GetAckMode::Acknowledge => self.client.ack(self.channel, last, true)?,
                GetAckMode::Reject => self.client.nack(self.channel, last, true, false)?,
                GetAckMode::RejectRequeue => self.client.nack(self.channel, last, true, true)?,
                // They go back with the channel, which is no failed delivery.
                GetAckMode::Requeue => {}
            }
        }
        // What was acknowledged is so when the answer of a later method has come.
        self.client.close_channel(self.channel)?;
        Ok(messages)
    }

    /// # Errors
    /// The broker refuses it.
    pub fn purge(mut self, queue: &str) -> Result<ActionOutcome, ApiError> {
        self.client.purge_queue(self.channel, queue).map_err(|error| refused(&error))?;
        self.close();
        Ok(ActionOutcome::Done)
    }

    /// # Errors
    /// The broker refuses it, or the queue is not as it must be for that.
    pub fn delete_queue(mut self, deletion: &ConditionalDeletion) -> Result<ActionOutcome, ApiError> {
        let ConditionalDeletion { queue, if_unused, if_empty, .. } = deletion;
        let deleted = self.client.delete_queue(self.channel, queue, *if_unused, *if_empty);
        deleted.map_err(|error| refused(&error))?;
        self.close();
        Ok(ActionOutcome::Done)
    }

    /// Publishes a message to a queue of the session's own, and gets it back.
    ///
    /// # Errors
    /// The broker refuses it, or the message does not come back.
    pub fn test_aliveness(mut self) -> Result<ActionOutcome, ApiError> {
        let returned = self.probe().map_err(|error| refused(&error))?;
        self.close();
        if !returned {
            return Err(ApiError::unavailable("a message that was published did not come back"));
        }
        Ok(ActionOutcome::Answer(Json::Object(vec![("status".to_owned(), Json::text("ok"))])))
    }

    fn probe(&mut self) -> client::Result<bool> {
        let options = QueueOptions { exclusive: true, auto_delete: true, ..QueueOptions::default() };
        let queue = self.client.declare_queue(self.channel, "", &options)?.name;
        let was_routed = self.publish_confirmed(&Publish { mandatory: true, ..Publish::to("", &queue) }, PROBE)?;
        let got = self.client.get(self.channel, &queue, true)?;
        Ok(was_routed && got.is_some_and(|message| message.body() == PROBE))
    }

    fn close(self) {
        if let Err(error) = self.client.close() {
            tracing::debug!(%error, "a connection of the management API ended");
        }
    }
}

/// An answer to a client's error.
fn refused(error: &ClientError) -> ApiError {
    let (ClientError::ChannelClosed { code, text, .. } | ClientError::ConnectionClosed { code, text }) = error else {
        return ApiError::unavailable(error.to_string());
    };
    match ReplyCode::from_number(*code) {
        Some(ReplyCode::ConnectionForced | ReplyCode::InternalError) | None => ApiError::unavailable(text),
        Some(code) => ApiError::of_refusal(&catalog::Refusal::connection(code, text)),
    }
}
