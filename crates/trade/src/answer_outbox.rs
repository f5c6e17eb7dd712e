//! The engine's outgoing answers: numbered, addressed, and published in their order when the caller asks.
//!
//! Counts the answers, so that those confirmed before a crash are not sent again.

use std::collections::VecDeque;

use client::{Client, ClientChannel, ClientOutput, Publish};
use market::{EncodedMessage, GatewayId, MarketMessage, MessageSink, Recipient, SequenceGap};

use super::market_address::{MarketAddress, REJECTS};
use crate::limits::MARKET_GAPS_TOLD;

/// Messages to publish.
pub(super) struct AnswerOutbox {
    exchange: String,
    keys: Vec<String>,
    waiting: Vec<(Recipient, EncodedMessage)>,
    /// Queues for the rejections of unreadable inputs, in their order.
    senders: VecDeque<Option<String>>,
    /// Gaps in the orders of gateways.
    gaps: u64,
    /// Answers to gateways that this market does not have.
    unaddressed: u64,
    /// Answers to journaled orders, including those sent before a crash.
    journaled: u64,
    /// How many of these were confirmed before the crash.
    skipped: u64,
    published: u64,
    last_tag: u64,
}

impl MessageSink for AnswerOutbox {
    #[inline]
    fn message(&mut self, to: Recipient, message: &MarketMessage) {
        // A message that answers no order is not in the journal, and would not recur in the same position.
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
            cli::print_error(&format!(
                "harrier market: engine: gateway {gateway}: orders {from} to before {until} are missing"
            ));
        }
    }
}

impl AnswerOutbox {
    /// For the gateways of a market.
    pub(super) fn new(address: &MarketAddress) -> Self {
        Self {
            exchange: address.name.clone(),
            keys: (0..address.gateways).map(MarketAddress::trades).collect(),
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

    /// Skips the first messages, which were confirmed before.
    pub(super) fn skip(&mut self, messages: u64) {
        self.skipped = messages;
    }

    /// Whether nothing is to be published.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Answers to journaled orders so far.
    pub(super) fn journaled(&self) -> u64 {
        self.journaled
    }

    /// Messages published; one to several gateways counts several times.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// The publish tag of the last one, with confirms.
    pub(super) fn last_tag(&self) -> u64 {
        self.last_tag
    }

    /// Sets the queue for the last rejection to an unknown sender, if the sender named one.
    #[cold]
    pub(super) fn set_sender_queue(&mut self, queue: Option<&[u8]>) {
        self.senders.push_back(queue.and_then(|queue| String::from_utf8(queue.to_vec()).ok()));
    }

    /// Answers without a recipient: there is no such gateway here.
    pub(super) fn unaddressed(&self) -> u64 {
        self.unaddressed
    }

    /// Publishes everything while orders are being processed.
    #[inline]
    pub(super) fn publish(&mut self, channel: ClientChannel, output: &mut ClientOutput<'_>) -> client::Result<()> {
        self.publish_each(|to, body| output.publish(channel, to, body))
    }

    /// Publishes everything.
    pub(super) fn publish_all(&mut self, client: &mut Client, channel: ClientChannel) -> client::Result<()> {
        self.publish_each(|to, body| client.publish(channel, to, body))
    }

    #[inline]
    fn publish_each(
        &mut self,
        mut publish: impl FnMut(&Publish<'_>, &[u8]) -> client::Result<u64>,
    ) -> client::Result<()> {
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
