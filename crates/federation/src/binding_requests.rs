//! The bindings that one pulled route requests of its source, in rounds that one answer ends.

use crate::limits::{BINDINGS_AT_ONCE, CHOICE_WORK_MAX};
use crate::setup_methods::{passive_declare, short, static_arguments};
use crate::{BindingOperation, BindingPropagation, BrokerIdentity, RouteDirection, RouteKind, RouteSpec};
use session::Outbound;
use slab::Pool;
use wire::ChannelNumber;
use wire::TableRef;
use wire::method::{Method, exchange};

/// What a route has requested of its source, and what it is going to request.
pub(crate) struct BindingRequests {
    /// The bindings of a dynamic route.
    pub propagation: Option<Box<BindingPropagation>>,
    /// Of a static route whose binding was requested: whether with stamps.
    bound: Option<bool>,
    /// Of a static route: messages of the exchange here go where they may arrive twice.
    pub wants_stamps: bool,
    /// A round is under way: its answer is awaited.
    pub in_flight: bool,
    /// No more bindings are written while so many bytes wait to be sent.
    output_bytes_max: usize,
}

impl BindingRequests {
    pub fn new(output_bytes_max: usize) -> Self {
        BindingRequests { propagation: None, bound: None, wants_stamps: false, in_flight: false, output_bytes_max }
    }

    /// Begins with all bindings, at an internal exchange with this suffix.
    pub fn begin(&mut self, source: Option<&BrokerIdentity>, suffix: u8) {
        self.bound = None;
        if let Some(propagation) = &mut self.propagation {
            propagation.begin(source.cloned(), char::from(suffix));
        }
    }

    /// The connection is gone, and what it has requested is to be requested again.
    pub fn disconnect(&mut self) {
        self.bound = None;
        self.in_flight = false;
    }

    /// Whether there may be bindings to request.
    pub fn is_pending(&self, spec: &RouteSpec) -> bool {
        match (&spec.kind, &self.propagation) {
            _ if spec.direction == RouteDirection::Push => false,
            (RouteKind::Static { .. }, _) => self.bound != Some(self.requests_stamps(spec)),
            (_, Some(propagation)) => propagation.is_due(),
            _ => false,
        }
    }

    fn requests_stamps(&self, spec: &RouteSpec) -> bool {
        spec.forced || self.wants_stamps
    }

    /// Sends a round: some bindings, and a passive declaration of the route's queue, whose answer ends it.
    pub fn send(
        &mut self,
        spec: &RouteSpec,
        (internal, queue): (&[u8], &[u8]),
        channel: ChannelNumber,
        out: &mut Outbound,
        pool: &Pool,
    ) {
        let (destination, source) = (short(internal), short(spec.source_exchange().as_bytes()));
        let no_wait = true;
        if let RouteKind::Static { key } = &spec.kind {
            let routing_key = short(key.as_bytes());
            let with_stamps = self.requests_stamps(spec);
            let arguments = static_arguments(with_stamps).to_bytes();
            let arguments = TableRef::new(&arguments);
            let bind = exchange::Bind { destination, source, routing_key, no_wait, arguments };
            out.method(pool, channel, &bind.into());
            // The new binding exists before the old one is removed.
            if let Some(with_stamps) = self.bound.replace(with_stamps) {
                let arguments = static_arguments(with_stamps).to_bytes();
                let arguments = TableRef::new(&arguments);
                let unbind = exchange::Unbind { destination, source, routing_key, no_wait, arguments };
                out.method(pool, channel, &unbind.into());
            }
        }
        let (mut left, mut work_left) = (BINDINGS_AT_ONCE, CHOICE_WORK_MAX);
        // A broker whose own output is full reads nothing. If the source's output were full of deliveries at the same time, each
        // broker would wait for the other to read.
        while let Some(propagation) =
            self.propagation.as_mut().filter(|_| left > 0 && out.bytes() < self.output_bytes_max)
            && let Some(BindingOperation { bind, key, arguments }) = propagation.next_operation(&mut work_left)
        {
            left -= 1;
            let routing_key = short(key);
            let method: Method<'_> = match bind {
                true => exchange::Bind { destination, source, routing_key, no_wait, arguments }.into(),
                false => exchange::Unbind { destination, source, routing_key, no_wait, arguments }.into(),
            };
            out.method(pool, channel, &method);
        }
        self.in_flight = true;
        out.method(pool, channel, &passive_declare(queue).into());
    }
}
