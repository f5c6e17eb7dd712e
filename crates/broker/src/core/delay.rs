//! Delays: messages that an exchange holds back, and routes when their time has come (`x-delayed-message`).
//!
//! Enters: a message and its route, then the time.  Leaves: the message in its queues, here and on other shards.
//! Owns:   which header says that a message was delayed; how many go on before others have their turn.
//! Never:  tells its publisher what became of it: it was confirmed when it was taken, and is not returned.
//!
//! A message waits on the shard that routed it. When its time comes it is routed anew, by what is defined then; an exchange that
//! has gone is looked for by its name, as in RabbitMQ's plugin, so that one that was declared again routes what waited.

use super::Broker;
use crate::delayed::Held;
use crate::effects::Effects;
use crate::limits::DELAYED_PER_LOOK;
use crate::message::Content;
use crate::timers::Due;
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
        if !self.delayed.has_room(route.held.len()) {
            return false;
        }
        let at_us = self.now_us.saturating_add(u64::from(delay_ms) * 1_000);
        let properties = negated(content.properties(), delay_ms);
        // Its time in queues begins when it goes on.
        let message = Content { properties: &properties, arrived_us: at_us, ..*content }.keep(fx.pool());
        for exchange in route.held.iter().filter_map(|&id| self.catalog.exchange_info(id)) {
            let (vhost, exchange, message) = (exchange.vhost, exchange.name.clone(), message.clone());
            self.delayed.hold(at_us, Held { vhost, exchange, message });
        }
        self.timers.set(Due::Delayed, &mut self.delayed.timer_us, at_us);
        true
    }

    /// Routes the messages whose time has come.
    pub(super) fn release_due<E: Effects>(&mut self, fx: &mut E) {
        for _ in 0..DELAYED_PER_LOOK {
            let Some(held) = self.delayed.take_due(self.now_us) else { break };
            self.go_on(held, fx);
        }
        // Nobody publishes these.
        self.outrun = None;
        if let Some(next_us) = self.delayed.next() {
            self.timers.set(Due::Delayed, &mut self.delayed.timer_us, next_us.max(self.now_us + 1));
        }
    }

    fn go_on<E: Effects>(&mut self, held: Held, fx: &mut E) {
        let Held { vhost, exchange, message } = held;
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
        let content = message.content();
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
