//! Settling in: the clients of a broker, what they declare, and what they take.
//!
//! Enters: a broker that has just begun, a client whose connection broke.  Leaves: seats; definitions, consumers, routes.
//! Owns:   what is said in which order before anything is published.
//! Never:  breaks anything.

use crate::federation::Run;
use crate::federation::place::Seat;
use crate::limits::REST_ROUNDS_MAX;
use wire::method::{basic, confirm, exchange, queue};
use wire::{ShortStr, TableRef};

/// The channel of every client.
pub const CHANNEL: u16 = 1;

impl Run {
    /// A broker gets its clients, its definitions, and then its links.
    pub(super) fn settle_in(&mut self, place: usize) {
        [false, true].into_iter().for_each(|tells| self.take_seat(place, tells));
        let open = |seat: &Option<Seat>| seat.as_ref().is_none_or(|seat| seat.is_open);
        if !self.until("clients connect", |run| open(&run.places[place].taker) && open(&run.places[place].teller)) {
            return;
        }
        self.begin_to_tell(place);
        for (number, kind) in self.setting.exchanges.clone().iter().enumerate() {
            let name = format!("x{number}");
            self.say(
                place,
                false,
                exchange::Declare {
                    exchange: ShortStr::truncated(&name),
                    kind: ShortStr::literal(kind.name()),
                    passive: false,
                    durable: false,
                    auto_delete: false,
                    internal: false,
                    no_wait: true,
                    arguments: TableRef::EMPTY,
                },
            );
        }
        let feeds: Vec<_> = self.setting.edges.iter().filter(|edge| edge.source == place).cloned().collect();
        for edge in feeds {
            if let (federation::RouteKind::Queue { queue }, Some(key)) = (&edge.spec.kind, edge.feed) {
                self.declare_queue(place, queue);
                self.bind(place, queue, (edge.exchange, key), true);
            }
        }
        if !self.begin_to_take(place) {
            return;
        }
        for route in 0..self.book.routes.len() {
            if self.book.routes[route].is_there && self.book.routes[route].edge.ends().0 == place {
                // A broker that comes back has its durable routes by itself.
                let returns = self.places[place].lives > 1 && self.book.routes[route].edge.spec.durable;
                self.order_route(route, returns);
            }
        }
    }

    /// A client connects.
    fn take_seat(&mut self, place: usize, tells: bool) {
        let (options, uid, limits) = (self.cable_options(), self.uid(), self.setting.bounds.session());
        let seat = self.places[place].seat(&options, limits, uid, &self.pool);
        self.cables.push(seat.cable.clone());
        *self.places[place].seat_mut(tells) = Some(seat);
    }

    /// A client whose connection broke has another: what it said last may have been lost.
    pub(super) fn come_again(&mut self, place: usize, tells: bool) {
        self.take_seat(place, tells);
        let open = |seat: &Option<Seat>| seat.as_ref().is_none_or(|seat| seat.is_open);
        let is_open = |run: &Run| open(if tells { &run.places[place].teller } else { &run.places[place].taker });
        if !self.until("a client is back", is_open) {
            return;
        }
        if tells {
            self.begin_to_tell(place);
        } else {
            self.begin_to_take(place);
        }
    }

    fn begin_to_tell(&mut self, place: usize) {
        self.say(place, true, confirm::Select { no_wait: true });
    }

    /// The queues of a broker, their bindings and their consumer. Answers whether they are there.
    fn begin_to_take(&mut self, place: usize) -> bool {
        let mut questions = 1;
        for at in 0..self.book.boxes.len() {
            let queue = &self.book.boxes[at];
            if queue.at != place {
                continue;
            }
            let name = queue.name.clone();
            let bindings: Vec<_> = queue.bindings.keys().copied().collect();
            let former: Vec<_> = queue.former.iter().map(|(binding, _)| *binding).collect();
            self.declare_queue(place, &name);
            for binding in former.into_iter().filter(|binding| !bindings.contains(binding)) {
                questions += 1;
                self.bind(place, &name, binding, false);
            }
            for binding in bindings {
                self.bind(place, &name, binding, true);
            }
            let tag = at.to_string();
            let consume = basic::Consume {
                queue: ShortStr::truncated(&name),
                consumer_tag: ShortStr::truncated(&tag),
                no_local: false,
                no_ack: !self.setting.client_cuts,
                exclusive: false,
                no_wait: true,
                arguments: TableRef::EMPTY,
            };
            self.say(place, false, consume);
        }
        let qos = basic::Qos { prefetch_size: 0, prefetch_count: 0, global: false };
        self.say(place, false, qos);
        let answered = |run: &Run| run.places[place].taker.as_ref().is_none_or(|taker| taker.answers >= questions);
        self.until("definitions are made", answered)
    }

    fn declare_queue(&mut self, place: usize, name: &str) {
        self.say(
            place,
            false,
            queue::Declare {
                queue: ShortStr::truncated(name),
                passive: false,
                durable: false,
                exclusive: false,
                auto_delete: false,
                no_wait: true,
                arguments: TableRef::EMPTY,
            },
        );
    }

    /// Binds, or unbinds.
    pub(super) fn bind(&mut self, place: usize, name: &str, (exchange, key): (usize, &str), bind: bool) {
        let exchange = format!("x{exchange}");
        let (queue, exchange) = (ShortStr::truncated(name), ShortStr::truncated(&exchange));
        let (routing_key, arguments) = (ShortStr::truncated(key), TableRef::EMPTY);
        if bind {
            self.say(place, false, queue::Bind { queue, exchange, routing_key, no_wait: true, arguments });
        } else {
            self.say(place, false, queue::Unbind { queue, exchange, routing_key, arguments });
        }
    }

    /// Lets the world move until something is so.
    pub(super) fn until(&mut self, what: &str, so: impl Fn(&Run) -> bool) -> bool {
        for _ in 0..REST_ROUNDS_MAX {
            if self.is_broken() {
                return false;
            }
            if so(self) {
                return true;
            }
            self.shift();
        }
        self.broken(format!("it takes for ever until {what}"));
        false
    }
}
