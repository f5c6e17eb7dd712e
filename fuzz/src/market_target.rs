//! The target `market`: an engine of the stock exchange is sent any messages, and gateway and reporter hear any.
//!
//! Enters: a byte that chooses the rules, then messages, each behind a byte that says how long it is.
//! Leaves: nothing, or a panic.
//! Owns:   what must hold of every message and of every engine: read in one way or refused, answered once, built again from its journal.
//! Never:  says what trades with what: the oracle of `crates/market/tests` does.

use market::{
    EndOfStream, EngineRules, GatewayId, InputOutcome, MarketMessage, MarketSample, Matching, MatchingEngine,
    MessageSink, NewOrder, ORDER_BYTES, OrderSide, OutstandingOrders, Recipient, SampleSource, SequenceGap,
    ShortSequence, Symbol, Trade,
};

/// Few, so that books fill up, orders meet and symbols are unknown.
const SYMBOLS: u16 = 3;
const RESTING_BOOK_MAX: u32 = 4;
const RESTING_MAX: u32 = 8;
/// Orders that the gateway which listens has under way.
const UNDER_WAY: u64 = 16;

/// Panics if a message or what an engine makes of it breaks a promise.
pub fn check(bytes: &[u8]) {
    let Some((&how, messages)) = bytes.split_first() else { return };
    let matching = if how & 1 == 0 { Matching::Crossing } else { Matching::Exact };
    let rules =
        EngineRules { symbols: SYMBOLS, matching, resting_book_max: RESTING_BOOK_MAX, resting_max: RESTING_MAX };
    let (mut engine, mut said) = (MatchingEngine::new(rules), SentMessages::default());
    let mut journal: Vec<[u8; ORDER_BYTES]> = Vec::new();
    let mut listener = OutstandingOrders::new(GatewayId::default(), UNDER_WAY);
    while listener.send(0).is_some() {}
    for message in LengthPrefixed(messages) {
        read_in_one_way(message);
        sample_in_one_way(message);
        if let Ok(message) = MarketMessage::decode(message) {
            // A gateway hears whatever the broker has for it.
            let _event = listener.on_message(&message);
        }
        let before = said.messages.len();
        let taken = engine.process(message, &mut said);
        let answers = answers(&said.messages[before..]);
        match taken {
            InputOutcome::Order => {
                assert_eq!(answers, 1, "an order is answered once: {message:?}");
                journal.push(message.try_into().expect("what is journaled has the length of an order"));
            }
            InputOutcome::Repeat => assert_eq!(said.messages.len(), before, "what comes again is not answered"),
            InputOutcome::Malformed => {
                assert!(
                    matches!(said.messages[before..], [(Recipient::Sender, MarketMessage::Reject(_))]),
                    "{:?}",
                    said.messages
                );
            }
            InputOutcome::End(gateway) => {
                assert!(
                    matches!(said.messages[before..], [(Recipient::Gateway(to), MarketMessage::End(_))] if to == gateway)
                );
            }
        }
        assert!(engine.resting() <= RESTING_MAX);
        if matching == Matching::Crossing {
            (0..SYMBOLS).for_each(|symbol| match engine.best(Symbol(symbol)) {
                (Some(bid), Some(ask)) => assert!(bid < ask, "symbol {symbol} is crossed: {bid} {ask}"),
                _ => {}
            });
        }
    }
    for (_, message) in &said.messages {
        assert_eq!(MarketMessage::decode(&message.encode()), Ok(*message), "what an engine says can be read");
    }
    built_again(&engine, &said, &journal, rules);
}

/// What an engine says.
#[derive(Default)]
struct SentMessages {
    messages: Vec<(Recipient, MarketMessage)>,
}

impl MessageSink for SentMessages {
    fn message(&mut self, to: Recipient, message: &MarketMessage) {
        self.messages.push((to, *message));
    }

    fn gap(&mut self, gateway: GatewayId, gap: SequenceGap) {
        assert!(gap.from < gap.until, "of gateway {gateway} nothing is missing: {gap:?}");
    }
}

/// How many of these messages answer an order.
fn answers(said: &[(Recipient, MarketMessage)]) -> usize {
    let of = |(to, message): &(Recipient, MarketMessage)| match message {
        // A trade between two gateways is told to both, and answers the one that came.
        MarketMessage::Trade(trade) => trade.answers && *to == Recipient::Gateway(trade.taker),
        MarketMessage::Confirmation(_) => true,
        MarketMessage::Reject(reject) => reject.reason.names_an_order(),
        _ => false,
    };
    said.iter().filter(|one| of(one)).count()
}

/// What is a message has these bytes and no others; what is none may still name the order that it would have been.
fn read_in_one_way(bytes: &[u8]) {
    match MarketMessage::decode(bytes) {
        Ok(message) => {
            assert_eq!(&message.encode()[..], bytes, "{message}");
            assert_eq!(NewOrder::decode(bytes).is_ok(), matches!(message, MarketMessage::Order(_)), "{message}");
        }
        Err(malformed) => {
            let is_like_an_order = bytes.len() == ORDER_BYTES && matches!(bytes[0] >> 4, 1 | 2);
            assert_eq!(malformed.order.is_some(), is_like_an_order, "{malformed:?}");
        }
    }
}

