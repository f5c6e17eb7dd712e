//! The matching engine as a program: consumes orders, publishes answers, and with confirms keeps a journal between
//! them.
//!
//! With a journal, no answer is sent before its order is journaled. Answers are batched only as far as orders arrive in
//! batches.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;
use wire::DeliveryTag;

use client::{Client, ClientChannel, ClientError, ConsumeOptions, Publish};
use gauge::clock::{Deadline, now_ns, pause};
use market::limits::GATEWAYS_MAX;
use market::{EngineCounts, EngineRules, InputOutcome, SampleSource};
use mio::{Events, Poll, Token};
use serde::{Deserialize, Serialize};

use super::answer_outbox::AnswerOutbox;
use super::market_address::{MarketAddress, ORDERS, STATISTICS};
use super::market_options::MarketLoad;
use super::measurement_interval::{MarketTotals, MeasurementInterval};
use super::order_journal::{OrderJournal, RecoveredOrders};
use super::program_results::EngineResults;
use crate::limits::{
    MARKET_END_WAIT, MARKET_LOOK, MARKET_PREFETCH, MARKET_TAKE_OVER_LOOK, MARKET_TAKE_OVER_WAIT,
    MARKET_UNCONFIRMED_MAX, MARKET_UNSENT_BYTES_MAX,
};
use harness::interrupt;

/// Parameters of an engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineTask {
    pub place: MarketAddress,
    pub load: MarketLoad,
    /// The journal of accepted orders; with it everything is confirmed and acknowledged.
    pub journal: Option<PathBuf>,
    /// Whether it ends when every gateway has.
    pub ends_with_gateways: bool,
}

/// A running engine.
pub(crate) struct EngineProgram {
    client: Client,
    channel: ClientChannel,
    poll: Poll,
    task: EngineTask,
    engine: market::MatchingEngine,
    journal: Option<OrderJournal>,
    outbox: AnswerOutbox,
    /// With a journal: orders to acknowledge as soon as their answers are confirmed.
    pending_acks: VecDeque<PendingAck>,
    ended: [bool; GATEWAYS_MAX],
    results: EngineResults,
    interval: MeasurementInterval,
    readable: bool,
}

/// Orders up to a delivery tag, whose answers are confirmed with all publishes up to a tag.
#[derive(Clone, Copy, Debug)]
struct PendingAck {
    delivery_tag: DeliveryTag,
    publish_tag: u64,
    /// Answers to journaled orders up to there.
    answers: u64,
}

impl EngineProgram {
    /// Connects, and recovers the journal.
    pub(crate) fn start(task: EngineTask) -> Result<Self, String> {
        let rules =
            EngineRules { symbols: task.load.symbols, matching: task.load.matching(), ..EngineRules::default() };
        let mut engine = market::MatchingEngine::new(rules);
        let mut mailbox = AnswerOutbox::new(&task.place);
        let (journal, kept) = match &task.journal {
            Some(path) => OrderJournal::open(path).map(|(journal, kept)| (Some(journal), kept))?,
            None => (None, RecoveredOrders::default()),
        };
        if kept.torn_bytes > 0 {
            cli::print_error(&format!(
                "harrier market: engine: the last record of the journal is torn; {} bytes are dropped",
                kept.torn_bytes
            ));
        }
        mailbox.skip(kept.confirmed);
        for entry in &kept.orders {
            let entry =
                entry.as_slice().try_into().map_err(|_| "an entry of the journal is not an order".to_owned())?;
            engine.replay(entry, &mut mailbox).map_err(|error| error.to_string())?;
        }
        let poll = Poll::new().map_err(|error| format!("no poll: {error}"))?;
        let (client, channel) = connect(&task, &poll).map_err(|error| error.to_string())?;
        let found = EngineResults { replayed: kept.orders.len() as u64, ..EngineResults::default() };
        let interval = MeasurementInterval::new(totals(engine.counts()));
        let mut engine = Self {
            client,
            channel,
            poll,
            engine,
            journal,
            outbox: mailbox,
            pending_acks: VecDeque::new(),
            ended: [false; GATEWAYS_MAX],
            results: found,
            interval,
            readable: true,
            task,
        };
        // Answers that may not have been delivered are published before anything new.
        engine.publish_answers().map_err(|error| error.to_string())?;
        Ok(engine)
    }

