//! Delays: messages that an exchange holds back, and routes when their time has come (`x-delayed-message`).
//!
//! Enters: a message and its route, then the time.  Leaves: the message in its queues, here and on other shards.
//! Owns:   which header says that a message was delayed; how many go on before others have their turn.
//! Never:  tells its publisher what became of it: it was confirmed when it was taken, and is not returned.
//!
//! A message waits on the shard that routed it. When its time comes it is routed anew, by what is defined then; an exchange that
//! has gone is looked for by its name, as in RabbitMQ's plugin, so that one that was declared again routes what waited.

use super::Broker;
use crate::delayed_messages::DelayedMessage;
use crate::effects::Effects;
use crate::limits::DELAYED_PER_CHECK;
use crate::message::Content;
use crate::queue_timers::TimerTarget;
use catalog::Route;
use catalog::arguments::X_DELAY;
use wire::{RawProperties, ShortString, TableRef, Value};

/// The properties of a message with its delay negated: as it will be delivered, and so that no other exchange delays it again.
fn negated(properties: RawProperties<'_>, delay_ms: u32) -> Vec<u8> {
    let value = -i64::from(delay_ms);
    let value = i32::try_from(value).map_or(Value::I64(value), Value::I32);
    let mut out = Vec::new();
    properties.rewrite(true, &mut out, |headers, out| {
        // Properties are validated where they come in.
        let mut headers = TableRef::new(headers).to_table().unwrap_or_default();
        if let Ok(name) = ShortString::try_from(X_DELAY) {
            headers.set(name, value);
        }
        out.extend_from_slice(&headers.to_bytes());
    });
    out
}

impl Broker {
    /// Holds a message in the exchanges of its route that delay it. Answers whether there was room.
    #[cold]
    pub(super) fn hold<E: Effects>(&mut self, route: &Route, content: &Content<'_>, fx: &mut E) -> bool {
        // What an exchange holds says for how long.
        let delay_ms = catalog::delay_ms(content.properties()).unwrap_or_default();
        if !self.delayed.has_capacity(route.held.len()) {
            return false;
        }
        let at_us = self.now_us.saturating_add(u64::from(delay_ms) * 1_000);
        let properties = negated(content.properties(), delay_ms);
        // Its time in queues begins when it goes on.
        let message = Content { properties: &properties, arrived_us: at_us, ..*content }.keep(fx.pool());
        for exchange in route.held.iter().filter_map(|&id| self.catalog.exchange_info(id)) {
            let (vhost, exchange, message) = (exchange.vhost, exchange.name.clone(), message.clone());
            self.delayed.insert(at_us, DelayedMessage { vhost, exchange, message });
        }
        self.timers.set(TimerTarget::Delayed, &mut self.delayed.timer_us, at_us);
        true
    }

    /// Routes the messages whose time has come.
    pub(super) fn release_due<E: Effects>(&mut self, fx: &mut E) {
        for _ in 0..DELAYED_PER_CHECK {
            let Some(held) = self.delayed.pop_due(self.now_us) else { break };
            self.go_on(held, fx);
        }
        // Nobody publishes these.
        self.outrun = None;
        if let Some(next_us) = self.delayed.next() {
            self.timers.set(TimerTarget::Delayed, &mut self.delayed.timer_us, next_us.max(self.now_us + 1));
        }
    }

