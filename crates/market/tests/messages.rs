//! Encoding and decoding of messages: what is written is read again, and any other bytes are decoded or refused without
//! a panic.

use market::limits::{BUCKETS_MAX, GAPS_MAX, ORDERS_IN_FLIGHT_MAX, PRICE_TICKS_MAX, SYMBOLS_MAX};
use market::{
    EndOfStream, GatewayId, MalformedMessage, MarketMessage, MarketSample, NewOrder, OrderConfirmation, OrderReject,
    OrderSide, Quote, RejectReason, SampleSource, ShortSequence, Symbol, Trade,
};
use proptest::prelude::*;

fn gateway() -> impl Strategy<Value = GatewayId> {
    (0..16usize).prop_map(|number| GatewayId::new(number).expect("there are 16"))
}

fn short() -> impl Strategy<Value = ShortSequence> {
    any::<u64>().prop_map(ShortSequence::of)
}

fn side() -> impl Strategy<Value = OrderSide> {
    prop_oneof![Just(OrderSide::Buy), Just(OrderSide::Sell)]
}

fn symbol() -> impl Strategy<Value = Symbol> {
    any::<u16>().prop_map(Symbol)
}

fn price() -> impl Strategy<Value = u16> {
    1..=PRICE_TICKS_MAX
}

fn message() -> impl Strategy<Value = MarketMessage> {
    let order = (gateway(), side(), symbol(), price(), 1..=u8::MAX, short()).prop_map(
        |(gateway, side, symbol, price, lots, sequence)| {
            MarketMessage::Order(NewOrder { gateway, side, symbol, price, lots, sequence })
        },
    );
    let parties = (gateway(), short(), gateway(), short());
    let trade = (short(), symbol(), price(), 1..=u8::MAX, side(), any::<bool>(), parties).prop_map(
        |(number, symbol, price, lots, side, answers, (taker, taker_sequence, maker, maker_sequence))| {
            let parties =
                Trade { number, symbol, price, lots, side, answers, taker, taker_sequence, maker, maker_sequence };
            MarketMessage::Trade(parties)
        },
    );
    let confirmation = (gateway(), short(), short()).prop_map(|(gateway, number, sequence)| {
        MarketMessage::Confirmation(OrderConfirmation { gateway, number, sequence })
    });
    let best = || prop::option::of(price());
    let quote = (symbol(), best(), best(), any::<u16>())
        .prop_map(|(symbol, bid, ask, number)| MarketMessage::Quote(Quote { symbol, bid, ask, number }));
    let reject = (gateway(), short(), short(), prop::sample::select(&RejectReason::ALL[..])).prop_map(
        |(gateway, number, sequence, reason)| MarketMessage::Reject(OrderReject { gateway, number, sequence, reason }),
    );
    let end = (gateway(), any::<u64>(), any::<u64>())
        .prop_map(|(gateway, count, checksum)| MarketMessage::End(EndOfStream { gateway, count, checksum }));
    prop_oneof![order, trade, confirmation, quote, reject, end]
}

