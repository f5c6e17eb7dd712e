//! The answers of the engine on their way out: numbered, addressed, sent when they may be.
//!
//! Enters: messages of the engine, and to whom.  Leaves: publishes.
//! Owns:   the routing keys of gateways; how many answers there were, so that those confirmed before a crash are not sent again.
//! Never:  sends by itself; changes the order of messages.

use std::collections::VecDeque;

use client::{Channel, Client, Outlet, Publish};
use market::{MessageSink, EncodedMessage, SequenceGap, GatewayId, MarketMessage, Recipient};

use super::market_address::{MarketAddress, REJECTS};
use crate::limits::MARKET_GAPS_TOLD;

/// Messages that are to be sent.
pub(super) struct AnswerOutbox {
    exchange: String,
    keys: Vec<String>,
    waiting: Vec<(Recipient, EncodedMessage)>,
    /// Where the rejections of what no order could be read from go, in their order.
    senders: VecDeque<Option<String>>,
    /// Gaps in the orders of gateways.
    gaps: u64,
    /// Answers to gateways that this place has not.
    unaddressed: u64,
    /// Messages that answer orders of the journal, those that were sent before a crash among them.
    journaled: u64,
    /// Of these so many were confirmed before.
    skipped: u64,
    published: u64,
    last_tag: u64,
}

impl MessageSink for AnswerOutbox {
    #[inline]
    fn message(&mut self, to: Recipient, message: &MarketMessage) {
        // What answers no order is not in the journal, and would not come again in the same place.
        if !matches!(message, MarketMessage::End(_)) && to != Recipient::Sender {
            self.journaled += 1;
            if self.journaled <= self.skipped {
                return;
            }
        }
        self.waiting.push((to, message.encode()));
    }

    fn gap(&mut self, gateway: GatewayId, gap: SequenceGap) {
        self.gaps += 1;
        if self.gaps <= MARKET_GAPS_TOLD {
            let SequenceGap { from, until } = gap;
            eprintln!(
                "harrier market: engine: of gateway {gateway} the orders from {from} to before {until} did not come"
            );
        }
    }
}

impl AnswerOutbox {
    /// For the gateways of a place.
    pub(super) fn new(place: &MarketAddress) -> Self {
        Self {
            exchange: place.name.clone(),
            keys: (0..place.gateways).map(MarketAddress::trades).collect(),
            waiting: Vec::new(),
            senders: VecDeque::new(),
            gaps: 0,
            unaddressed: 0,
            journaled: 0,
            skipped: 0,
            published: 0,
            last_tag: 0,
        }
    }

    /// The first so many messages were confirmed before.
    pub(super) fn skip(&mut self, messages: u64) {
        self.skipped = messages;
    }

    /// Whether nothing is to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Messages that answer orders of the journal, so far.
    pub(super) fn journaled(&self) -> u64 {
        self.journaled
    }

    /// Messages that were sent, one to several gateways as many times.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// The publish tag of the last of them, where there are confirms.
    pub(super) fn last_tag(&self) -> u64 {
        self.last_tag
    }

    /// The queue that the last rejection to a sender goes to, if it has said so.
    #[cold]
    pub(super) fn set_sender_queue(&mut self, queue: Option<&[u8]>) {
        self.senders.push_back(queue.and_then(|queue| String::from_utf8(queue.to_vec()).ok()));
    }

    /// Answers that went nowhere: there is no such gateway here.
    pub(super) fn unaddressed(&self) -> u64 {
        self.unaddressed
    }

    /// Writes everything, in the middle of taking orders.
    #[inline]
    pub(super) fn publish(&mut self, channel: Channel, outlet: &mut Outlet<'_>) -> client::Result<()> {
        self.each(|to, body| outlet.publish(channel, to, body))
    }

    /// Writes everything.
    pub(super) fn publish_all(&mut self, client: &mut Client, channel: Channel) -> client::Result<()> {
        self.each(|to, body| client.publish(channel, to, body))
    }

    #[inline]
    fn each(&mut self, mut publish: impl FnMut(&Publish<'_>, &[u8]) -> client::Result<u64>) -> client::Result<()> {
        for (to, body) in &self.waiting {
            let keys = match to {
                Recipient::Gateway(gateway) => match self.keys.get(gateway.number()) {
                    Some(key) => std::slice::from_ref(key),
                    None => {
                        self.unaddressed += 1;
                        continue;
                    }
                },
                Recipient::All => &self.keys,
                Recipient::Sender => {
                    let sender = self.senders.pop_front().flatten();
                    let to = match &sender {
                        Some(queue) => Publish::to("", queue),
                        None => Publish::to(&self.exchange, REJECTS),
                    };
                    self.last_tag = publish(&to, body)?;
                    self.published += 1;
                    continue;
                }
            };
            for key in keys {
                self.last_tag = publish(&Publish::to(&self.exchange, key), body)?;
                self.published += 1;
            }
        }
        self.waiting.clear();
        Ok(())
    }
}
