//! A gateway's record of its orders: which are open, which answers came, and completion times.
//!
//! Repeated messages are recognised by their numbers and counted once.

use gauge::LatencyHistogram;
use market::limits::ORDERS_IN_FLIGHT_MAX;
use market::{
    EndOfStream, GatewayEvent, GatewayId, MarketMessage, ORDER_BYTES, OrderFlow, OrderFlowRules, OrdersChecksum,
    OutstandingOrders, SampleSource,
};

use super::gateway::GatewayTask;
use super::measurement_interval::{MarketTotals, MeasurementInterval};
use super::program_results::GatewayResults;

/// The orders of a gateway.
pub(super) struct Blotter {
    gateway: GatewayId,
    flow: OrderFlow,
    outstanding: OutstandingOrders,
    orders_checksum: OrdersChecksum,
    /// The number of each symbol's next quote.
    quotes: Box<[u16]>,
    completion: LatencyHistogram,
    results: GatewayResults,
    open: u64,
    last_event_ns: u64,
    ended: bool,
    /// Orders between two samples; the completion times since the last one.
    every: u64,
    completion_since: LatencyHistogram,
    interval: MeasurementInterval,
}

impl Blotter {
    pub(super) fn new(task: &GatewayTask) -> Result<Self, String> {
        let load = &task.load;
        let gateway = GatewayId::new(usize::from(task.gateway)).ok_or("there is no such gateway")?;
        let rules = OrderFlowRules {
            seed: load.seed,
            gateway,
            symbols: load.symbols,
            matching: load.matching(),
            shared_by: usize::from(load.gateways),
        };
        // At a rate, orders do not wait for answers, as far as sequence numbers allow.
        let under_way_max = if task.rate.is_some() { ORDERS_IN_FLIGHT_MAX } else { load.window };
        Ok(Self {
            gateway,
            flow: OrderFlow::new(rules),
            outstanding: OutstandingOrders::new(gateway, under_way_max.min(load.orders)),
            orders_checksum: OrdersChecksum::default(),
            quotes: vec![0; usize::from(load.symbols)].into(),
            completion: LatencyHistogram::default(),
            results: GatewayResults { gateway: task.gateway, ..GatewayResults::default() },
            open: 0,
            last_event_ns: 0,
            ended: false,
            every: load.sample,
            completion_since: LatencyHistogram::default(),
            interval: MeasurementInterval::new(MarketTotals::default()),
        })
    }

    /// Starts the clock.
    pub(super) fn begin(&mut self, begin_ns: u64) {
        (self.results.began_ns, self.last_event_ns) = (begin_ns, begin_ns);
        self.interval.begin(begin_ns);
    }

    /// How many orders were sent.
    pub(super) fn sent(&self) -> u64 {
        self.results.orders
    }

    /// How many of them are unanswered.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// Whether another order may be sent.
    pub(super) fn has_capacity(&self) -> bool {
        !self.outstanding.is_full()
    }

    /// Whether all orders are answered, and the engine has confirmed the end.
    pub(super) fn is_settled(&self) -> bool {
        self.open == 0 && self.ended
    }

    /// The time of the last answer, or of the last order.
    pub(super) fn last_event_ns(&self) -> u64 {
        self.last_event_ns
    }

    /// The next order, which was due at `due_ns`. Call `has_capacity` first.
    #[inline]
    pub(super) fn order(&mut self, due_ns: u64, time_ns: u64, is_late: bool) -> [u8; ORDER_BYTES] {
        let sequence = self.outstanding.send(due_ns);
        debug_assert_eq!(sequence, Some(self.results.orders), "an order was allowed");
        let order = self.flow.order();
        self.orders_checksum.add(&order, self.results.orders);
        self.results.orders += 1;
        self.results.late += u64::from(is_late);
        self.results.sent_at_ns = time_ns;
        self.last_event_ns = self.last_event_ns.max(time_ns);
        self.open += 1;
        order.encode()
    }

    /// The end of the orders.
    pub(super) fn end(&self) -> market::EncodedMessage {
        let (count, checksum) = (self.results.orders, self.orders_checksum.value());
        MarketMessage::End(EndOfStream { gateway: self.gateway, count, checksum }).encode()
    }

    /// Handles a message of the engine; returns a sample when one is due.
    #[inline]
    pub(super) fn on_message(&mut self, body: &[u8], time_ns: u64) -> Option<&[u8]> {
        let Ok(message) = MarketMessage::decode(body) else {
            self.results.malformed += 1;
            return None;
        };
        self.last_event_ns = time_ns;
        match self.outstanding.on_message(&message) {
            GatewayEvent::Answer { sent_ns, .. } => {
                self.count(&message);
                let ns = time_ns.saturating_sub(sent_ns);
                self.completion.record(ns);
                self.completion_since.record(ns);
                self.open = self.open.saturating_sub(1);
                self.results.answered += 1;
                self.results.ended_ns = time_ns;
                if self.results.answered.is_multiple_of(self.every) {
                    return Some(self.sample(time_ns));
                }
            }
            GatewayEvent::Trade => self.count(&message),
            GatewayEvent::Quote => self.quote(&message),
            GatewayEvent::End { missing, checksum } => {
                self.ended = true;
                self.results.missing = missing;
                self.results.checksum = checksum;
            }
            GatewayEvent::Repeat => self.results.repeated += 1,
            GatewayEvent::Unsolicited => self.results.strays += 1,
            GatewayEvent::Foreign => self.results.malformed += 1,
        }
        None
    }

    #[inline]
    fn count(&mut self, message: &MarketMessage) {
        match message {
            MarketMessage::Trade(_) => self.results.trades += 1,
            MarketMessage::Confirmation(_) => self.results.confirmations += 1,
            MarketMessage::Reject(_) => self.results.rejects += 1,
            _ => {}
        }
    }