fn sample() -> impl Strategy<Value = MarketSample> {
    let role = prop_oneof![gateway().prop_map(SampleSource::Gateway), Just(SampleSource::Engine)];
    let buckets = prop::collection::btree_map(any::<u64>(), 1..=u64::MAX, 0..50);
    (role, any::<u32>(), any::<[u64; 9]>(), buckets).prop_map(|(role, number, numbers, buckets)| {
        let [at_ns, span_ns, orders, trades, confirmations, rejects, quotes, user_us, system_us] = numbers;
        let completions = buckets.into_iter().collect();
        MarketSample {
            source: role,
            number,
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
    })
}

/// Bytes that may be a message: valid first bytes are more frequent than by chance.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let changed = (message(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(message, at, byte)| {
        let mut bytes = message.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes
    });
    let cut = (message(), 0..20usize).prop_map(|(message, length)| {
        let mut bytes = message.encode().to_vec();
        bytes.resize(length, 0);
        bytes
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..24), changed, cut]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_message_is_read_as_it_was_written(message in message()) {
        let bytes = message.encode();
        prop_assert_eq!(MarketMessage::decode(&bytes), Ok(message));
        if let MarketMessage::Order(order) = message {
            prop_assert_eq!(&order.encode()[..], &bytes[..]);
            prop_assert_eq!(bytes.len(), 9);
        }
        prop_assert!(!message.to_string().contains('\n'));
    }

    #[test]
    fn what_anybody_sends_is_read_in_one_way_or_refused(bytes in anything()) {
        match MarketMessage::decode(&bytes) {
            Ok(message) => prop_assert_eq!(&message.encode()[..], &bytes[..]),
            Err(malformed) => {
                prop_assert!(!malformed.reason.to_string().is_empty());
                // A refused order of the right length still has an identity.
                let order = bytes.len() == 9 && matches!(bytes[0] >> 4, 1 | 2);
                prop_assert_eq!(malformed.order.is_some(), order);
            }
        }
    }

    #[test]
    fn a_sample_carries_its_whole_histogram(sample in sample()) {
        let mut bytes = b"what was there before".to_vec();
        sample.encode(&mut bytes);
        prop_assert_eq!(MarketSample::decode(&bytes), Ok(sample));
    }

    #[test]
    fn a_sample_that_was_changed_is_read_in_one_way_or_refused(
        sample in sample(),
        at: prop::sample::Index,
        byte: u8,
        length: prop::sample::Index,
    ) {
        let mut bytes = Vec::new();
        sample.encode(&mut bytes);
        let changed = at.index(bytes.len());
        bytes[changed] = byte;
        bytes.truncate(length.index(bytes.len() * 4).max(1));
        if let Ok(read) = MarketSample::decode(&bytes) {
            let mut again = Vec::new();
            read.encode(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

#[test]
fn what_is_wrong_has_a_name() {
    let order = NewOrder {
        gateway: GatewayId::new(3).expect("there are 16"),
        side: OrderSide::Sell,
        symbol: Symbol(0x1234),
        price: 0x2345,
        lots: 0x56,
        sequence: ShortSequence::of(0x789ABC),
    };
    let good = order.encode();
    assert_eq!(good, [0x23, 0x12, 0x34, 0x23, 0x45, 0x56, 0x78, 0x9A, 0xBC], "as docs/protocol/market.md has it");
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        bytes.to_vec()
    };
    let named = Some((order.gateway, order.sequence));
    for (bytes, reason, order) in [
        (Vec::new(), RejectReason::Length, None),
        (good[..8].to_vec(), RejectReason::Length, None),
        ([&good[..], &[0]].concat(), RejectReason::Length, None),
        (with(0, 0x03), RejectReason::Kind, None),
        (with(0, 0xF3), RejectReason::Kind, None),
        (with(3, 0x40), RejectReason::Price, named),
        (with(5, 0), RejectReason::Quantity, named),
        ([&good[..3], &[0, 0], &good[5..]].concat(), RejectReason::Price, named),
    ] {
        assert_eq!(MarketMessage::decode(&bytes), Err(MalformedMessage { reason, order }), "{bytes:?}");
    }
}

#[test]
fn the_page_says_what_the_code_does() {
    const PAGE: &str = include_str!("../../../docs/protocol/market.md");
    let gateway = GatewayId::new(3).expect("there are 16");
    let (number, symbol) = (ShortSequence::of(7), Symbol(0x1234));
    let order = NewOrder {
        gateway,
        side: OrderSide::Sell,
        symbol,
        price: 0x2345,
        lots: 0x56,
        sequence: ShortSequence::of(0x789ABC),
    };
    let hex: Vec<String> = order.encode().iter().map(|byte| format!("{byte:02X}")).collect();
    assert!(PAGE.contains(&format!("`{}`", hex.join(" "))), "{hex:?}");
    assert_eq!((order.symbol.0, order.price, order.lots, order.sequence.bits()), (4_660, 9_029, 86, 7_903_932));
    let trade = Trade {
        number,
        symbol,
        price: 1,
        lots: 1,
        side: OrderSide::Buy,
        answers: true,
        taker: gateway,
        taker_sequence: number,
        maker: gateway,
        maker_sequence: number,
    };
    let rows = [
        ("| 1, 2 | order: buy, sell", MarketMessage::Order(order)),
        ("| 3 | trade confirmation", MarketMessage::Trade(trade)),
        (
            "| 4 | order confirmation",
            MarketMessage::Confirmation(OrderConfirmation { gateway, number, sequence: number }),
        ),
        ("| 5 | price quote", MarketMessage::Quote(Quote { symbol, bid: None, ask: None, number: 0 })),
        (
            "| 6 | rejection",
            MarketMessage::Reject(OrderReject { gateway, number, sequence: number, reason: RejectReason::Price }),
        ),
        ("| 9 | end of stream", MarketMessage::End(EndOfStream { gateway, count: 0, checksum: 0 })),
    ];
    for (row, message) in rows {
        let line = PAGE.lines().find(|line| line.starts_with(row)).expect(row);
        assert!(line.ends_with(&format!("| {} |", message.encode().len())), "{line}");
    }
    for reason in RejectReason::ALL {
        let row = format!("| {} | ", reason.number());
        let (_, table) = PAGE.split_once("| reason |").expect("the table of reasons");
        let line = table.lines().find(|line| line.starts_with(&row)).expect("a row for each reason");
        assert_eq!(line.ends_with("| yes |"), reason.names_an_order(), "{line}");
    }
    for (limit, written) in [
        (u64::from(PRICE_TICKS_MAX), "16,383"),
        (ORDERS_IN_FLIGHT_MAX, "4,194,304"),
        (GAPS_MAX as u64, "1,024"),
        (SYMBOLS_MAX as u64, "10,000"),
        (BUCKETS_MAX as u64, "65,536"),
    ] {
        assert_eq!(written.replace(',', "").parse(), Ok(limit));
        assert!(PAGE.contains(written), "{written}");
    }
}

#[test]
fn a_histogram_costs_no_memory_before_it_was_sent() {
    let sample = MarketSample {
        source: SampleSource::Engine,
        number: 0,
        at_ns: 0,
        span_ns: 0,
        orders: 0,
        trades: 0,
        confirmations: 0,
        rejects: 0,
        quotes: 0,
        user_us: 0,
        system_us: 0,
        completions: Vec::new(),
    };
    let mut bytes = Vec::new();
    sample.encode(&mut bytes);
    let head = bytes.len();
    for (buckets, tail, reason) in [
        (1u32, &[][..], RejectReason::Histogram),
        (u32::MAX, &[1, 1], RejectReason::Histogram),
        (BUCKETS_MAX as u32 + 1, &[1; 400_000], RejectReason::Histogram),
        (0, &[0], RejectReason::Length),
        (1, &[1, 0], RejectReason::Histogram),
        (2, &[1, 1, 0, 1], RejectReason::Histogram),
        (1, &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 1], RejectReason::Histogram),
        (1, &[0x80, 0, 1], RejectReason::Histogram),
    ] {
        bytes.truncate(head);
        bytes[head - 4..].copy_from_slice(&buckets.to_be_bytes());
        bytes.extend_from_slice(tail);
        assert_eq!(MarketSample::decode(&bytes), Err(reason), "{buckets} {:?}", &tail[..tail.len().min(12)]);
    }
}
