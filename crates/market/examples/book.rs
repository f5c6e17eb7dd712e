//! Benchmark of the book alone, of the engine, and of the flow of orders: orders per second of processor time, which
//! other programs affect only through the caches, and of wall-clock time, which is meaningful on a quiet machine only.
//!
//! The argument is the number of million orders of a run (default 4); each case prints the median of several runs.
//!
//! `cargo run --release -p harrier-market --example book`

use market::limits::{RESTING_BOOK_MAX, RESTING_MAX};
use market::order_book::{IncomingOrder, OrderBook, RestingOrders};
use market::{
    EngineRules, GatewayId, MarketMessage, Matching, MatchingEngine, MessageSink, ORDER_BYTES, OrderFlow,
    OrderFlowRules, OrderId, Recipient,
};
use std::hint::black_box;
use std::time::Instant;

const RUNS: usize = 7;
const SYMBOLS: [u16; 3] = [1, 100, 1_000];

fn flow(symbols: u16, matching: Matching) -> OrderFlow {
    OrderFlow::new(OrderFlowRules { seed: 2008, gateway: GatewayId::default(), symbols, shared_by: 1, matching })
}

/// Processor time of this thread. The kernel updates it at each tick, so it is exact to some milliseconds.
fn processor_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says how long a thread has run");
    let first = stat.split(' ').next().and_then(|number| number.parse().ok());
    first.expect("the first number is that of nanoseconds")
}

#[expect(clippy::disallowed_methods, reason = "this is what is measured")]
fn wall() -> Instant {
    Instant::now()
}

/// Runs a case several times, each with a new subject from `new`, and prints the medians and the last run's summary.
fn measure<T>(case: &str, orders: usize, mut new: impl FnMut() -> T, mut run: impl FnMut(&mut T) -> String) {
    let (mut by_processor, mut by_wall) = (Vec::new(), Vec::new());
    let mut said = String::new();
    for _ in 0..RUNS {
        let mut subject = new();
        let (began, start) = (wall(), processor_ns());
        said = run(&mut subject);
        by_processor.push(orders as f64 / (processor_ns() - start) as f64 * 1e3);
        by_wall.push(orders as f64 / began.elapsed().as_nanos() as f64 * 1e3);
    }
    let shown = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        format!("{:>6.1} ({:.1} to {:.1})", rates[RUNS / 2], rates[0], rates[RUNS - 1])
    };
    println!("{case:<44} M/s: {}, by the wall clock {}{said}", shown(&mut by_processor), shown(&mut by_wall));
}

/// Counts messages and their encoded bytes.
#[derive(Default)]
struct MessageCounter {
    messages: u64,
    bytes: u64,
}

impl MessageSink for MessageCounter {
    fn message(&mut self, to: Recipient, message: &MarketMessage) {
        black_box(to);
        self.messages += 1;
        self.bytes += black_box(message.encode()).len() as u64;
    }
}

fn main() {
    let millions = std::env::args().nth(1).map_or(Ok(4), |text| text.parse::<usize>());
    let Ok(millions @ 1..=100) = millions else {
        eprintln!("how many million orders a run has: 1 to 100");
        std::process::exit(2);
    };
    let orders = millions * 1_000_000;
    for matching in [Matching::Exact, Matching::Crossing] {
        for symbols in SYMBOLS {
            let of = |what: &str| format!("{what}, {matching}, {symbols} symbols");
            flow_alone(&of("flow"), orders, || flow(symbols, matching));
            book_alone(&of("book alone"), orders, flow(symbols, matching), symbols, matching);
            whole_engine(&of("engine, bytes to bytes"), orders, flow(symbols, matching), symbols, matching);
        }
    }
}

/// Orders that are processed before the measurement, to fill books and memory.
fn warm_up(orders: usize) -> usize {
    orders / 4
}

fn flow_alone(case: &str, orders: usize, new: impl FnMut() -> OrderFlow) {
    measure(case, orders, new, |flow| {
        for order in flow.take(orders) {
            black_box(order);
        }
        String::new()
    });
}

fn book_alone(case: &str, orders: usize, flow: OrderFlow, symbols: u16, matching: Matching) {
    let entries: Vec<(u16, IncomingOrder)> = flow
        .take(warm_up(orders) + orders)
        .enumerate()
        .map(|(at, order)| {
            let id = OrderId::new(order.gateway, at as u64);
            let lots = u32::from(order.lots);
            (order.symbol.0, IncomingOrder { order: id, side: order.side, price: order.price, lots })
        })
        .collect();
    let run = |books: &mut [OrderBook], resting: &mut RestingOrders, entries: &[(u16, IncomingOrder)]| {
        let mut trades = 0u64;
        for &(symbol, incoming) in entries {
            let outcome = books[usize::from(symbol)].submit(resting, incoming, matching, &mut |deal| {
                black_box(deal);
                trades += 1;
            });
            black_box(outcome);
        }
        trades
    };
    let (first, rest) = entries.split_at(entries.len() - orders);
    let new = || {
        let mut books: Vec<OrderBook> = (0..symbols).map(|number| OrderBook::new(number, RESTING_BOOK_MAX)).collect();
        let mut resting = RestingOrders::new(RESTING_MAX);
        run(&mut books, &mut resting, first);
        (books, resting)
    };
    measure(case, orders, new, |(books, resting)| {
        let trades = run(books, resting, rest);
        format!("; {:.2} trades an order, {} rest", trades as f64 / orders as f64, resting.count())
    });
}

fn whole_engine(case: &str, orders: usize, flow: OrderFlow, symbols: u16, matching: Matching) {
    let bytes: Vec<[u8; ORDER_BYTES]> = flow.take(warm_up(orders) + orders).map(|order| order.encode()).collect();
    let run = |engine: &mut MatchingEngine, bytes: &[[u8; ORDER_BYTES]]| {
        let mut sent = MessageCounter::default();
        for order in bytes {
            let _ = black_box(engine.process(order, &mut sent));
        }
        sent
    };
    let (first, rest) = bytes.split_at(warm_up(orders));
    let new = || {
        let mut engine = MatchingEngine::new(EngineRules { symbols, matching, ..EngineRules::default() });
        run(&mut engine, first);
        engine
    };
    measure(case, orders, new, |engine| {
        let sent = run(engine, rest);
        let (mean, each) = (sent.bytes as f64 / sent.messages as f64, sent.messages as f64 / orders as f64);
        format!("; {each:.2} messages an order, {mean:.1} bytes each, {:016x}", engine.checksum().value())
    });
}
