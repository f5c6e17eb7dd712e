//! Memory growth: which commands take memory, and so may have to wait while it is low.
//!
//! What consumers need to empty queues is not among them: for each connection a few channels and consumers, and the
//! declarations of what is there already.

use crate::channels::Channels;
use crate::limits::{BINDINGS_COMPARED_MAX, SCARCE_CHANNELS_MAX, SCARCE_CONSUMERS_MAX};
use crate::session_state::SessionState;
use catalog::{Catalog, REQUEST_QUEUE};
use wire::ChannelNumber;
use wire::method::{Method, basic, queue};

/// What a command takes memory for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryUse {
    /// A message, until it is consumed.
    Message,
    /// A definition, channel or consumer, until it is removed.
    Definition,
}

/// What the memory that a command takes depends on.
pub(crate) struct MemoryGrowth<'a> {
    pub catalog: &'a Catalog,
    pub channels: &'a Channels,
    pub session: &'a SessionState,
}

impl MemoryGrowth<'_> {
    /// What a command takes memory for.
    pub fn of(&self, number: ChannelNumber, method: &Method<'_>) -> Option<MemoryUse> {
        match method {
            Method::BasicPublish(publish) => (!self.is_admin_request(publish)).then_some(MemoryUse::Message),
            _ => self.is_definition(number, method).then_some(MemoryUse::Definition),
        }
    }

    fn is_definition(&self, number: ChannelNumber, method: &Method<'_>) -> bool {
        let vhost = self.session.identity.vhost;
        match method {
            Method::ChannelOpen(_) => number.index() > SCARCE_CHANNELS_MAX,
            Method::BasicConsume(_) => {
                let channel = self.session.channel(number).and_then(|key| self.channels.get(key));
                channel.is_some_and(|channel| channel.consumers.len() >= SCARCE_CONSUMERS_MAX)
            }
            Method::QueueDeclare(declare) => {
                !declare.passive && self.catalog.queue(vhost, declare.queue.as_bytes()).is_none()
            }
            Method::ExchangeDeclare(declare) => {
                !declare.passive && self.catalog.exchange(vhost, declare.exchange.as_bytes()).is_none()
            }
            Method::QueueBind(bind) => !self.has_binding(number, bind),
            Method::ExchangeBind(_) => true,
            _ => false,
        }
    }

    /// An administrator may be asking what takes the memory.
    fn is_admin_request(&self, publish: &basic::Publish<'_>) -> bool {
        publish.exchange.as_bytes().is_empty()
            && publish.routing_key.as_bytes() == REQUEST_QUEUE.as_bytes()
            && self.catalog.is_administrator(self.session.identity.user)
    }

    /// Whether a queue has a binding with this key to this exchange. Those that were made long ago may be overlooked.
    fn has_binding(&self, number: ChannelNumber, bind: &queue::Bind<'_>) -> bool {
        let vhost = self.session.identity.vhost;
        let channel = self.session.channel(number).and_then(|key| self.channels.get(key));
        let name = match bind.queue.as_bytes() {
            [] => channel.map_or(&[][..], |channel| channel.last_queue.as_bytes()),
            name => name,
        };
        let (Some(queue), Some(source)) =
            (self.catalog.queue(vhost, name), self.catalog.exchange(vhost, bind.exchange.as_bytes()))
        else {
            return false;
        };
        self.catalog
            .newest_bindings_to(queue, BINDINGS_COMPARED_MAX)
            .any(|binding| binding.source == source && binding.routing_key == bind.routing_key.as_bytes())
    }
}
