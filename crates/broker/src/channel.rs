//! A channel: its delivery tags, its consumers, and how its publishes are made safe.

use crate::channel_confirms::ChannelConfirms;
use crate::consumers_by_tag::ConsumersByTag;
use crate::direct_reply::ReplyConsumer;
use crate::ids::{ChannelKey, ConnectionSlot};
use crate::limits::TRANSACTION_SETTLED_PER_OPERATION;
use crate::message_stats::ChannelStats;
use crate::publish_route::PublishRouteCache;
use crate::transaction::{Transaction, TransactionOperation};
use crate::waiting_consumers::WaitingConsumers;
use catalog::Refusal;
use queues::{ChangeList, Ledger, SettlementOutcome, WorkBudget};
use std::collections::VecDeque;
use wire::{ChannelNumber, DeliveryTag, ReplyCode};

/// How publishes of a channel are made safe.
pub enum ChannelMode {
    /// Not at all.
    Plain,
    /// Each is confirmed.
    Confirm,
    /// They wait for `tx.commit`.
    Transaction(Transaction),
}

pub struct Channel {
    pub slot: ConnectionSlot,
    pub number: ChannelNumber,
    pub ledger: Ledger,
    pub consumers: ConsumersByTag,
    /// Consumers that could not accept a delivery because of the channel or of its connection's output.
    pub waiting: WaitingConsumers,
    /// It is on the list of channels that wait for capacity in the output of their connection.
    pub awaits_output: bool,
    /// It is closed, and its consumers and deliveries are being taken from it.
    pub closing: bool,
    /// Work is deferred that wakes its consumers.
    pub wake_deferred: bool,
    /// Prefetch count of new consumers; zero is no limit.
    pub prefetch: u32,
    /// Prefetch count shared by all consumers; zero is no limit.
    pub prefetch_shared: u32,
    /// Deliveries to its consumers that wait for settlement.
    pub unsettled: u32,
    /// The client accepts deliveries (`channel.flow`).
    pub flow: bool,
    pub mode: ChannelMode,
    /// Counts since they were folded, and those before. Few channels have any: they are not in the channel.
    pub stats: ChannelStats,
    folded: Option<Box<ChannelStats>>,
    /// A reader of reports knows it as it is.
    pub is_reported: bool,
    /// Numbers of the publishes that await confirms, or that a commit awaits.
    pub confirms: ChannelConfirms,
    pub route_cache: Option<Box<PublishRouteCache>>,
    /// The queue declared last, for methods that name none.
    pub last_queue: Box<str>,
    /// With a consumer timeout only: the last tag handed out at some moments of the past.
    pub tag_checkpoints: VecDeque<(u64, DeliveryTag)>,
    pub reply_consumer: Option<ReplyConsumer>,
}

impl Channel {
    pub fn new(slot: ConnectionSlot, number: ChannelNumber) -> Self {
        Channel {
            slot,
            number,
            ledger: Ledger::default(),
            consumers: ConsumersByTag::default(),
            waiting: WaitingConsumers::default(),
            awaits_output: false,
            closing: false,
            wake_deferred: false,
            prefetch: 0,
            prefetch_shared: 0,
            unsettled: 0,
            flow: true,
            mode: ChannelMode::Plain,
            stats: ChannelStats::default(),
            folded: None,
            is_reported: false,
            confirms: ChannelConfirms::default(),
            route_cache: None,
            last_queue: "".into(),
            tag_checkpoints: VecDeque::new(),
            reply_consumer: None,
        }
    }

    /// Whether the channel as a whole allows its consumers one more delivery. As in RabbitMQ, the shared prefetch count holds
    /// back consumers without acknowledgements too.
    #[inline]
    pub fn allows_delivery(&self) -> bool {
        self.flow && (self.prefetch_shared == 0 || self.unsettled < self.prefetch_shared)
    }

    /// All that it has counted.
    pub(crate) fn all_stats(&self) -> ChannelStats {
        let mut stats = self.stats;
        stats += self.folded.as_deref().copied().unwrap_or_default();
        stats
    }

    /// What it has counted since this was last asked.
    pub(crate) fn fold_stats(&mut self) -> ChannelStats {
        let stats = std::mem::take(&mut self.stats);
        if stats != ChannelStats::default() {
            **self.folded.get_or_insert_default() += stats;
        }
        stats
    }

    /// It has changed: whoever knew it as it was is to be told.
    #[inline]
    pub(crate) fn note_change(&mut self, key: ChannelKey, changes: &mut ChangeList<ChannelKey>) {
        if self.is_reported {
            self.is_reported = false;
            changes.note(key);
        }
    }

    /// The channel is closed: it gets no more deliveries, replies or confirms. Returns the operations of its transaction, which are
    /// to be rolled back.
    pub fn close(&mut self) -> Vec<TransactionOperation> {
        self.closing = true;
        self.flow = false;
        self.reply_consumer = None;
        match std::mem::replace(&mut self.mode, ChannelMode::Plain) {
            ChannelMode::Transaction(mut transaction) => transaction.take(),
            ChannelMode::Plain | ChannelMode::Confirm => Vec::new(),
        }
    }

    /// Messages in flight: published and not safe yet, delivered and not settled.
    pub fn in_flight(&self) -> u64 {
        self.confirms.published - self.confirms.confirmed + self.ledger.unsettled() as u64
    }

    /// The number by which the next publish will be confirmed, if it will.
    pub fn next_confirm_tag(&self) -> Option<DeliveryTag> {
        matches!(self.mode, ChannelMode::Confirm).then_some(DeliveryTag(self.confirms.published + 1))
    }