    /// Runs until it is told to end (SIGTERM, Ctrl-C), or every gateway has ended and is answered.
    pub(crate) fn work(mut self) -> Result<EngineResults, String> {
        self.trade().map_err(|error| error.to_string())?;
        self.settle().map_err(|error| error.to_string())?;
        if let Some(journal) = &mut self.journal
            && self.ended[..usize::from(self.task.place.gateways)].iter().all(|&ended| ended)
        {
            journal.mark_closed()?;
        }
        self.client.close().map_err(|error| error.to_string())?;
        let counts = self.engine.counts();
        Ok(EngineResults {
            orders: counts.orders,
            repeated: counts.repeats,
            missing: counts.missing - counts.late.min(counts.missing),
            rejects: counts.rejects,
            malformed: counts.malformed,
            trades: counts.trades,
            confirmations: counts.confirmations,
            quotes: counts.quotes,
            sent: self.outbox.published(),
            unaddressed: self.outbox.unaddressed(),
            checksum: self.engine.checksum().value(),
            samples: self.interval.samples(),
            ..self.results
        })
    }

    fn is_over(&self) -> bool {
        let all = || self.ended[..usize::from(self.task.place.gateways)].iter().all(|&ended| ended);
        interrupt::requested() || (self.task.ends_with_gateways && all())
    }

    fn trade(&mut self) -> client::Result<()> {
        let mut events = Events::with_capacity(16);
        while !self.is_over() {
            let has_capacity = self.has_capacity();
            if self.readable && has_capacity {
                self.process_orders()?;
            }
            self.client.flush_now()?;
            self.wait(&mut events, if self.readable && has_capacity { Duration::ZERO } else { MARKET_LOOK })?;
        }
        Ok(())
    }

    /// Whether answers are flowing; while they are not, no more orders are consumed.
    fn has_capacity(&self) -> bool {
        self.client.unsent_bytes() < MARKET_UNSENT_BYTES_MAX
            && (self.journal.is_none() || self.client.outstanding(self.channel) < MARKET_UNCONFIRMED_MAX)
    }

