//! Administrative requests: from a publish to the request queue, and back with the answer.
//!
//! Enters: publishes to a name that no queue has; answers of the program.  Leaves: requests, refusals, direct replies.
//! Owns:   who may ask, and how much at once.
//! Never:  looks into a body; believes what a message says of its sender.

use super::{Broker, no_channel};
use crate::direct_reply::ReplyAddress;
use crate::effects::{Effects, ConnectionSlot};
use crate::limits::ADMIN_REQUEST_BYTES_MAX;
use crate::message::{BodyRef, Content};
use crate::admin_request::{AdminRequestError, AdminRequest};
use catalog::{REQUEST_QUEUE, Refusal};
use wire::ReplyCode;
use wire::method::basic;

impl Broker {
    /// A message to the request queue. Answers whether anybody takes requests; where nobody does it is a message without a queue.
    #[cold]
    pub(super) fn request<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        content: &Content<'_>,
        fx: &mut E,
    ) -> Result<bool, Refusal> {
        let (user, ..) = self.whose(slot)?;
        let user_name = self.catalog.user_name(user);
        if !self.catalog.is_administrator(user) {
            let detail = format!("user '{user_name}' is no administrator, and '{REQUEST_QUEUE}' hears no others");
            return Err(Refusal::detail(ReplyCode::AccessRefused, detail));
        }
        let wrong = |detail: String| Refusal::detail(ReplyCode::PreconditionFailed, detail);
        let bytes = content.body.len();
        if bytes > ADMIN_REQUEST_BYTES_MAX {
            return Err(wrong(format!("a request of {bytes} bytes; {ADMIN_REQUEST_BYTES_MAX} are the most")));
        }
        let key = self.channel_key(slot, number).ok_or_else(no_channel)?;
        let mailbox = self.tables.channels.get(key).and_then(|channel| channel.reply_consumer.as_ref());
        let properties = content.properties();
        let named = properties.reply_to().and_then(|reply_to| ReplyAddress::parse(reply_to.as_bytes()));
        let own = mailbox.map(|mailbox| ReplyAddress { shard: self.options.shard, channel: key, nonce: mailbox.nonce });
        let Some(reply_to) = own.filter(|own| named == Some(*own)) else {
            return Err(wrong("the reply-to of a request is 'amq.rabbitmq.reply-to' of its own channel".to_owned()));
        };
        let request = AdminRequest {
            user: user_name.into(),
            reply_to,
            correlation_id: properties.correlation_id().map(|id| id.as_bytes().into()),
            body: match content.body {
                BodyRef::Small(bytes) => bytes.into(),
                BodyRef::Large(slice) => slice[..].into(),
            },
        };
        match fx.admin_request(request) {
            Ok(()) => Ok(true),
            Err(AdminRequestError::Unavailable) => Ok(false),
            Err(AdminRequestError::Busy) => Err(Refusal::channel(
                ReplyCode::ResourceError,
                "RESOURCE_ERROR - too many requests wait to be answered",
            )),
        }
    }

    /// The answer to a request of this shard. If the channel has gone nobody hears it.
    pub fn answer_admin_request<E: Effects>(&mut self, to: ReplyAddress, properties: &[u8], body: BodyRef<'_>, fx: &mut E) {
        let Some(channel) = self.tables.channels.get(to.channel) else { return };
        let (slot, number) = (channel.slot, channel.number);
        // Who asks for much and reads nothing would have it all wait here.
        if !fx.has_capacity(slot) {
            let refusal =
                Refusal::channel(ReplyCode::ResourceError, "RESOURCE_ERROR - answers to requests are not read");
            return fx.refuse(slot, number, refusal, basic::Publish::ID);
        }
        let content = Content { properties, body, ..Content::EMPTY };
        self.direct_reply(to, &content, fx);
    }
}