    /// The queue that a method means: the one it names, or the one declared last.
    pub fn queue_name(&self, name: &[u8]) -> Result<Box<[u8]>, Refusal> {
        if !name.is_empty() {
            return Ok(name.into());
        }
        if self.last_queue.is_empty() {
            return Err(Refusal::channel(ReplyCode::NotFound, "NOT_FOUND - no previously declared queue"));
        }
        Ok(self.last_queue.as_bytes().into())
    }

    /// `confirm.select`.
    pub fn select_confirms(&mut self) -> Result<(), Refusal> {
        match self.mode {
            ChannelMode::Transaction(_) => Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
            )),
            ChannelMode::Confirm => Ok(()),
            ChannelMode::Plain => {
                self.mode = ChannelMode::Confirm;
                Ok(())
            }
        }
    }

    /// `tx.select`.
    pub fn select_transactions(&mut self) -> Result<(), Refusal> {
        match self.mode {
            ChannelMode::Confirm => Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
            )),
            ChannelMode::Transaction(_) => Ok(()),
            ChannelMode::Plain => {
                self.mode = ChannelMode::Transaction(Transaction::default());
                Ok(())
            }
        }
    }

    /// The open transaction.
    pub fn transaction(&mut self) -> Result<&mut Transaction, Refusal> {
        match &mut self.mode {
            ChannelMode::Transaction(transaction) => Ok(transaction),
            _ => Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - channel is not transactional",
            )),
        }
    }

    /// Adds a settlement to the open transaction, as far as the budget of the turn allows. Returns up to which tag there is more to
    /// settle, if there is.
    #[cold]
    pub fn settle_in_transaction(
        &mut self,
        tag: DeliveryTag,
        multiple: bool,
        outcome: SettlementOutcome,
        work: &mut WorkBudget,
    ) -> Result<Option<DeliveryTag>, Refusal> {
        self.transaction()?.check_capacity("acknowledgements")?;
        if multiple {
            let through = self.ledger.range(tag).ok_or_else(|| unknown_tag(tag))?;
            let is_done = self.settle_through_in_transaction(through, outcome, work);
            return Ok((!is_done).then_some(through));
        }
        let delivery = self.ledger.settle(tag).ok_or_else(|| unknown_tag(tag))?;
        self.transaction()?.push(TransactionOperation::Settle { deliveries: vec![(tag, delivery)], outcome });
        Ok(None)
    }

    /// Adds the settlement of the deliveries up to a tag to the open transaction, as far as the budget of the turn allows. Returns
    /// whether none is left.
    #[cold]
    pub fn settle_through_in_transaction(
        &mut self,
        through: DeliveryTag,
        outcome: SettlementOutcome,
        work: &mut WorkBudget,
    ) -> bool {
        let ChannelMode::Transaction(transaction) = &mut self.mode else { return true };
        loop {
            let (deliveries, is_done) = self.ledger.take_through(through, TRANSACTION_SETTLED_PER_OPERATION);
            work.draw(deliveries.len());
            if !deliveries.is_empty() {
                transaction.push(TransactionOperation::Settle { deliveries, outcome });
            }
            if is_done || work.is_spent() {
                return is_done;
            }
        }
    }

    /// The outcome of a commit whose messages are all where they belong: whether a queue refused any of them.
    pub fn commit_result(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.confirms.refused).is_empty() {
            return Ok(());
        }
        Err(Refusal::detail(ReplyCode::PreconditionFailed, "partial tx completion"))
    }
}

/// The refusal for a command on a channel that is not open; the session lets none through.
pub fn not_open() -> Refusal {
    Refusal::connection(ReplyCode::ChannelError, "CHANNEL_ERROR - expected 'channel.open'")
}

/// The refusal for the settlement of a delivery tag that is not out.
pub fn unknown_tag(tag: DeliveryTag) -> Refusal {
    Refusal::channel(ReplyCode::PreconditionFailed, format!("PRECONDITION_FAILED - unknown delivery tag {tag}"))
}

#[cfg(test)]
mod tests {
    use super::Channel;
    use crate::ids::ConnectionSlot;
    use wire::ChannelNumber;

    #[test]
    fn a_channel_confirms_or_is_transactional_and_never_both() {
        let mut channel = Channel::new(ConnectionSlot::new(0), ChannelNumber(1));
        assert!(channel.transaction().is_err());
        channel.select_confirms().expect("plain before");
        channel.select_confirms().expect("the same again");
        assert!(channel.select_transactions().is_err());
        let mut channel = Channel::new(ConnectionSlot::new(0), ChannelNumber(2));
        channel.select_transactions().expect("plain before");
        channel.select_transactions().expect("the same again");
        assert!(channel.select_confirms().is_err() && channel.transaction().is_ok());
        assert!(channel.commit_result().is_ok());
        channel.confirms.refused.insert(1);
        assert!(channel.commit_result().is_err() && channel.commit_result().is_ok());
    }

    #[test]
    fn a_method_that_names_no_queue_means_the_one_declared_last() {
        let mut channel = Channel::new(ConnectionSlot::new(0), ChannelNumber(1));
        assert!(channel.queue_name(b"").is_err());
        channel.last_queue = "last".into();
        assert_eq!(channel.queue_name(b"").ok().as_deref(), Some(&b"last"[..]));
        assert_eq!(channel.queue_name(b"q").ok().as_deref(), Some(&b"q"[..]));
    }
}
