//! `harrier market sweep`: runs markets at several rates, as in the paper's Figures 8 and 9, and measures its Table 1.
//!
//! A rate that fails does not end the sweep: it is the result that is looked for.

use report::page::PageSection;

use super::market_options::{MarketLoad, TRADING, rate_label, rates};
use super::market_table::{packets, section};
use super::paper_2008;
use super::run_market::{MarketBench, TURNS};
use super::running_market::{MarketRun, trade};
use super::sweep_placements::{PLACEMENTS, SweepPlacements, SweepRun, best};
use crate::limits::MARKET_ORDERS_MAX;
use harness::arguments::{OptionSpec, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::measure_options::{MeasureOptions, OUTPUT, TARGETS};
use harness::run_recorder::check_interrupted;
use harness::target::BenchmarkTarget;
use harness::tcp::TcpOptions;

const OWN: &[OptionSpec] = &[
    option("rates", None, "R,R,…", "orders a second (default 1000,2000,4000,6000,8000,80000,400000)"),
    option("seconds", None, "S", "length of each rate's run (default 5); --orders sets the number of orders instead"),
    option("runs", None, "N", "runs of each rate, interleaved over all brokers (default 1)"),
    option("nagle-table", None, "", "also Table 1: packets with and without Nagle's algorithm at a started broker"),
];

const ABOUT: &str = "\
Runs a market at each of several rates, on one broker or several in turns, and prints what the paper's Figures 8 and 9 show: orders and
answers a second at both ends, order completion time, processors of broker, gateway and engine. --nagle-table adds its Table 1: TCP
segments between the broker and the three programs, their mean size without headers, the mean time between them.";

const EXAMPLES: &[(&str, &str)] = &[
    ("sweep", "the paper's rates, and two far higher ones"),
    (
        "sweep --rates 1000,2000,4000,6000,8000 --orders 1000000",
        "as long as in the paper: eight and a half minutes of sending",
    ),
    (
        "sweep --rates 8000 --runs 5 --against amqp://127.0.0.1:5673 --also-cpus broker=0,publisher=0,consumer=0 --pause-others",
        "two brokers, unrestricted and with everything on one processor; reports where each is fastest",
    ),
    (
        "sweep --against amqp://127.0.0.1:5673 --json sweep.json --html sweep.html",
        "against another broker, with files of the results",
    ),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new(
        "harrier market sweep [OPTIONS]",
        ABOUT,
        &[OWN, PLACEMENTS, TURNS, TRADING, TARGETS, OUTPUT],
        EXAMPLES,
    )
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a program or broker that failed, figures that must not be trusted.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (load, mut setup) = (MarketLoad::read(&given, 100_000)?, MeasureOptions::read(&given)?);
    let usual = format!("{},80000,400000", paper_2008::RATES);
    let rates = rates(given.text("rates").unwrap_or(&usual))?;
    let seconds = given.decimal("seconds", 5.0, 0.1, 3_600.0)?;
    let with_nagle = given.has("nagle-table");
    if with_nagle && given.has("url") {
        return Err(UsageError("--nagle-table starts its own brokers, and excludes --url".to_owned()).into());
    }
    let places = SweepPlacements::read(&given, &setup.placement)?;
    setup.placement = places.at_start();
    let load_at = |rate: Option<f64>| match rate {
        Some(rate) if !given.has("orders") => MarketLoad {
            orders: ((rate * seconds) as u64).clamp(u64::from(load.gateways), MARKET_ORDERS_MAX),
            ..load.clone()
        },
        _ => load.clone(),
    };
    let mut market = MarketBench::begin("sweep", words, &given, setup, load.clone())?;
    let outcome = (|| {
        places.check_movable(&market.targets)?;
        market.letters += places.letters();
        market.print_header()?;
        places.facts().iter().try_for_each(|fact| market.show(&format!("# {fact}\n")))?;
        let mut runs: Vec<SweepRun> = Vec::new();
        for &rate in &rates {
            for _run in 0..market.setup.runs {
                for (place, target) in turns(places.all().len(), market.targets.len()) {
                    let load = load_at(rate);
                    let run = MarketRun { load: &load, rate, file: None, kill_engine_s: None };
                    market.setup.placement = places.all()[place].clone();
                    let figures = market.measure(&run, target)?;
                    market.add_run(rate, target, places.are_several().then_some(&places.all()[place]), &figures);
                    let broker = market.targets[target].name.clone();
                    market.show_row(rate, &places.label(&broker, place), &figures)?;
                    runs.push(SweepRun { rate, broker, placement: place, figures });
                }
            }
        }
        // The measured broker comes first.
        market.setup.placement = places.all()[0].clone();
        let about = paper_2008::ABOUT.map(|line| format!("# {line}\n")).concat();
        let beside: String = rates
            .iter()
            .map(|&rate| format!("#   {:>8} orders/s: {}\n", rate_label(rate), paper_2008::completion(rate)))
            .collect();
        market.show(&format!("{about}# mean completion in the paper, by rate:\n{beside}"))?;
        let best = best(&places, &runs);
        if !best.is_empty() {
            market.show("# p99 completion, medians of the runs, each broker where it is lowest:\n")?;
            best.iter().try_for_each(|line| market.show(&format!("#   {line}\n")))?;
        }
        let facts = paper_2008::ABOUT.map(str::to_owned).into_iter().chain(places.facts()).chain(best).collect();
        let rows: Vec<_> =
            runs.into_iter().map(|run| (run.rate, places.label(&run.broker, run.placement), run.figures)).collect();
        market.section(section("Stock exchange simulation", facts, &rows));
        if with_nagle { nagle(&mut market, &load_at) } else { Ok(()) }
    })();
    market.finish(outcome)
}

/// Every placement with every broker, so that those of one placement follow one another.
fn turns(places: usize, targets: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..places).flat_map(move |place| (0..targets).map(move |target| (place, target)))
}

