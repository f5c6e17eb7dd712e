//! The catalogue of the page's figures: those of the 2008 paper, and those that its benchmarks lacked.

use super::axis_scale::ScaleKind;
use crate::metric::{Metric, MetricRole};

pub(super) struct PageChapter {
    pub id: &'static str,
    pub title: &'static str,
    /// A short description of what is measured.
    pub about: &'static str,
    pub figures: Vec<FigureSpec>,
}

/// The specification of a figure.
#[derive(Clone)]
pub(super) struct FigureSpec {
    pub id: String,
    pub title: String,
    /// The corresponding figure of the paper; empty for none.
    pub paper: &'static str,
    /// The benchmarks drawn: names, or their first words.
    pub benchmarks: Vec<String>,
    /// Only ping-pong series, only streams, or both.
    pub ping_pong: Option<bool>,
    /// The horizontal axis.
    pub over: FigureAxis,
    /// How lines and panels are grouped.
    pub lines: LineGrouping,
    /// Parameters that are fixed at the measured value closest to this one.
    pub fixed: Vec<(&'static str, f64)>,
    /// Whether it compares variants by single values.
    pub variants: bool,
    pub metrics: Vec<Metric>,
    pub spread: ScaleKind,
    /// What the figure shows.
    pub about: &'static str,
}

/// The horizontal axis of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FigureAxis {
    /// Message sizes within inclusive bounds.
    Size(f64, f64),
    /// A parameter, or the axis of that name.
    Parameter(&'static str),
    /// The series' own axis.
    Own(String),
    /// Percentiles of a kind of latency.
    Quantiles(String),
}

/// How lines and panels are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineGrouping {
    /// One panel with a line for each broker and network.
    Contestants,
    /// A panel for each broker and network with a line for each value of a parameter.
    Values(&'static str),
    /// A panel for each broker and network with a line for each metric.
    Metrics,
}

const ALL: FigureAxis = FigureAxis::Size(0.0, f64::INFINITY);
/// The largest small message in the paper's figures.
const SMALL_BYTES: f64 = 4_096.0;

fn spec(id: &str, title: &str, benchmarks: &[&str], over: FigureAxis, metric: Metric, spread: ScaleKind) -> FigureSpec {
    FigureSpec {
        id: id.to_owned(),
        title: title.to_owned(),
        paper: "",
        benchmarks: benchmarks.iter().map(|&name| name.to_owned()).collect(),
        ping_pong: None,
        over,
        lines: LineGrouping::Contestants,
        fixed: Vec::new(),
        variants: false,
        metrics: vec![metric],
        spread,
        about: "",
    }
}

/// All chapters in the order of the page.
pub(super) fn chapters() -> Vec<PageChapter> {
    vec![latency(), stream(), pairs(), fanout(), topic(), confirm(), churn(), drain(), open(), order(), trees()]
}

fn latency() -> PageChapter {
    let names = ["de-pp", "sockets", "null"];
    let one_way = || Metric::OneWayMeanUs("round_trip".to_owned());
    let rtt = |quantile| Metric::LatencyUs("round_trip".to_owned(), quantile);
    let small = FigureAxis::Size(0.0, SMALL_BYTES);
    let large = FigureAxis::Size(SMALL_BYTES, f64::INFINITY);
    let base = |id, title, over, metric, spread| FigureSpec {
        ping_pong: Some(true),
        ..spec(id, title, &names, over, metric, spread)
    };
    PageChapter {
        id: "de-pp",
        title: "Latency: DE-PP",
        about: "One publisher sends a message through a direct exchange and waits until the consumer's reply of the same \
                size has come back before it sends the next. Latency is half the mean round trip, as the OSU benchmarks print it.",
        figures: vec![
            FigureSpec {
                paper: "Figure 4 (c)",
                about: "Latency of small messages.",
                ..base("latency-small", "Latency, small messages", small, one_way(), ScaleKind::Linear)
            },
            FigureSpec {
                paper: "Figure 4 (d)",
                about: "Latency of large messages; both axes are logarithmic.",
                ..base("latency-large", "Latency, large messages", large, one_way(), ScaleKind::Log10)
            },
            FigureSpec {
                lines: LineGrouping::Metrics,
                metrics: vec![rtt(0.5), rtt(0.99), rtt(0.999), rtt(1.0)],
                about: "Whole round trips: the middle one and the tail. A percentile stands where the samples can bear it.",
                ..base("latency-tail", "Round trips and their tail", ALL, rtt(0.99), ScaleKind::Log10)
            },
        ],
    }
}

fn stream() -> PageChapter {
    let names = ["de-spsc", "sockets", "null"];
    let base = |id, title, over, metric, spread| FigureSpec {
        ping_pong: Some(false),
        ..spec(id, title, &names, over, metric, spread)
    };
    PageChapter {
        id: "de-spsc",
        title: "One publisher, one consumer: DE-SPSC",
        about: "One publisher sends a fixed number of messages of each size through a direct exchange as fast as it can; \
                the consumer replies once it has them all.",
        figures: vec![
            FigureSpec {
                paper: "Figure 3 (a)–(d)",
                about: "Messages a second; both axes are logarithmic.",
                ..base("rate", "Message rate", ALL, Metric::PublishedPerS, ScaleKind::Log10)
            },
            FigureSpec {
                paper: "Figure 3 (a)–(c)",
                about: "Time a message takes of the stream: the elapsed time divided by the number of messages.",
                ..base("speed", "Time a message", ALL, Metric::UsPerMessage, ScaleKind::Log10)
            },
            FigureSpec {
                paper: "section 4.2 and Figure 4 (a), one pair",
                about: "Bodies delivered, in millions of bytes a second.",
                ..base("bandwidth", "Bandwidth", ALL, Metric::MbPerS, ScaleKind::Linear)
            },
            FigureSpec {
                about: "Processor time of the broker (or relay) for a million deliveries, user space and kernel together.",
                ..base("cpu", "CPU of the broker", ALL, Metric::CpuSPerMillion(MetricRole::Broker), ScaleKind::Log10)
            },
        ],
    }
}

fn pairs() -> PageChapter {
    let base = |id, title, over, metric, spread| spec(id, title, &["de-mpmc"], over, metric, spread);
    PageChapter {
        id: "de-mpmc",
        title: "Many pairs: DE-MPMC",
        about: "Pairs of publisher and consumer, independent of each other, at once through the same direct exchange.",
        figures: vec![
            FigureSpec {
                paper: "Figure 4 (a)",
                lines: LineGrouping::Values("pairs"),
                about: "Bandwidth of all pairs together; a line for each number of pairs.",
                ..base("pairs-bandwidth", "Bandwidth by pairs", ALL, Metric::MbPerS, ScaleKind::Linear)
            },
            FigureSpec {
                fixed: vec![("size_bytes", 64.0)],
                about: "Messages a second of all pairs together.",
                ..base(
                    "pairs-rate",
                    "Message rate by pairs",
                    FigureAxis::Parameter("pairs"),
                    Metric::PublishedPerS,
                    ScaleKind::Linear,
                )
            },
            FigureSpec {
                paper: "Figure 4 (b)",
                lines: LineGrouping::Metrics,
                fixed: vec![("size_bytes", 64.0)],
                metrics: MetricRole::ALL.map(Metric::CpuPercent).to_vec(),
                about: "Processors used, in percent of one, divided by the number of processes of the role: the broker's is \
                        the sum over its threads, a publisher's and a consumer's that of one of them.",
                ..base(
                    "pairs-cpu",
                    "Normalised CPU by pairs",
                    FigureAxis::Parameter("pairs"),
                    Metric::CpuPercent(MetricRole::Broker),
                    ScaleKind::Linear,
                )
            },
        ],
    }
}

fn fanout() -> PageChapter {
    let base = |id, title, over, metric, spread| spec(id, title, &["fe-spmc"], over, metric, spread);
    PageChapter {
        id: "fe-spmc",
        title: "Fan-out: FE-SPMC",
        about: "One publisher, a fanout exchange, and consumers each of which gets every message.",
        figures: vec![
            FigureSpec {
                paper: "Figure 5 (a)",
                fixed: vec![("consumers", 32.0)],
                about: "Bodies delivered at all consumers together.",
                ..base("fanout-bandwidth", "Bandwidth of a wide fan-out", ALL, Metric::MbPerS, ScaleKind::Linear)
            },
            FigureSpec {
                fixed: vec![("size_bytes", 64.0)],
                about: "Deliveries a second at all consumers together.",
                ..base(
                    "fanout-deliveries",
                    "Deliveries by fan-out",
                    FigureAxis::Parameter("consumers"),
                    Metric::DeliveredPerS,
                    ScaleKind::Linear,
                )
            },
            FigureSpec {
                paper: "Figure 5 (b)–(d)",
                lines: LineGrouping::Values("consumers"),
                about: "Messages published a second, each delivered to all consumers; a line for each number of consumers.",
                ..base("fanout-rate", "Message rate by fan-out", ALL, Metric::PublishedPerS, ScaleKind::Log10)
            },
        ],
    }
}

fn topic() -> PageChapter {
    let base = |id, title, over, metric, spread| spec(id, title, &["te-spsc"], over, metric, spread);
    PageChapter {
        id: "te-spsc",
        title: "Topic patterns: TE-SPSC",
        about: "One publisher, a topic exchange with many patterns, of which one matches unless said otherwise.",
        figures: vec![
            FigureSpec {
                paper: "Figure 6 (a)",
                fixed: vec![("patterns", 1_024.0)],
                about: "Bodies delivered, with many patterns bound.",
                ..base("topic-bandwidth", "Bandwidth with many patterns", ALL, Metric::MbPerS, ScaleKind::Linear)
            },
            FigureSpec {
                fixed: vec![("size_bytes", 64.0)],
                about: "Messages a second as patterns grow in number.",
                ..base(
                    "topic-patterns",
                    "Patterns and rate",
                    FigureAxis::Parameter("patterns"),
                    Metric::PublishedPerS,
                    ScaleKind::Linear,
                )
            },
            FigureSpec {
                paper: "Figure 6 (b)–(d)",
                lines: LineGrouping::Values("patterns"),
                about: "Messages a second; a line for each number of patterns.",
                ..base("topic-rate", "Message rate by patterns", ALL, Metric::PublishedPerS, ScaleKind::Log10)
            },
            FigureSpec {
                fixed: vec![("size_bytes", 64.0), ("patterns", 1_024.0)],
                variants: true,
                about: "Every pattern matches, patterns are full of wildcards, or bindings come and go meanwhile: against \
                        the plain case, in which one pattern matches and nothing changes.",
                ..base("topic-variants", "Kinds of patterns", ALL, Metric::PublishedPerS, ScaleKind::Linear)
            },
        ],
    }
}

fn confirm() -> PageChapter {
    let confirm = |quantile| Metric::LatencyUs("confirm".to_owned(), quantile);
    let base = |id, title, metric, spread| spec(id, title, &["confirm"], ALL, metric, spread);
    PageChapter {
        id: "confirm",
        title: "Confirms and acknowledgements",
        about: "The broker confirms every message to its publisher and consumers acknowledge what they get.",
        figures: vec![
            FigureSpec {
                about: "Messages a second, published and confirmed.",
                ..base("confirm-rate", "Message rate with confirms", Metric::PublishedPerS, ScaleKind::Log10)
            },
            FigureSpec {
                lines: LineGrouping::Metrics,
                metrics: vec![confirm(0.5), confirm(0.99), confirm(0.999)],
                about: "From a message's publication to its confirm.",
                ..base("confirm-latency", "Latency of a confirm", confirm(0.5), ScaleKind::Log10)
            },
        ],
    }
}

fn churn() -> PageChapter {
    PageChapter {
        id: "churn",
        title: "Churn",
        about: "Connections, channels and queues, opened and closed one after another.",
        figures: Vec::new(),
    }
}

fn drain() -> PageChapter {
    PageChapter {
        id: "drain",
        title: "A backlog built and drained",
        about: "Messages pile up in a queue while nobody consumes, and then are taken out.",
        figures: Vec::new(),
    }
}

fn open() -> PageChapter {
    let delivery = |quantile| Metric::LatencyUs("delivery".to_owned(), quantile);
    let base =
        |id, title, metric, spread| spec(id, title, &["open"], FigureAxis::Parameter("rate_per_s"), metric, spread);
    PageChapter {
        id: "open",
        title: "Open loop: latency at a rate",
        about: "Messages are sent by a clock, whatever the broker does. Latency counts from when a message was meant to be \
                sent, so that waiting behind a slow broker is part of it.",
        figures: vec![
            FigureSpec {
                lines: LineGrouping::Metrics,
                metrics: vec![delivery(0.5), delivery(0.99), delivery(0.999), delivery(1.0)],
                about: "From the intended moment of sending to delivery, by the rate that was asked for.",
                ..base("open-latency", "Latency by rate", delivery(0.5), ScaleKind::Log10)
            },
            FigureSpec {
                about: "The tail of all brokers side by side: 99 of 100 messages are delivered within this time.",
                ..base("open-tail", "p99 by rate", delivery(0.99), ScaleKind::Log10)
            },
            FigureSpec {
                about: "Deliveries a second for the rate that was asked for: a broker that keeps up delivers what is sent.",
                ..base("open-delivered", "Delivered by rate", Metric::DeliveredPerS, ScaleKind::Linear)
            },
        ],
    }
}

fn order() -> PageChapter {
    let completion = |quantile| Metric::LatencyUs("completion".to_owned(), quantile);
    PageChapter {
        id: "order",
        title: "Order completion",
        about: "Orders go to a matching engine and come back as confirmations or trades.",
        figures: vec![FigureSpec {
            paper: "Figure 8 (b)",
            lines: LineGrouping::Metrics,
            metrics: vec![
                Metric::LatencyMeanUs("completion".to_owned()),
                completion(0.5),
                completion(0.99),
                completion(0.999),
            ],
            about: "From an order's sending to its confirmation or trade, by the rate of orders.",
            ..spec(
                "order-completion",
                "Order completion time",
                &["order"],
                FigureAxis::Parameter("rate_per_s"),
                completion(0.5),
                ScaleKind::Log10,
            )
        }],
    }
}

fn trees() -> PageChapter {
    let base = |id, title, over, metric, spread| spec(id, title, &["topology"], over, metric, spread);
    PageChapter {
        id: "topology",
        title: "Trees of brokers",
        about: "One publisher at the root of a tree of brokers, consumers on its leaves, each of which gets every message. B-2B-4C \
                is a root, two brokers below it, and four consumers, two on each of them. As in the 2009 paper: messages a \
                second are those of one stream, MB/s are those of all consumers together.",
        figures: vec![
            FigureSpec {
                about: "Messages a second of one stream (Figures 6, 9, 12 and 15 of the 2009 paper).",
                ..base(
                    "topology-rate",
                    "Message rate of one stream, small messages",
                    FigureAxis::Size(0.0, SMALL_BYTES),
                    Metric::PublishedPerS,
                    ScaleKind::Log10,
                )
            },
            FigureSpec {
                about: "Bodies delivered to all consumers together (Figures 7, 10, 13 and 16 of the 2009 paper).",
                ..base(
                    "topology-bandwidth",
                    "Delivered bandwidth of all streams, large messages",
                    FigureAxis::Size(SMALL_BYTES, f64::INFINITY),
                    Metric::MbPerS,
                    ScaleKind::Linear,
                )
            },
            FigureSpec {
                about: "Context switches of all brokers together for a thousand deliveries.",
                ..base(
                    "topology-switches",
                    "Context switches of the brokers",
                    ALL,
                    Metric::SwitchesPerThousand(MetricRole::Broker),
                    ScaleKind::Log10,
                )
            },
            FigureSpec {
                about: "Page faults of all brokers together for a thousand deliveries.",
                ..base(
                    "topology-faults",
                    "Page faults of the brokers",
                    ALL,
                    Metric::FaultsPerThousand(MetricRole::Broker),
                    ScaleKind::Log10,
                )
            },
        ],
    }
}

/// A figure for series that no other figure covers.
pub(super) fn plain(id: String, benchmark: &str, axis: &str, metric: Metric) -> FigureSpec {
    let title = format!("{benchmark}: {}", metric.name());
    // Over all sizes, rates fall by orders of magnitude while bandwidth levels off.
    let spread = if axis == "size_bytes" && metric != Metric::MbPerS { ScaleKind::Log10 } else { ScaleKind::Linear };
    FigureSpec {
        benchmarks: vec![benchmark.to_owned()],
        ..spec(&id, &title, &[], FigureAxis::Own(axis.to_owned()), metric, spread)
    }
}

/// The percentile curve of a kind of latency.
pub(super) fn quantiles(id: String, benchmark: &str, kind: &str) -> FigureSpec {
    let metric = Metric::LatencyUs(kind.to_owned(), 0.5);
    FigureSpec {
        benchmarks: vec![benchmark.to_owned()],
        about: "The share of messages that arrived within a time.",
        ..spec(
            &id,
            &format!("{benchmark}: {kind} latency by percentile"),
            &[],
            FigureAxis::Quantiles(kind.to_owned()),
            metric,
            ScaleKind::Log10,
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_figure_of_the_paper_has_its_place_and_anchors_are_unique() {
        let chapters = super::chapters();
        let mut ids: Vec<String> = chapters.iter().map(|chapter| chapter.id.to_owned()).collect();
        let figures: Vec<_> = chapters.into_iter().flat_map(|chapter| chapter.figures).collect();
        ids.extend(figures.iter().map(|figure| figure.id.clone()));
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for paper in ["3 (a)", "4 (a)", "4 (b)", "4 (c)", "4 (d)", "5 (a)", "5 (b)", "6 (a)", "6 (b)", "8 (b)"] {
            assert!(figures.iter().any(|figure| figure.paper.contains(paper)), "Figure {paper}");
        }
    }
}
