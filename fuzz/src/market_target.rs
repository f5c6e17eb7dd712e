//! The target `market`: an engine of the stock exchange is sent any messages, and gateway and reporter hear any.
//!
//! Enters: a byte that chooses the rules, then messages, each behind a byte that says how long it is.
//! Leaves: nothing, or a panic.
//! Owns:   what must hold of every message and of every engine: read in one way or refused, answered once, built again from its journal.
//! Never:  says what trades with what: the oracle of `crates/market/tests` does.

use market::{
    Answers, End, Engine, Gap, Gateway, Matching, Message, ORDER_BYTES, Order, Outstanding, Role, Rules, Sample, Short,
    Side, Symbol, Taken, To, Trade,
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
    let rules = Rules { symbols: SYMBOLS, matching, resting_book_max: RESTING_BOOK_MAX, resting_max: RESTING_MAX };
    let (mut engine, mut said) = (Engine::new(rules), Said::default());
    let mut journal: Vec<[u8; ORDER_BYTES]> = Vec::new();
    let mut listener = Outstanding::new(Gateway::default(), UNDER_WAY);
    while listener.send(0).is_some() {}
    for message in Pieces(messages) {
        read_in_one_way(message);
        sample_in_one_way(message);
        if let Ok(message) = Message::decode(message) {
            // A gateway hears whatever the broker has for it.
            let _heard = listener.hear(&message);
        }
        let before = said.messages.len();
        let taken = engine.take(message, &mut said);
        let answers = answers(&said.messages[before..]);
        match taken {
            Taken::Order => {
                assert_eq!(answers, 1, "an order is answered once: {message:?}");
                journal.push(message.try_into().expect("what is journaled has the length of an order"));
            }
            Taken::Repeat => assert_eq!(said.messages.len(), before, "what comes again is not answered"),
            Taken::Malformed => {
                assert!(matches!(said.messages[before..], [(To::Sender, Message::Reject(_))]), "{:?}", said.messages);
            }
            Taken::End(gateway) => {
                assert!(matches!(said.messages[before..], [(To::Gateway(to), Message::End(_))] if to == gateway));
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
        assert_eq!(Message::decode(&message.encode()), Ok(*message), "what an engine says can be read");
    }
    built_again(&engine, &said, &journal, rules);
}

/// What an engine says.
#[derive(Default)]
struct Said {
    messages: Vec<(To, Message)>,
}

impl Answers for Said {
    fn message(&mut self, to: To, message: &Message) {
        self.messages.push((to, *message));
    }

    fn gap(&mut self, gateway: Gateway, gap: Gap) {
        assert!(gap.from < gap.until, "of gateway {gateway} nothing is missing: {gap:?}");
    }
}

/// How many of these messages answer an order.
fn answers(said: &[(To, Message)]) -> usize {
    let of = |(to, message): &(To, Message)| match message {
        // A trade between two gateways is told to both, and answers the one that came.
        Message::Trade(trade) => trade.answers && *to == To::Gateway(trade.taker),
        Message::Confirmation(_) => true,
        Message::Reject(reject) => reject.reason.names_an_order(),
        _ => false,
    };
    said.iter().filter(|one| of(one)).count()
}

/// What is a message has these bytes and no others; what is none may still name the order that it would have been.
fn read_in_one_way(bytes: &[u8]) {
    match Message::decode(bytes) {
        Ok(message) => {
            assert_eq!(&message.encode()[..], bytes, "{message}");
            assert_eq!(Order::decode(bytes).is_ok(), matches!(message, Message::Order(_)), "{message}");
        }
        Err(malformed) => {
            let is_like_an_order = bytes.len() == ORDER_BYTES && matches!(bytes[0] >> 4, 1 | 2);
            assert_eq!(malformed.order.is_some(), is_like_an_order, "{malformed:?}");
        }
    }
}

/// The same of the reporter's messages.
fn sample_in_one_way(bytes: &[u8]) {
    let Ok(sample) = Sample::decode(bytes) else { return };
    let mut again = Vec::new();
    sample.encode(&mut again);
    assert_eq!(again, bytes, "{sample}");
    assert!(Message::decode(bytes).is_err(), "no bytes are both: {sample}");
}

/// What is in the journal makes the same engine, which says the same; orders that were missing are not in it.
fn built_again(engine: &Engine, said: &Said, journal: &[[u8; ORDER_BYTES]], rules: Rules) {
    let (mut again, mut repeated) = (Engine::new(rules), Said::default());
    for entry in journal {
        again.replay(entry, &mut repeated).expect("what was taken once is taken again");
    }
    let kept = |said: &Said| -> Vec<(To, Message)> {
        let is_kept = |(to, message): &(To, Message)| *to != To::Sender && !matches!(message, Message::End(_));
        said.messages.iter().filter(|one| is_kept(one)).copied().collect()
    };
    assert_eq!(kept(&repeated), kept(said));
    assert_eq!(again.checksum().value(), engine.checksum().value());
    assert_eq!(again.resting(), engine.resting());
}

/// Messages, each behind its length; the last one may be cut off.
struct Pieces<'a>(&'a [u8]);

impl<'a> Iterator for Pieces<'a> {
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
    let gateway = |number| Gateway::new(number).expect("there are 16");
    let order = |number, sequence, side, symbol, price, lots| {
        let sequence = Short::of(sequence);
        Order { gateway: gateway(number), side, symbol: Symbol(symbol), price, lots, sequence }.encode().to_vec()
    };
    let end = |number, count| Message::End(End { gateway: gateway(number), count, checksum: 7 }).encode().to_vec();
    let (buy, sell) = (Side::Buy, Side::Sell);
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
    let (number, symbol) = (Short::of(0), Symbol(1));
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
    let sample = |role, completions| {
        let (mut bytes, [at_ns, span_ns, orders]) = (Vec::new(), [3, 2, 1]);
        let (trades, confirmations, rejects, quotes, user_us, system_us) = (1, 2, 3, 4, 5, 6);
        Sample {
            role,
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
        Message::Trade(trade).encode().to_vec(),
        vec![0x40, 0, 0, 1, 0, 0, 1],
        vec![0x50, 0, 1, 0, 99, 0, 100, 0, 0],
        vec![0x60, 0, 0, 2, 0, 0, 2, 4],
        sample(Role::Gateway(gateway(0)), vec![(1, 1), (90_000, 300)]),
        sample(Role::Engine, Vec::new()),
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
