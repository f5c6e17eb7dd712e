//! The publisher at the root of a tree of brokers.
//!
//! Enters: a task; probes and segments.  Leaves: when each began and ended, what it used.
//! Owns:   the order of what it is told.
//! Never:  waits for consumers, who are at other brokers: it has done when its broker has read everything.

use super::publisher::Publisher;
use super::task::RootOrder;
use super::{Orders, report};
use crate::plan::Report;

pub(super) fn run(orders: &mut Orders) -> Result<(), String> {
    let mut publisher = Publisher::connect(orders.task()?).map_err(|error| error.to_string())?;
    report(&Report::Ready { port: 0 })?;
    while let Some(order) = orders.next_while::<RootOrder>(|| publisher.keep_alive())? {
        match order {
            RootOrder::Probe(number) => {
                publisher.probe(number).map_err(|error| error.to_string())?;
                report(&Report::Armed)?;
            }
            RootOrder::Send(segment) => report(&publisher.segment(&segment)?)?,
        }
    }
    publisher.close()
}