    fn go_on<E: Effects>(&mut self, held: DelayedMessage, fx: &mut E) {
        let DelayedMessage { vhost, exchange, message } = held;
        let Some(exchange) = self.catalog.exchange(vhost, exchange.as_bytes()) else {
            self.counters.unroutable += 1;
            return;
        };
        let route = self.route_again(exchange, &message.content());
        if route.is_empty() {
            self.counters.unroutable += 1;
            return;
        }
        let mut kept = Some(message.clone());
        let mut content = message.content();
        let stamped;
        if route.stamped
            && let Some(changed) = self.stamp(content.properties())
        {
            stamped = changed;
            content.properties = &stamped;
            kept = None;
        }
        for queue in &route.queues {
            if self.is_home(queue.home) {
                let _taken = self.offer(queue.id, &content, &mut kept, false, fx);
            }
        }
        if self.options.shards > 1 {
            self.spread_abroad(&route, &content, &mut kept, None, fx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{BrokerOptions, Publish};
    use crate::delayed_messages::DelayedMessages;
    use crate::effects::{Confirm, ConfirmOutcome, Delivery, ConnectionSlot, AppendResult};
    use crate::shard_message::ShardBatch;
    use crate::message::{BodyRef, Message};
    use crate::session_state::{ClientCapabilities, SessionLogin};
    use crate::ready_messages::QueuePosition;
    use crate::admin_request::{AdminRequestError, AdminRequest};
    use catalog::{
        Catalog, Definition, ExchangeKind, Limits, QueueId, Refusal, SessionId, ShardId, default_definitions,
    };
    use slab::{Pool, PoolOptions};
    use wire::method::{Method, confirm};
    use wire::{Properties, Table};

    /// Surroundings that hear confirms alone.
    struct Ear {
        pool: Pool,
        heard: Vec<String>,
    }

    impl Effects for Ear {
        fn pool(&self) -> &Pool {
            &self.pool
        }
        fn random(&mut self) -> u64 {
            0
        }
        fn has_capacity(&self, _: ConnectionSlot) -> bool {
            true
        }
        fn deliver(&mut self, _: ConnectionSlot, _: u16, _: Delivery<'_>) {}
        fn get_ok(&mut self, _: ConnectionSlot, _: u16, _: u64, _: bool, _: u32, _: Content<'_>) {}
        fn return_message(&mut self, _: ConnectionSlot, _: u16, refusal: &Refusal, _: Content<'_>) {
            self.heard.push(refusal.text.clone());
        }
        fn reply(&mut self, _: ConnectionSlot, _: u16, method: Method<'_>) {
            self.heard.push(method.name().to_owned());
        }
        fn confirm(&mut self, _: ConnectionSlot, _: u16, confirm: Confirm) {
            let outcome = if confirm.outcome == ConfirmOutcome::Accepted { "ack" } else { "nack" };
            self.heard.push(format!("{outcome} {}", confirm.delivery_tag));
        }
        fn refuse(&mut self, _: ConnectionSlot, _: u16, refusal: Refusal, _: (u16, u16)) {
            self.heard.push(refusal.text);
        }
        fn resume(&mut self, _: ConnectionSlot) {}
        fn throttle(&mut self, _: ConnectionSlot) {}
        fn batch(&mut self, _: ShardId) -> &mut ShardBatch {
            unreachable!("there is one shard")
        }
        fn admin_request(&mut self, _: AdminRequest) -> Result<(), AdminRequestError> {
            Err(AdminRequestError::Unavailable)
        }
        fn append(&mut self, _: QueueId, _: QueuePosition, _: &Message) -> AppendResult {
            AppendResult::Durable
        }
        fn forget(&mut self, _: QueueId, _: QueuePosition) {}
    }

    #[test]
    fn one_more_than_may_wait_is_refused_and_there_is_room_again_later() {
        let mut catalog = Catalog::new(Limits::default());
        for definition in default_definitions() {
            catalog.execute(&definition).expect("the first definitions");
        }
        let vhost = catalog.vhost_by_name("/").expect("the default");
        let user = catalog.authenticate(b"guest", b"guest", true).expect("the guest");
        let arguments = Table::new().with("x-delayed-type", Value::text("fanout")).expect("short");
        let (durable, auto_delete, internal) = (false, false, false);
        let (name, kind) = ("x".into(), ExchangeKind::Delayed);
        let declare = Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
        catalog.execute(&declare).expect("an exchange");
        let options = BrokerOptions {
            shard: ShardId(0),
            shards: 1,
            queue_bytes_max: 1 << 20,
            consumer_timeout_ms: 0,
            epoch_unix_s: 0,
        };
        let mut broker = Broker::new(options, catalog);
        broker.delayed = DelayedMessages::new(2);
        let mut fx = Ear { pool: Pool::new(PoolOptions::default()), heard: Vec::new() };
        let session = SessionId { shard: ShardId(0), slot: 0, serial: 1 };
        broker.open_session(0, SessionLogin { session, user, vhost, capabilities: ClientCapabilities::default() });
        broker.open_channel(0, 1);
        let mut heard = |broker: &mut Broker, publishes: usize| {
            let headers = Table::new().with("x-delay", Value::I32(5)).ok();
            let properties = Properties { headers, ..Properties::default() }.to_bytes();
            for _ in 0..publishes {
                let publish = Publish {
                    exchange: b"x",
                    routing_key: b"",
                    mandatory: true,
                    immediate: false,
                    properties: RawProperties::new(&properties),
                    body: BodyRef::Small(b"body"),
                };
                broker.publish(0, 1, publish, &mut fx).map(drop).expect("taken, or nacked");
            }
            broker.flush_batch(&mut fx);
            broker.set_now(broker.now_us + 10_000);
            broker.run_timers(&mut fx);
            std::mem::take(&mut fx.heard).join(" | ")
        };
        assert_eq!(heard(&mut broker, 3), "", "without confirms nobody hears of it");
        let mut nobody = Ear { pool: Pool::new(PoolOptions::default()), heard: Vec::new() };
        broker.command(0, 1, confirm::Select { no_wait: true }.into(), &mut nobody).map(drop).expect("confirms");
        assert_eq!(heard(&mut broker, 4), "ack 2 | nack 3 | nack 4");
        assert_eq!(heard(&mut broker, 2), "ack 6");
        assert_eq!((broker.delayed.len(), broker.list_overhead_bytes()), (0, 0));
    }
}
