//! The engine answers every order once, whatever is repeated, late, lost or malformed, and whenever the engine is
//! killed.

use market::limits::{GAPS_MAX, ORDERS_IN_FLIGHT_MAX};
use market::{
    EndOfStream, EngineRules, GatewayEvent, GatewayId, InputOutcome, JournalError, MarketMessage, Matching,
    MatchingEngine, MessageSink, NewOrder, ORDER_BYTES, OrderConfirmation, OrderFlow, OrderFlowRules, OrderReject,
    OrderSide, OutstandingOrders, Recipient, RejectReason, SequenceGap, ShortSequence, Symbol,
};
use proptest::prelude::*;

fn gateway(number: usize) -> GatewayId {
    GatewayId::new(number).expect("there are 16")
}

fn rules(symbols: u16, matching: Matching) -> EngineRules {
    EngineRules { symbols, matching, ..EngineRules::default() }
}

/// The messages of an engine.
#[derive(Default)]
struct EngineAnswers {
    messages: Vec<(Recipient, MarketMessage)>,
    gaps: Vec<(GatewayId, SequenceGap)>,
}

impl MessageSink for EngineAnswers {
    fn message(&mut self, to: Recipient, message: &MarketMessage) {
        self.messages.push((to, *message));
    }

    fn gap(&mut self, gateway: GatewayId, gap: SequenceGap) {
        self.gaps.push((gateway, gap));
    }
}

/// A gateway with its flow, its encoded orders, and the messages it received.
struct EngineHarness {
    gateway: GatewayId,
    outstanding: OutstandingOrders,
    orders: Vec<[u8; ORDER_BYTES]>,
    answered: Vec<bool>,
    repeats: u64,
    end: Option<(u64, u64)>,
}

impl EngineHarness {
    fn new(number: usize, seed: u64, rules: EngineRules, shared_by: usize, count: usize) -> Self {
        let gateway = gateway(number);
        let mut outstanding = OutstandingOrders::new(gateway, count as u64);
        let flow = OrderFlow::new(OrderFlowRules {
            seed,
            gateway,
            symbols: rules.symbols,
            shared_by,
            matching: rules.matching,
        });
        let orders: Vec<_> = flow.take(count).map(|order| order.encode()).collect();
        for at in 0..count as u64 {
            assert_eq!(outstanding.send(at * 10), Some(at));
        }
        Self { gateway, outstanding, orders, answered: vec![false; count], repeats: 0, end: None }
    }

    fn on_message(&mut self, to: Recipient, message: &MarketMessage) {
        if to != Recipient::All && to != Recipient::Gateway(self.gateway) {
            return;
        }
        match self.outstanding.on_message(message) {
            GatewayEvent::Answer { sequence, sent_ns } => {
                assert_eq!(sent_ns, sequence * 10);
                assert!(!std::mem::replace(&mut self.answered[sequence as usize], true), "answered twice: {sequence}");
            }
            GatewayEvent::Trade | GatewayEvent::Quote => {}
            GatewayEvent::Repeat => self.repeats += 1,
            GatewayEvent::End { missing, checksum } => self.end = Some((missing, checksum)),
            heard @ (GatewayEvent::Unsolicited | GatewayEvent::Foreign) => panic!("{heard:?}: {message}"),
        }
    }

    fn count(&self) -> u64 {
        self.orders.len() as u64
    }

    fn end_message(&self) -> MarketMessage {
        MarketMessage::End(EndOfStream { gateway: self.gateway, count: self.count(), checksum: 0 })
    }
}

fn deliver(said: &mut EngineAnswers, traders: &mut [EngineHarness]) {
    for (to, message) in said.messages.drain(..) {
        // Encoded, as over a broker.
        let message = MarketMessage::decode(&message.encode()).expect("an engine's message can be read");
        traders.iter_mut().for_each(|trader| trader.on_message(to, &message));
    }
}

fn end(engine: &mut MatchingEngine, traders: &mut [EngineHarness]) {
    let mut said = EngineAnswers::default();
    for trader in traders.iter() {
        assert_eq!(engine.process(&trader.end_message().encode(), &mut said), InputOutcome::End(trader.gateway));
    }
    deliver(&mut said, traders);
}

