//! Draws a tree with the loads of its brokers and links, animated over the run.
//!
//! A disc fills its ring, a line widens, a bar rises. Style sheets animate the drawing and a checkbox pauses it; with
//! reduced motion and in print the means are shown.

use std::fmt::Write as _;

use desim::{BrokerLoad, SimulationResult, TreeTopology};
use report::page::escaped;

use super::simulation_page::evenly_spaced;
use super::simulation_report::time;

const WIDTH: f64 = 960.0;
const ROW: f64 = 96.0;
const TOP: f64 = 56.0;
const LEFT: f64 = 70.0;
/// Nodes of a level up to which names fit.
const NAMED_MAX: usize = 16;
/// Animation steps.
const SHOWN_MAX: usize = 48;
/// Seconds of the animation.
const SECONDS: u32 = 16;

const STYLE: &str = "
svg.tree { display: block; width: 100%; min-width: 40rem; height: auto; font: 13px system-ui, sans-serif; }
svg.tree text { fill: var(--ink); paint-order: stroke; stroke: var(--ground); stroke-width: 4px; } svg.tree .soft { fill: var(--soft); }
svg.tree .ring { fill: var(--ground); stroke: var(--ink); stroke-width: 1.4; }
svg.tree .disc { fill: #0b4f8a; transform-box: fill-box; transform-origin: center; }
svg.tree .way { stroke: #7d5700; fill: none; }
svg.tree .bar { fill: #a83a00; transform-box: fill-box; transform-origin: bottom; }
svg.tree .past { fill: var(--soft); transform-box: fill-box; transform-origin: left; transform: scaleX(1); }
svg.tree .moves { animation-duration: var(--length); animation-iteration-count: infinite; animation-timing-function: linear; }
#pause:checked ~ .wide .moves { animation-play-state: paused; }
@media (prefers-reduced-motion: reduce) { svg.tree .moves { animation: none !important; } }
@media print { svg.tree .moves { animation: none !important; } svg.tree { min-width: 0; } #pause, label[for=pause] { display: none; } }
";

/// A drawn broker, which may represent several of its level.
struct DrawnNode {
    at: (f64, f64),
    /// Its index among the traced brokers.
    index: usize,
    parent: Option<usize>,
    name: String,
    tooltip: String,
}

/// The drawing and its explanation.
pub(super) fn render(topology: &TreeTopology, outcome: &SimulationResult) -> String {
    let trace = &outcome.trace;
    let frames: Vec<desim::SampleInterval> = trace.intervals().collect();
    let Some(last) = frames.last() else { return "<p>The run is too short to be seen over time.</p>\n".to_owned() };
    let nodes = if trace.is_small() { all(topology, outcome) } else { folded(outcome) };
    let shown = evenly_spaced(frames.len(), SHOWN_MAX);
    let loads: Vec<Vec<BrokerLoad>> =
        nodes.iter().map(|node| shown.iter().map(|&frame| trace.load(frame, node.index)).collect()).collect();
    let most = |of: fn(&BrokerLoad) -> f64| loads.iter().flatten().map(of).fold(0.0, f64::max);
    let (rate_most, queue_most) = (most(|load| load.taken_per_s), most(|load| load.queued));
    let share = |value: f64, most: f64| if most > 0.0 { value / most } else { 0.0 };

    let (radius, thick) = sizes(&nodes);
    let height = TOP + ROW * trace.levels() as f64 + 50.0;
    let (mut style, mut ways, mut discs) = (STYLE.to_owned(), String::new(), String::new());
    _ = writeln!(
        style,
        "svg.tree {{ --length: {SECONDS}s; }}\n@keyframes past {{ from {{ transform: scaleX(0); }} to {{ transform: scaleX(1); }} }}"
    );
    for (number, (node, loads)) in nodes.iter().zip(&loads).enumerate() {
        let (x, y) = node.at;
        let (from_x, from_y) = node.parent.map_or((x, y - ROW * 0.55), |above| nodes[above].at);
        let wide =
            |load: &BrokerLoad| format!("stroke-width: {:.1}px;", 0.8 + 8.0 * share(load.taken_per_s, rate_most));
        let mean = keyframes(&mut style, &format!("way{number}"), loads, wide);
        _ = writeln!(
            ways,
            "<path class=\"way moves\" style=\"animation-name: way{number}; {mean}\" d=\"M{from_x:.1} {from_y:.1}L{x:.1} {y:.1}\"/>"
        );
        let filled =
            |load: &BrokerLoad| format!("transform: scale({:.2}); opacity: {:.0};", load.processor.sqrt(), load.is_up);
        let mean = keyframes(&mut style, &format!("disc{number}"), loads, filled);
        _ = writeln!(
            discs,
            "<g><title>{}</title><circle class=\"ring\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/><circle class=\"disc moves\" style=\"animation-name: disc{number}; {mean}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\"/></g>",
            escaped(&node.tooltip),
            radius - 0.8
        );
        if queue_most > 0.0 {
            let risen = |load: &BrokerLoad| format!("transform: scaleY({:.3});", share(load.queued, queue_most));
            let mean = keyframes(&mut style, &format!("bar{number}"), loads, risen);
            _ = writeln!(
                discs,
                "<rect class=\"bar moves\" style=\"animation-name: bar{number}; {mean}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{thick:.1}\" height=\"34\"/>",
                x + radius + 1.0,
                y - 17.0
            );
        }
        if !node.name.is_empty() {
            _ = writeln!(
                discs,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                y + 30.0,
                escaped(&node.name)
            );
        }
    }
    let mut html = format!("<style>{style}</style>\n");
    html.push_str("<p>A disc fills its ring as the broker's busiest thread is busy, and is gone while the broker is. ");
    _ = write!(
        html,
        "A line widens with the messages that are sent along it, up to {} a second. ",
        report::page::number(Some(rate_most))
    );
    if queue_most > 0.0 {
        _ = write!(html, "The bar beside a broker is its longest queue, {queue_most:.0} messages at its full height. ");
    }
    if !trace.is_small() {
        html.push_str("Three brokers represent each level: those with the minimum, median and maximum load. ");
    }
    _ = writeln!(html, "{} of the run take {SECONDS} s here.</p>", time(last.to_ns as f64));
    html.push_str("<input type=\"checkbox\" id=\"pause\"> <label for=\"pause\">Pause</label>\n");
    _ = writeln!(
        html,
        "<div class=\"wide\">\n<svg class=\"tree\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"The tree with the loads of its brokers and links over time\">"
    );
    _ = writeln!(
        html,
        "<text class=\"soft\" x=\"{:.1}\" y=\"20\" text-anchor=\"middle\">publisher</text>",
        WIDTH / 2.0
    );
    html.push_str(&ways);
    html.push_str(&discs);
    _ = writeln!(
        html,
        "<text class=\"soft\" x=\"{LEFT}\" y=\"{0:.1}\">0</text><text class=\"soft\" x=\"{1:.1}\" y=\"{0:.1}\" text-anchor=\"end\">{2}</text>\n\
         <rect class=\"past moves\" style=\"animation-name: past\" x=\"{LEFT}\" y=\"{3:.1}\" width=\"{4:.1}\" height=\"4\"/>\n</svg>\n</div>",
        height - 6.0,
        WIDTH - LEFT,
        time(last.to_ns as f64),
        height - 28.0,
        WIDTH - 2.0 * LEFT
    );
    html
}

/// The radius of a ring and the width of a bar, so that neighbours do not touch.
fn sizes(nodes: &[DrawnNode]) -> (f64, f64) {
    let mut places: Vec<(f64, f64)> = nodes.iter().map(|node| (node.at.1, node.at.0)).collect();
    places.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let beside = places.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[1].1 - two[0].1);
    let apart = beside.fold(f64::INFINITY, f64::min);
    ((apart * 0.36).min(13.0), (apart * 0.16).min(6.0))
}

/// Writes the keyframes of a load without repetitions, and returns the mean appearance.
fn keyframes(style: &mut String, name: &str, loads: &[BrokerLoad], look: impl Fn(&BrokerLoad) -> String) -> String {
    let looks: Vec<String> = loads.iter().map(&look).collect();
    let last = looks.len().saturating_sub(1);
    _ = write!(style, "@keyframes {name} {{");
    for (at, one) in looks.iter().enumerate() {
        let changes = at == 0 || at == last || looks[at - 1] != *one || looks[at + 1] != *one;
        if changes {
            let percent = if last == 0 { 0.0 } else { at as f64 * 100.0 / last as f64 };
            _ = write!(style, "{percent:.1}%{{{one}}}");
        }
    }
    style.push_str("}\n");
    let mean = |of: fn(&BrokerLoad) -> f64| loads.iter().map(of).sum::<f64>() / loads.len().max(1) as f64;
    look(&BrokerLoad {
        processor: mean(|load| load.processor),
        link: mean(|load| load.link),
        taken_per_s: mean(|load| load.taken_per_s),
        queued: mean(|load| load.queued),
        unread: mean(|load| load.unread),
        is_up: mean(|load| load.is_up).round(),
    })
}

/// Every broker: those of the widest level evenly spaced, the others centred above their children.
fn all(topology: &TreeTopology, outcome: &SimulationResult) -> Vec<DrawnNode> {
    let trace = &outcome.trace;
    let count = topology.brokers() as usize;
    let below = |broker: usize| (0..count).filter(move |&other| topology.parent(other as u32) == Some(broker as u32));
    // The width of a subtree, in brokers without children.
    let mut widths = vec![0.0f64; count];
    for broker in (0..count).rev() {
        widths[broker] = below(broker).map(|child| widths[child]).sum::<f64>().max(1.0);
    }
    let unit = (WIDTH - 2.0 * LEFT) / widths[0];
    let mut from = vec![LEFT; count];
    for broker in 0..count {
        let mut at = from[broker];
        for child in below(broker) {
            from[child] = at;
            at += widths[child] * unit;
        }
    }
    let mut nodes = Vec::new();
    for (place, &broker) in trace.brokers().iter().enumerate() {
        let number = broker as usize;
        let level = topology.level_of(broker);
        let of_level = (0..count).filter(|&other| topology.level_of(other as u32) == level).count();
        let consumers = match topology.consumers_of(broker) {
            0 => String::new(),
            consumers => format!(", {consumers}C"),
        };
        let name = topology.name(broker);
        nodes.push(DrawnNode {
            at: (from[number] + widths[number] * unit / 2.0, TOP + ROW * (f64::from(level) + 0.3)),
            index: place,
            parent: topology.parent(broker).map(|above| above as usize),
            name: if of_level <= NAMED_MAX { format!("{name}{consumers}") } else { String::new() },
            tooltip: format!("{name}{consumers}"),
        });
    }
    nodes
}

/// Three brokers of each level, by the busy time of their threads over the whole run.
fn folded(outcome: &SimulationResult) -> Vec<DrawnNode> {
    let trace = &outcome.trace;
    let frames = trace.intervals().count();
    let mut nodes: Vec<DrawnNode> = Vec::new();
    let mut first = 0;
    for (level, of_level) in outcome.levels.iter().enumerate() {
        let places: Vec<usize> = trace.indexes_of(level).collect();
        let busy = |place: usize| (0..frames).map(|frame| trace.load(frame, place).processor).sum::<f64>();
        let mut order: Vec<(f64, usize)> = places.iter().map(|&place| (busy(place), place)).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let ranks = if order.len() == 1 {
            vec![("", 0)]
        } else {
            vec![("least", 0), ("median", order.len() / 2), ("most", order.len() - 1)]
        };
        let above = first;
        let wide = ranks.len();
        first = nodes.len();
        for (at, (word, rank)) in ranks.into_iter().enumerate() {
            let x = WIDTH * (at as f64 + 1.0) / (wide as f64 + 1.0);
            let brokers = of_level.brokers;
            let is_many = brokers > 1;
            let name = if is_many { format!("level {level}: {word} of {brokers}") } else { "b0".to_owned() };
            // The one of the same rank above, if there are as many.
            let up = if level == 0 { None } else { Some(if first - above == wide { above + at } else { above }) };
            nodes.push(DrawnNode {
                at: (x, TOP + ROW * (level as f64 + 0.3)),
                index: order[rank].1,
                parent: up,
                tooltip: name.clone(),
                name,
            });
        }
    }
    nodes
}