    fn wait(&mut self, events: &mut Events, timeout: Duration) -> client::Result<()> {
        // Buffered input is handled before waiting.
        if timeout.is_zero() {
            return Ok(());
        }
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
            // Idle connections need heartbeats.
            Ok(()) => {
                self.readable = true;
                Ok(())
            }
        }
    }

    /// Processes all orders that have arrived, and publishes their answers together.
    fn process_orders(&mut self) -> client::Result<()> {
        let Self { engine, outbox: mailbox, journal, ended, results: found, interval, task, .. } = self;
        let (every, name) = (task.load.sample, &task.place.name);
        let mut last = None;
        let came = self.client.dispatch_now(|delivery, output| {
            let body = delivery.body();
            last = Some(delivery.delivery_tag);
            let taken = engine.process(body, mailbox);
            match taken {
                InputOutcome::Order => {
                    if let Some(journal) = journal {
                        journal.order(body);
                    }
                    let orders = engine.counts().orders;
                    let is_due = orders.is_multiple_of(every);
                    if is_due || found.began_ns == 0 {
                        found.ended_ns = now_ns();
                        if found.began_ns == 0 {
                            found.began_ns = found.ended_ns;
                            interval.begin(found.began_ns);
                        }
                        if is_due {
                            let bytes =
                                interval.end(SampleSource::Engine, found.ended_ns, totals(engine.counts()), Vec::new());
                            output.publish(delivery.channel, &Publish::to(name, STATISTICS), bytes)?;
                        }
                    }
                }
                InputOutcome::End(gateway) => ended[gateway.number()] = true,
                // The sender may name a queue for the rejection.
                InputOutcome::Malformed => {
                    mailbox.set_sender_queue(delivery.properties.reply_to().map(|queue| queue.as_bytes()))
                }
                InputOutcome::Repeat => {}
            }
            if journal.is_none() { mailbox.publish(delivery.channel, output) } else { Ok(()) }
        })?;
        self.readable = !came.drained;
        if came.deliveries > 0 {
            self.results.ended_ns = now_ns();
        }
        if self.journal.is_some() {
            self.publish_answers()?;
            self.pending_acks.extend(last.map(|delivery_tag| PendingAck {
                delivery_tag,
                publish_tag: self.outbox.last_tag(),
                answers: self.outbox.journaled(),
            }));
            self.acknowledge()?;
        }
        Ok(())
    }

    /// Syncs the journal, then publishes the answers.
    fn publish_answers(&mut self) -> client::Result<()> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if !self.outbox.is_empty() {
            journal.sync().map_err(journal_error)?;
            self.outbox.publish_all(&mut self.client, self.channel)?;
        }
        Ok(())
    }

    /// Acknowledges the orders whose answers are confirmed.
    fn acknowledge(&mut self) -> client::Result<()> {
        let confirmed = self.client.confirmed_up_to(self.channel);
        let mut last = None;
        while let Some(owed) = self.pending_acks.front().filter(|owed| owed.publish_tag <= confirmed) {
            last = Some(*owed);
            self.pending_acks.pop_front();
        }
        if let (Some(owed), Some(journal)) = (last, &mut self.journal) {
            journal.confirmed(owed.answers);
            self.client.ack(self.channel, owed.delivery_tag, true)?;
            self.client.flush_now()?;
        }
        Ok(())
    }

    /// Waits until all answers are sent, and with a journal confirmed and acknowledged.
    fn settle(&mut self) -> client::Result<()> {
        let mut events = Events::with_capacity(16);
        let deadline = Deadline::after(MARKET_END_WAIT);
        while !self.client.flush_now()? || !self.pending_acks.is_empty() {
            if deadline.passed() {
                return Err(ClientError::TimedOut { awaited: "confirm of the last answers" });
            }
            self.process_orders()?;
            self.wait(&mut events, MARKET_LOOK)?;
        }
        Ok(())
    }
}

/// The counters that samples report.
fn totals(counts: &EngineCounts) -> MarketTotals {
    let &EngineCounts { orders, trade_messages: trades, confirmations, rejects, quotes, .. } = counts;
    MarketTotals { orders, trades, confirmations, rejects, quotes }
}

/// A journal that cannot be written ends the engine like a broken connection.
fn journal_error(why: String) -> ClientError {
    std::io::Error::other(why).into()
}

/// Connects as the exclusive consumer of the orders, and retries while a killed engine may still be registered.
fn connect(task: &EngineTask, poll: &Poll) -> client::Result<(Client, ClientChannel)> {
    let is_safe = task.journal.is_some();
    let (mut client, mut channel) = task.place.connect("engine", usize::MAX)?;
    let options = ConsumeOptions { no_ack: !is_safe, exclusive: true, ..ConsumeOptions::default() };
    let queue = task.place.queue(ORDERS);
    let deadline = Deadline::after(MARKET_TAKE_OVER_WAIT);
    loop {
        if is_safe {
            client.confirm_select(channel)?;
            client.qos(channel, MARKET_PREFETCH, false)?;
        }
        match client.consume(channel, &queue, &options) {
            Ok(_) => break,
            // 403: another exclusive consumer exists.
            Err(ClientError::ChannelClosed { code: 403, .. }) if !deadline.passed() && !interrupt::requested() => {
                pause(MARKET_TAKE_OVER_LOOK);
                channel = client.open_channel()?;
            }
            Err(error) => return Err(error),
        }
    }
    client.register(poll.registry(), Token(0))?;
    Ok((client, channel))
}