/// The same of the reporter's messages.
fn sample_in_one_way(bytes: &[u8]) {
    let Ok(sample) = MarketSample::decode(bytes) else { return };
    let mut again = Vec::new();
    sample.encode(&mut again);
    assert_eq!(again, bytes, "{sample}");
    assert!(MarketMessage::decode(bytes).is_err(), "no bytes are both: {sample}");
}

/// What is in the journal makes the same engine, which says the same; orders that were missing are not in it.
fn built_again(engine: &MatchingEngine, said: &SentMessages, journal: &[[u8; ORDER_BYTES]], rules: EngineRules) {
    let (mut again, mut repeated) = (MatchingEngine::new(rules), SentMessages::default());
    for entry in journal {
        again.replay(entry, &mut repeated).expect("what was taken once is taken again");
    }
    let kept = |said: &SentMessages| -> Vec<(Recipient, MarketMessage)> {
        let is_kept = |(to, message): &(Recipient, MarketMessage)| {
            *to != Recipient::Sender && !matches!(message, MarketMessage::End(_))
        };
        said.messages.iter().filter(|one| is_kept(one)).copied().collect()
    };
    assert_eq!(kept(&repeated), kept(said));
    assert_eq!(again.checksum().value(), engine.checksum().value());
    assert_eq!(again.resting(), engine.resting());
}

/// Messages, each behind its length; the last one may be cut off.
struct LengthPrefixed<'a>(&'a [u8]);

impl<'a> Iterator for LengthPrefixed<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&length, rest) = self.0.split_first()?;
        let (piece, rest) = rest.split_at(usize::from(length).min(rest.len()));
        self.0 = rest;
        Some(piece)
    }
}

/// An input of these messages.
fn input(how: u8, messages: &[Vec<u8>]) -> Vec<u8> {
    let pieces = messages.iter().flat_map(|message| [&[message.len() as u8], message.as_slice()].concat());
    [how].into_iter().chain(pieces).collect()
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let gateway = |number| GatewayId::new(number).expect("there are 16");
    let order = |number, sequence, side, symbol, price, lots| {
        let sequence = ShortSequence::of(sequence);
        NewOrder { gateway: gateway(number), side, symbol: Symbol(symbol), price, lots, sequence }.encode().to_vec()
    };
    let end = |number, count| {
        MarketMessage::End(EndOfStream { gateway: gateway(number), count, checksum: 7 }).encode().to_vec()
    };
    let (buy, sell) = (OrderSide::Buy, OrderSide::Sell);
    let two = [
        order(0, 0, buy, 1, 100, 5),
        order(1, 0, buy, 1, 101, 5),
        order(0, 1, sell, 1, 100, 7),
        order(1, 1, sell, 2, 9, 1),
        end(0, 2),
        end(1, 2),
    ];
    let full = (0..12).map(|at| order(0, at, buy, (at / 5) as u16, 100 + at as u16, 1)).collect::<Vec<_>>();
    let astray = [
        order(0, 3, buy, 1, 100, 5),
        order(0, 1, sell, 1, 100, 5),
        order(0, 3, buy, 1, 100, 5),
        order(0, 9, buy, SYMBOLS, 100, 5),
        order(0, 10, buy, 0, 0, 5),
        order(0, 11, buy, 0, 1, 0),
        end(0, 1),
        end(0, 40),
        vec![0x10],
        vec![0xF0; ORDER_BYTES],
        Vec::new(),
    ];
    let (number, symbol) = (ShortSequence::of(0), Symbol(1));
    let (taker, maker) = (gateway(0), gateway(1));
    let (price, lots, side, answers) = (100, 5, buy, true);
    let trade = Trade {
        number,
        symbol,
        price,
        lots,
        side,
        answers,
        taker,
        taker_sequence: number,
        maker,
        maker_sequence: number,
    };
    let sample = |source, completions| {
        let (mut bytes, [at_ns, span_ns, orders]) = (Vec::new(), [3, 2, 1]);
        let (trades, confirmations, rejects, quotes, user_us, system_us) = (1, 2, 3, 4, 5, 6);
        MarketSample {
            source,
            number: 1,
            at_ns,
            span_ns,
            orders,
            trades,
            confirmations,
            rejects,
            quotes,
            user_us,
            system_us,
            completions,
        }
        .encode(&mut bytes);
        bytes
    };
    let heard = [
        MarketMessage::Trade(trade).encode().to_vec(),
        vec![0x40, 0, 0, 1, 0, 0, 1],
        vec![0x50, 0, 1, 0, 99, 0, 100, 0, 0],
        vec![0x60, 0, 0, 2, 0, 0, 2, 4],
        sample(SampleSource::Gateway(gateway(0)), vec![(1, 1), (90_000, 300)]),
        sample(SampleSource::Engine, Vec::new()),
    ];
    let mut all = Vec::new();
    for (name, messages) in
        [("two-gateways", &two[..]), ("full", &full), ("astray", &astray), ("what-others-say", &heard)]
    {
        all.push((format!("crossing-{name}"), input(0, messages)));
        all.push((format!("exact-{name}"), input(1, messages)));
    }
    all
}