/// A matching rule, gateways, symbols, a seed and a choice for each order: whose it is, and what happens to it.
fn exchanges() -> impl Strategy<Value = (Matching, usize, u16, u64, Vec<(usize, u8)>)> {
    let matching = prop_oneof![Just(Matching::Exact), Just(Matching::Crossing)];
    let turns = prop::collection::vec((any::<usize>(), any::<u8>()), 1..400);
    (matching, 1..5usize, 1..4u16, any::<u64>(), turns)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_order_is_answered_once_whatever_comes_twice_late_or_never(
        (matching, gateways, symbols, seed, turns) in exchanges(),
    ) {
        let rules = rules(symbols, matching);
        let mut engine = MatchingEngine::new(rules);
        let mut traders: Vec<_> =
            (0..gateways).map(|number| EngineHarness::new(number, seed, rules, 1, turns.len())).collect();
        let mut said = EngineAnswers::default();
        let (mut sent, mut late, mut lost) = (vec![0usize; gateways], vec![Vec::new(); gateways], 0);
        let (mut repeats, mut came_late) = (0, 0);
        for &(whose, fortune) in &turns {
            let whose = whose % gateways;
            let at = sent[whose];
            let mut take = |at: usize| engine.process(&traders[whose].orders[at], &mut said);
            match fortune {
                // The broker redelivers some of the last orders.
                0..=20 => for again in at.saturating_sub(usize::from(fortune))..at {
                    if !late[whose].contains(&again) {
                        prop_assert_eq!(take(again), InputOutcome::Repeat);
                        repeats += 1;
                    }
                },
                21..=40 => {
                    late[whose].push(at);
                    sent[whose] += 1;
                }
                41..=60 if !late[whose].is_empty() => {
                    let which = usize::from(fortune) % late[whose].len();
                    let at = late[whose].remove(which);
                    prop_assert_eq!(take(at), InputOutcome::Order);
                    prop_assert_eq!(take(at), InputOutcome::Repeat);
                    came_late += 1;
                    repeats += 1;
                }
                _ => {
                    prop_assert_eq!(take(at), InputOutcome::Order);
                    sent[whose] += 1;
                }
            }
            deliver(&mut said, &mut traders);
        }
        for (trader, late) in traders.iter().zip(&late) {
            let missing: Vec<u64> = engine.gaps(trader.gateway).flat_map(|gap| gap.from..gap.until).collect();
            // A late order at the end was not missed if nothing came after it.
            let expected = engine.sent(trader.gateway);
            let mut known: Vec<u64> = late.iter().map(|&at| at as u64).filter(|&at| at < expected).collect();
            known.sort_unstable();
            prop_assert_eq!(missing, known);
            lost += late.len() as u64;
        }
        end(&mut engine, &mut traders);
        let counts = *engine.counts();
        for ((trader, late), sent) in traders.iter().zip(&late).zip(sent) {
            prop_assert_eq!(trader.end, Some((0, engine.checksum().value())));
            prop_assert_eq!(trader.repeats, 0);
            for (at, &answered) in trader.answered.iter().enumerate() {
                prop_assert_eq!(answered, at < sent && !late.contains(&at), "order {} of {}", at, trader.gateway);
            }
            let missing: u64 = engine.gaps(trader.gateway).map(SequenceGap::orders).sum();
            let unsent = trader.count() - sent as u64;
            prop_assert_eq!(missing, late.len() as u64 + unsent);
            lost += unsent;
        }
        let counted = said.gaps.iter().map(|(_, gap)| gap.orders()).sum::<u64>();
        prop_assert!(counted <= counts.missing);
        // An order is late only if it was missed; if nothing came after it, it was simply the next one.
        prop_assert!(counts.late <= came_late);
        prop_assert_eq!(counts.missing - counts.late, lost);
        prop_assert_eq!(counts.repeats, repeats);
        prop_assert_eq!(counts.rejects + counts.malformed, 0);
    }

    #[test]
    fn an_engine_that_is_killed_loses_no_order_and_makes_no_trade_twice(
        (matching, gateways, symbols, seed, turns) in exchanges(),
        kills in prop::collection::vec((0..400usize, 0..30usize, 0..30usize), 0..4),
    ) {
        let rules = rules(symbols, matching);
        // The broker's queue: all orders in the order of their arrival.
        let mut next = vec![0; gateways];
        let mut traders: Vec<_> =
            (0..gateways).map(|number| EngineHarness::new(number, seed, rules, 1, turns.len())).collect();
        let queue: Vec<[u8; ORDER_BYTES]> = turns.iter().map(|&(whose, _)| {
            let whose = whose % gateways;
            next[whose] += 1;
            traders[whose].orders[next[whose] - 1]
        }).collect();
        let mut unharmed = MatchingEngine::new(rules);
        for order in &queue {
            prop_assert_eq!(unharmed.process(order, &mut EngineAnswers::default()), InputOutcome::Order);
        }

        let (mut engine, mut journal, mut at) = (MatchingEngine::new(rules), Vec::new(), 0);
        let (mut mark, mut acknowledged) = (0, 0);
        let mut kills = kills.into_iter();
        let mut kill = kills.next();
        while at < queue.len() {
            let mut said = EngineAnswers::default();
            let taken = engine.process(&queue[at], &mut said);
            if taken.is_journaled() {
                journal.push(queue[at]);
            }
            at += 1;
            if let Some((when, answers_lost, acknowledgements_lost)) = kill && at > when {
                // The engine is killed between the journal and the answers. Only acknowledged orders leave the broker's
                // queue; the journal marks some of the answers as confirmed, and more may have arrived.
                kill = kills.next();
                mark = (journal.len() - 1).saturating_sub(answers_lost).max(mark);
                acknowledged = mark.saturating_sub(acknowledgements_lost).max(acknowledged);
                engine = MatchingEngine::new(rules);
                for (entry, order) in journal.iter().enumerate() {
                    let mut said = EngineAnswers::default();
                    prop_assert_eq!(engine.replay(order, &mut said), Ok(()));
                    if entry >= mark {
                        deliver(&mut said, &mut traders);
                    }
                }
                at = acknowledged;
            } else {
                deliver(&mut said, &mut traders);
            }
        }
        for trader in &mut traders {
            trader.orders.truncate(next[trader.gateway.number()]);
        }
        end(&mut engine, &mut traders);
        prop_assert_eq!(engine.checksum().value(), unharmed.checksum().value());
        prop_assert_eq!(journal, queue);
        for trader in &traders {
            prop_assert_eq!(trader.end, Some((0, unharmed.checksum().value())));
            prop_assert_eq!(engine.orders_checksum(trader.gateway), unharmed.orders_checksum(trader.gateway));
            for (at, &answered) in trader.answered.iter().enumerate() {
                prop_assert_eq!(answered, at < trader.orders.len());
            }
        }
        let (counts, wanted) = (engine.counts(), unharmed.counts());
        prop_assert_eq!((counts.trades, counts.lots, counts.orders), (wanted.trades, wanted.lots, wanted.orders));
    }

    #[test]
    fn trades_of_gateways_with_symbols_of_their_own_do_not_depend_on_who_comes_first(
        (matching, gateways, symbols, seed, turns) in exchanges(),
    ) {
        let rules = rules(symbols * 4, matching);
        let traders: Vec<_> =
            (0..gateways).map(|number| EngineHarness::new(number, seed, rules, gateways, turns.len())).collect();
        let one_after_another = {
            let mut engine = MatchingEngine::new(rules);
            for order in traders.iter().flat_map(|trader| &trader.orders) {
                prop_assert_eq!(engine.process(order, &mut EngineAnswers::default()), InputOutcome::Order);
            }
            engine.checksum().value()
        };
        let mut engine = MatchingEngine::new(rules);
        let mut next = vec![0; gateways];
        let rest = (0..gateways).flat_map(|whose| std::iter::repeat_n(whose, turns.len()));
        for whose in turns.iter().map(|&(whose, _)| whose % gateways).chain(rest) {
            if let Some(order) = traders[whose].orders.get(next[whose]) {
                next[whose] += 1;
                prop_assert_eq!(engine.process(order, &mut EngineAnswers::default()), InputOutcome::Order);
            }
        }
        prop_assert_eq!(engine.checksum().value(), one_after_another);
    }

    #[test]
    fn no_bytes_stop_an_engine(pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20), 0..4u8), 0..200)) {
        let mut engine = MatchingEngine::new(EngineRules { resting_book_max: 5, resting_max: 8, ..rules(3, Matching::Crossing) });
        let (mut taken, mut ends) = ([0u64; 3], 0);
        for (mut bytes, form) in pieces {
            // Most as long as an order, and of its kinds; some with existing symbols.
            if form > 0 {
                bytes.resize(ORDER_BYTES, 1);
                bytes[0] = bytes[0] & 0x0F | (1 + bytes[0] % 2) << 4;
            }
            if form > 1 {
                bytes[1..3].copy_from_slice(&[0, form]);
            }
            let mut said = EngineAnswers::default();
            match engine.process(&bytes, &mut said) {
                InputOutcome::Order => {
                    taken[0] += 1;
                    prop_assert!(!said.messages.is_empty());
                }
                InputOutcome::Repeat => {
                    taken[1] += 1;
                    prop_assert!(said.messages.is_empty());
                }
                InputOutcome::Malformed => {
                    taken[2] += 1;
                    prop_assert_eq!(said.messages.len(), 1);
                    prop_assert_eq!(said.messages[0].0, Recipient::Sender);
                }
                InputOutcome::End(_) => ends += 1,
            }
        }
        let counts = engine.counts();
        prop_assert_eq!(taken, [counts.orders, counts.repeats, counts.malformed]);
        prop_assert!(engine.resting() <= 8);
        prop_assert!(ends <= 200);
    }
}