    /// Quotes have numbers of their own: a repeated one is older than the next.
    #[inline]
    fn quote(&mut self, message: &MarketMessage) {
        let MarketMessage::Quote(quote) = message else { return };
        let Some(next) = self.quotes.get_mut(usize::from(quote.symbol.0)) else {
            self.results.malformed += 1;
            return;
        };
        let ahead = quote.number.wrapping_sub(*next) as i16;
        if ahead < 0 {
            self.results.repeated += 1;
            return;
        }
        self.results.missing_quotes += ahead as u64;
        *next = quote.number.wrapping_add(1);
        self.results.quotes += 1;
    }

    #[cold]
    fn sample(&mut self, time_ns: u64) -> &[u8] {
        let GatewayResults { orders, trades, confirmations, rejects, quotes, .. } = self.results;
        let totals = MarketTotals { orders, trades, confirmations, rejects, quotes };
        let completions = std::mem::take(&mut self.completion_since).buckets().iter().collect();
        self.interval.end(SampleSource::Gateway(self.gateway), time_ns, totals, completions)
    }

    /// Counts orders that the broker refused to confirm.
    pub(super) fn refused(&mut self, orders: u64) {
        self.results.refused += orders;
    }

    /// The results of the whole run.
    pub(super) fn into_results(mut self) -> GatewayResults {
        if !self.ended {
            self.results.missing = self.outstanding.missing();
        }
        self.results.completion = self.completion.buckets();
        self.results.samples = self.interval.samples();
        self.results.ended_ns = self.results.ended_ns.max(self.results.sent_at_ns);
        self.results
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market_address::MarketAddress;
    use crate::market_options::MarketLoad;
    use market::{EngineRules, MarketSample, MatchingEngine, Recipient};

    fn task(orders: u64) -> GatewayTask {
        let load = MarketLoad {
            orders,
            gateways: 1,
            symbols: 4,
            seed: 1,
            exact: false,
            sample: 100,
            window: 1_000,
            confirms: false,
        };
        let place = MarketAddress { url: "amqp://127.0.0.1".to_owned(), name: "m".to_owned(), gateways: 1 };
        GatewayTask { place, gateway: 0, load, rate: None }
    }

    /// A gateway and an engine that exchange messages; the engine's messages pass through `on_the_way`.
    fn market(
        orders: u64,
        on_the_way: impl Fn(Vec<(Recipient, MarketMessage)>) -> Vec<(Recipient, MarketMessage)>,
    ) -> (GatewayResults, Vec<MarketSample>, u64) {
        let mut blotter = Blotter::new(&task(orders)).expect("a gateway");
        let mut engine = MatchingEngine::new(EngineRules { symbols: 4, ..EngineRules::default() });
        let mut samples = Vec::new();
        blotter.begin(1_000);
        let mut messages: Vec<Vec<u8>> = (0..orders).map(|at| blotter.order(at, 1_000 + at, false).to_vec()).collect();
        messages.push(blotter.end().to_vec());
        assert!(!blotter.is_settled());
        let mut answers: Vec<(Recipient, MarketMessage)> = Vec::new();
        for message in &messages {
            let _taken = engine.process(message, &mut answers);
        }
        for (_, answer) in on_the_way(answers) {
            let sample = blotter.on_message(&answer.encode(), 10_000).map(MarketSample::decode);
            samples.extend(sample.map(|sample| sample.expect("a sample")));
        }
        (blotter.into_results(), samples, engine.checksum().value())
    }

    #[test]
    fn every_order_is_answered_once_and_measured() {
        let (found, samples, checksum) = market(1_000, |answers| answers);
        assert!(found.problems().is_empty(), "{found:?}");
        assert_eq!((found.orders, found.answered, found.samples, found.repeated), (1_000, 1_000, 10, 0));
        assert_eq!(found.checksum, checksum);
        assert!(found.trades > 0 && found.quotes > 0 && found.confirmations > 0);
        assert_eq!(samples.len(), 10);
        let sum: u64 =
            samples.iter().map(|sample| sample.completions.iter().map(|(_, count)| count).sum::<u64>()).sum();
        assert_eq!(sum, 1_000, "every order is in one histogram");
        assert!(samples.iter().any(|sample| sample.trades > 0));
    }

    #[test]
    fn what_comes_twice_counts_once() {
        let (once, ..) = market(500, |answers| answers);
        let (twice, ..) = market(500, |answers| {
            let mut doubled: Vec<(Recipient, MarketMessage)> = answers[..answers.len() / 2].to_vec();
            doubled.extend(answers.clone());
            doubled
        });
        assert!(twice.problems().is_empty(), "{twice:?}");
        assert!(twice.repeated > 0);
        let counts = |found: &GatewayResults| (found.answered, found.trades, found.confirmations, found.quotes);
        assert_eq!(counts(&twice), counts(&once));
    }

    #[test]
    fn what_is_lost_is_told() {
        let (found, ..) = market(500, |mut answers| {
            let lost = answers
                .iter()
                .position(|(_, one)| matches!(one, MarketMessage::Confirmation(_)))
                .expect("there is one");
            answers.remove(lost);
            let lost =
                answers.iter().position(|(_, one)| matches!(one, MarketMessage::Quote(_))).expect("there is one");
            answers.remove(lost);
            answers
        });
        assert_eq!(
            found.problems(),
            [
                "gateway 0: 1 orders were never answered",
                "gateway 0: 1 answers are missing",
                "gateway 0: 1 quotes are missing"
            ]
        );
    }
}
