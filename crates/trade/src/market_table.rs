//! Rows of market runs, for a terminal and for the page: the columns of the paper's Figures 8 and 9, and quantiles of
//! the completion time.

use report::page::{PageSection, number};

use super::market_figures::MarketFigures;
use super::market_options::rate_label;

const COLUMNS: [(&str, &str); 12] = [
    ("Orders/s", "sent"),
    ("Orders/s", "engine"),
    ("Answers/s", "engine"),
    ("Answers/s", "gateway"),
    ("Completion", "mean us"),
    ("Completion", "p50 us"),
    ("Completion", "p99 us"),
    ("Completion", "p99.9 us"),
    ("Completion", "max us"),
    ("CPU %", "broker"),
    ("CPU %", "gateway"),
    ("CPU %", "engine"),
];

/// The two header lines; the longest broker name has `letters` letters.
pub(super) fn head(letters: usize) -> String {
    let line = |first: &str, second: &str, pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let mut text = format!("# {first:<9}{second:<letters$} ");
        COLUMNS.iter().for_each(|column| text.push_str(&format!("{:>12}", pick(column))));
        text + "\n"
    };
    line("Rate", "Broker", |column| column.0) + &line("", "", |column| column.1)
}

pub(super) fn row(rate: Option<f64>, broker: &str, letters: usize, figures: &MarketFigures) -> String {
    let mut text = format!("{:<11}{broker:<letters$} ", rate_label(rate));
    cells(figures).iter().for_each(|cell| text.push_str(&format!("{cell:>12}")));
    let complaint = figures.invalid().first().map_or_else(String::new, |why| format!("  INVALID: {why}"));
    format!("{}{complaint}\n", text.trim_end())
}

fn cells(figures: &MarketFigures) -> Vec<String> {
    let completion = figures.completion();
    let quantile = |share: f64| completion.supported_quantile_us(share).map_or("-".to_owned(), |us| format!("{us:.1}"));
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1}", share * 100.0));
    let mut cells: Vec<String> =
        [figures.sent_per_s(), figures.taken_per_s(), figures.answered_per_s(), figures.received_per_s()]
            .iter()
            .map(|rate| format!("{rate:.0}"))
            .collect();
    cells.push(if completion.count() > 0 { format!("{:.1}", completion.mean_us()) } else { "-".to_owned() });
    cells.extend([0.5, 0.99, 0.999, 1.0].map(quantile));
    cells.extend([figures.broker_share(), figures.gateways_share(), figures.engine_share()].map(percent));
    cells
}

/// The table for the page.
pub(super) fn section(name: &str, facts: Vec<String>, rows: &[(Option<f64>, String, MarketFigures)]) -> PageSection {
    let columns = ["Orders/s, asked", "Broker"].map(str::to_owned).into_iter();
    PageSection {
        name: name.to_owned(),
        facts,
        columns: columns.chain(COLUMNS.iter().map(|(above, below)| format!("{above}, {below}"))).collect(),
        rows: rows
            .iter()
            .map(|(rate, broker, figures)| {
                [rate_label(*rate), broker.clone()].into_iter().chain(cells(figures)).collect()
            })
            .collect(),
    }
}

/// Network traffic as in the paper's Table 1.
pub(super) fn packets(figures: &MarketFigures) -> Option<[String; 3]> {
    let network = figures.network()?;
    Some([
        network.packets.to_string(),
        number(network.packet_bytes()),
        number(network.packet_gap_us(figures.elapsed_s())),
    ])
}