fn order(sequence: u64, side: OrderSide, price: u16, lots: u8) -> NewOrder {
    NewOrder { gateway: gateway(0), side, symbol: Symbol(0), price, lots, sequence: ShortSequence::of(sequence) }
}

#[test]
fn a_trade_of_two_gateways_is_told_to_both_and_answers_the_one_who_came() {
    let mut engine = MatchingEngine::new(rules(1, Matching::Crossing));
    let mut said = EngineAnswers::default();
    let theirs = NewOrder { gateway: gateway(1), ..order(0, OrderSide::Sell, 99, 8) };
    for order in [order(0, OrderSide::Buy, 100, 5), theirs, order(1, OrderSide::Buy, 99, 1)] {
        assert_eq!(engine.process(&order.encode(), &mut said), InputOutcome::Order);
    }
    let told: Vec<String> = said
        .messages
        .iter()
        .map(|(to, message)| match to {
            Recipient::Gateway(gateway) => format!("{gateway}: {message}"),
            Recipient::All => format!("all: {message}"),
            Recipient::Sender => format!("sender: {message}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "0: confirmation gateway=0 number=0 sequence=0",
            "all: quote symbol=0 number=0 bid=100 ask=none",
            "1: trade number=0 symbol=0 price=100 lots=5 sell taker=1:0 maker=0:0 answers",
            "0: trade number=1 symbol=0 price=100 lots=5 sell taker=1:0 maker=0:0 answers",
            "all: quote symbol=0 number=1 bid=none ask=99",
            "0: trade number=2 symbol=0 price=99 lots=1 buy taker=0:1 maker=1:0 answers",
            "1: trade number=1 symbol=0 price=99 lots=1 buy taker=0:1 maker=1:0 answers",
        ]
    );
}

#[test]
fn what_is_wrong_with_an_order_is_its_answer_and_is_counted() {
    let mut engine = MatchingEngine::new(EngineRules { resting_book_max: 1, ..rules(2, Matching::Crossing) });
    let good = order(0, OrderSide::Buy, 100, 5);
    let mut said = EngineAnswers::default();
    for (sequence, wrong) in [
        NewOrder { symbol: Symbol(2), ..good },
        NewOrder { price: 0, ..good },
        NewOrder { price: 16_384, ..good },
        NewOrder { lots: 0, ..good },
        good,
        good,
    ]
    .into_iter()
    .enumerate()
    {
        let bytes = NewOrder { sequence: ShortSequence::of(sequence as u64), ..wrong }.encode();
        assert_eq!(engine.process(&bytes, &mut said), InputOutcome::Order);
        assert_eq!(engine.process(&bytes, &mut EngineAnswers::default()), InputOutcome::Repeat, "it has been answered");
    }
    let found: Vec<_> = said
        .messages
        .iter()
        .filter_map(|&(to, message)| match message {
            MarketMessage::Reject(OrderReject { gateway, number, sequence, reason }) => {
                assert_eq!(to, Recipient::Gateway(gateway));
                Some((number.bits(), sequence.bits(), reason))
            }
            MarketMessage::Confirmation(OrderConfirmation { number, sequence, .. }) => {
                assert_eq!((number.bits(), sequence.bits()), (4, 4));
                None
            }
            _ => None,
        })
        .collect();
    let expected = [
        (0, 0, RejectReason::Symbol),
        (1, 1, RejectReason::Price),
        (2, 2, RejectReason::Price),
        (3, 3, RejectReason::Quantity),
        (5, 5, RejectReason::BookFull),
    ];
    assert_eq!(found, expected);
    assert_eq!((engine.counts().rejects, engine.counts().orders, engine.counts().confirmations), (5, 6, 1));
}

#[test]
fn what_is_no_order_is_rejected_to_whoever_sent_it_and_has_no_number() {
    let mut engine = MatchingEngine::new(rules(1, Matching::Crossing));
    let mut said = EngineAnswers::default();
    let quote = MarketMessage::Quote(market::Quote { symbol: Symbol(0), bid: None, ask: None, number: 0 }).encode();
    for (bytes, reason) in [
        (&[][..], RejectReason::Length),
        (&[0x10, 0, 0][..], RejectReason::Length),
        (&[0xF0; 9][..], RejectReason::Kind),
        (&quote[..], RejectReason::NotAnOrder),
        // A trade without lots.
        (&[0x30, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], RejectReason::NotAnOrder),
    ] {
        said.messages.clear();
        assert_eq!(engine.process(bytes, &mut said), InputOutcome::Malformed, "{bytes:?}");
        let nobody = ShortSequence::default();
        let reject = OrderReject { gateway: gateway(0), number: nobody, sequence: nobody, reason };
        assert_eq!(said.messages, [(Recipient::Sender, MarketMessage::Reject(reject))]);
        assert!(!reason.names_an_order());
    }
    assert_eq!((engine.counts().malformed, engine.answered(gateway(0))), (5, 0));
}

#[test]
fn sequence_numbers_go_on_where_those_of_messages_begin_anew() {
    const BEFORE: u64 = (1 << 24) - 2;
    let mut engine = MatchingEngine::new(rules(1, Matching::Exact));
    let mut said = EngineAnswers::default();
    let last = |count| MarketMessage::End(EndOfStream { gateway: gateway(0), count, checksum: 0 });
    // An end of stream of an impossible gateway ends nothing.
    for count in [ORDERS_IN_FLIGHT_MAX + 1, BEFORE, u64::MAX] {
        assert_eq!(engine.process(&last(count).encode(), &mut said), InputOutcome::Malformed);
    }
    let arrived: Vec<u64> = (1..4).map(|part| part * ORDERS_IN_FLIGHT_MAX).collect();
    for &sequence in &arrived {
        assert_eq!(engine.process(&order(sequence, OrderSide::Buy, 5, 1).encode(), &mut said), InputOutcome::Order);
    }
    assert_eq!(engine.process(&last(BEFORE).encode(), &mut said), InputOutcome::End(gateway(0)));
    assert_eq!(engine.process(&last(BEFORE - 1).encode(), &mut said), InputOutcome::Malformed);
    let missed: Vec<u64> = arrived.iter().copied().chain([BEFORE]).collect();
    assert_eq!(said.gaps.iter().map(|(_, gap)| gap.until).collect::<Vec<_>>(), missed);
    assert_eq!(engine.counts().missing, BEFORE - arrived.len() as u64);
    for sequence in BEFORE..BEFORE + 5 {
        assert_eq!(engine.process(&order(sequence, OrderSide::Buy, 5, 1).encode(), &mut said), InputOutcome::Order);
    }
    assert_eq!(engine.sent(gateway(0)), BEFORE + 5);
    for sequence in BEFORE..BEFORE + 5 {
        assert_eq!(engine.process(&order(sequence, OrderSide::Buy, 5, 1).encode(), &mut said), InputOutcome::Repeat);
    }
    assert_eq!(said.gaps.len(), missed.len());
}

#[test]
fn an_end_of_stream_changes_no_order_behind_it() {
    // Ends are not in the journal: the engine built from it must give each order the number that this one gave it.
    let mut engine = MatchingEngine::new(rules(1, Matching::Exact));
    let (mut said, mut journal) = (EngineAnswers::default(), Vec::new());
    let end = |count| MarketMessage::End(EndOfStream { gateway: gateway(0), count, checksum: 0 }).encode();
    let mut take = |engine: &mut MatchingEngine, sequence, outcome| {
        let entry = order(sequence, OrderSide::Buy, 5, 1).encode();
        assert_eq!(engine.process(&entry, &mut said), outcome, "{sequence}");
        if outcome.is_journaled() {
            journal.push(entry);
        }
    };
    const MAX: u64 = ORDERS_IN_FLIGHT_MAX;
    for part in 1..5 {
        take(&mut engine, part * MAX, InputOutcome::Order);
    }
    assert_eq!(engine.process(&end(5 * MAX), &mut EngineAnswers::default()), InputOutcome::End(gateway(0)));
    assert_eq!(engine.gaps(gateway(0)).last(), Some(SequenceGap { from: 4 * MAX + 1, until: 5 * MAX }));
    // Of what was announced: the next one, and one with a gap before it; one again; the one behind what was announced.
    take(&mut engine, 4 * MAX + 1, InputOutcome::Order);
    take(&mut engine, 4 * MAX + 9, InputOutcome::Order);
    take(&mut engine, 4 * MAX + 1, InputOutcome::Repeat);
    take(&mut engine, 5 * MAX, InputOutcome::Order);
    let missing = 5 * MAX + 1 - 7;
    assert_eq!((engine.counts().missing - engine.counts().late, engine.counts().late), (missing, 2));
    assert_eq!(engine.gaps(gateway(0)).map(SequenceGap::orders).sum::<u64>(), missing);
    // This one is nearer to the orders that arrived than to those that are announced, if it is one of before.
    assert_eq!(engine.process(&end(6 * MAX), &mut EngineAnswers::default()), InputOutcome::End(gateway(0)));
    take(&mut engine, 4 * MAX - 2, InputOutcome::Order);
    let mut again = MatchingEngine::new(rules(1, Matching::Exact));
    for entry in &journal {
        assert_eq!(again.replay(entry, &mut EngineAnswers::default()), Ok(()));
    }
    assert_eq!(again.orders_checksum(gateway(0)), engine.orders_checksum(gateway(0)));
    assert_eq!(again.sent(gateway(0)), 5 * MAX + 1, "what was only announced is not in the journal");
}

#[test]
fn of_too_many_gaps_the_oldest_is_forgotten() {
    let mut engine = MatchingEngine::new(rules(1, Matching::Exact));
    let mut said = EngineAnswers::default();
    for sequence in (1..).step_by(2).take(GAPS_MAX + 1) {
        assert_eq!(engine.process(&order(sequence, OrderSide::Buy, 5, 1).encode(), &mut said), InputOutcome::Order);
    }
    assert_eq!(engine.gaps(gateway(0)).count(), GAPS_MAX);
    assert_eq!(engine.process(&order(0, OrderSide::Buy, 5, 1).encode(), &mut said), InputOutcome::Repeat);
    assert_eq!(engine.process(&order(2, OrderSide::Buy, 5, 1).encode(), &mut said), InputOutcome::Order);
    assert_eq!((engine.counts().missing, engine.counts().late), (GAPS_MAX as u64 + 1, 1));
}

#[test]
fn a_journal_of_something_else_is_no_journal() {
    let mut engine = MatchingEngine::new(rules(1, Matching::Exact));
    let entry = order(0, OrderSide::Buy, 5, 1).encode();
    assert_eq!(engine.replay(&entry, &mut EngineAnswers::default()), Ok(()));
    assert_eq!(engine.replay(&entry, &mut EngineAnswers::default()), Err(JournalError(InputOutcome::Repeat)));
    assert_eq!(engine.replay(&[0; 9], &mut EngineAnswers::default()), Err(JournalError(InputOutcome::Malformed)));
}

#[test]
fn a_gateway_has_no_more_orders_under_way_than_can_be_told_apart() {
    let mut outstanding = OutstandingOrders::new(gateway(0), u64::MAX);
    for sequence in 0..ORDERS_IN_FLIGHT_MAX {
        assert_eq!(outstanding.send(sequence), Some(sequence));
    }
    assert_eq!(outstanding.send(0), None);
    let confirmation = |number, sequence| {
        let (number, sequence) = (ShortSequence::of(number), ShortSequence::of(sequence));
        MarketMessage::Confirmation(OrderConfirmation { gateway: gateway(0), number, sequence })
    };
    // Answers may come in any order; the oldest one frees capacity.
    assert_eq!(outstanding.on_message(&confirmation(0, 1)), GatewayEvent::Answer { sequence: 1, sent_ns: 1 });
    assert!(outstanding.is_full());
    assert_eq!(outstanding.on_message(&confirmation(1, 0)), GatewayEvent::Answer { sequence: 0, sent_ns: 0 });
    assert_eq!(outstanding.on_message(&confirmation(1, 0)), GatewayEvent::Repeat);
    assert_eq!(outstanding.on_message(&confirmation(2, 0)), GatewayEvent::Unsolicited);
    assert_eq!(outstanding.send(0), Some(ORDERS_IN_FLIGHT_MAX));
    assert_eq!(outstanding.on_message(&confirmation(5, 7)), GatewayEvent::Answer { sequence: 7, sent_ns: 7 });
    assert_eq!((outstanding.missing(), outstanding.unanswered()), (2, ORDERS_IN_FLIGHT_MAX - 2));
}