/// Table 1. As in the paper, only the broker's sockets use Nagle's algorithm.
fn nagle(market: &mut MarketBench, load_at: &dyn Fn(Option<f64>) -> MarketLoad) -> Result<(), CommandFailure> {
    let mut section = PageSection {
        name: "Table 1: packets with and without Nagle's algorithm at the broker".to_owned(),
        facts: vec![
            "TCP segments that the kernel counted on the sockets of gateway, engine and reporter, both ways; bytes without headers.".to_owned(),
            format!("The paper captured packets with their headers at the broker, {} orders each.", paper_2008::ORDERS),
        ],
        columns: [
            "Nagle", "Orders/s", "Packets", "Packets/order", "Bytes each", "us between", "Completion mean us",
            "Paper: packets/order", "Paper: bytes each", "Paper: us between",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: Vec::new(),
    };
    for theirs in paper_2008::PACKETS {
        check_interrupted()?;
        let tcp = TcpOptions { nagle: theirs.nagle, ..TcpOptions::default() };
        let broker = BenchmarkTarget::embedded(None, &tcp.broker_words(), &market.setup.placement.broker)?;
        let load = load_at(Some(theirs.rate));
        let run = MarketRun { load: &load, rate: Some(theirs.rate), file: None, kill_engine_s: None };
        let figures =
            super::market_figures::MarketFigures::of(trade(&run, &broker, &market.setup.placement)?, &load, run.rate);
        let Some([packets, bytes, gap]) = packets(&figures) else {
            return Err(CommandFailure::Failed(
                "the kernel does not count packets: Table 1 is not available".to_owned(),
            ));
        };
        let network_packets = figures.network().map_or(0, |network| network.packets);
        let per_order = |packets: u64, orders: u64| format!("{:.2}", packets as f64 / orders as f64);
        section.rows.push(vec![
            if theirs.nagle { "with" } else { "without" }.to_owned(),
            format!("{:.0}", theirs.rate),
            packets,
            per_order(network_packets, figures.orders()),
            bytes,
            gap,
            format!("{:.1}", figures.completion().mean_us()),
            per_order(theirs.packets, paper_2008::ORDERS),
            theirs.packet_bytes.to_string(),
            theirs.gap_us.to_string(),
        ]);
    }
    market.show(&format!("\n{}", report::section_text::text(&section)))?;
    market.section(section);
    Ok(())
}
