//! The measurements of the 2009 paper, from `paper-2009.csv`.

use crate::Observation;
use topology::Tree;

const FILE: &str = include_str!("paper-2009.csv");
/// Tables of messages from this size on count bytes, not messages.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// One number of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperCell {
    /// The number of its table, from 1.
    pub table: u32,
    /// One of [`EXPERIMENTS`].
    pub experiment: &'static str,
    /// In the paper's notation.
    pub topology: &'static str,
    pub size_bytes: usize,
    /// Messages a second of one stream, or MB/s at all consumers together.
    pub value: f64,
}

/// All numbers, in the paper's order.
pub fn cells() -> Vec<PaperCell> {
    FILE.lines().filter(|line| !line.starts_with('#')).filter_map(cell).collect()
}

fn cell(line: &'static str) -> Option<PaperCell> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    Some(PaperCell {
        table: next()?.parse().ok()?,
        experiment: next()?,
        topology: next()?,
        size_bytes: next()?.parse().ok()?,
        value: next()?.parse().ok()?,
    })
}

/// The experiments' names, and what each varies.
pub const EXPERIMENTS: [(&str, &str); 4] = [
    ("multi-level", "brokers one below another, between one publisher and one consumer (Tables 1 and 2)"),
    ("consumer-fanout", "consumers of one broker (Tables 3 and 4)"),
    ("federated-fanout", "brokers below the root, a consumer on each (Tables 5 and 6)"),
    ("sixteen-consumers", "sixteen consumers on trees of five kinds (Tables 7 and 8)"),
];

/// The topologies of an experiment, in the paper's order.
pub fn topologies(experiment: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for cell in cells().iter().filter(|cell| cell.experiment == experiment) {
        if !found.contains(&cell.topology) {
            found.push(cell.topology);
        }
    }
    found
}

pub fn table(number: u32) -> Vec<PaperCell> {
    cells().into_iter().filter(|cell| cell.table == number).collect()
}

/// The tables of an experiment.
pub fn tables(experiment: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        cells().iter().filter(|cell| cell.experiment == experiment).map(|cell| cell.table).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Whether tables count the bytes of messages of this size, not their number.
pub fn is_large(size_bytes: usize) -> bool {
    size_bytes >= LARGE_BYTES_MIN
}

impl PaperCell {
    /// Messages a second of one stream, whatever the table counts.
    pub fn stream_per_s(&self) -> f64 {
        if is_large(self.size_bytes) {
            self.value * 1e6 / self.size_bytes as f64 / f64::from(self.tree().consumers())
        } else {
            self.value
        }
    }

    /// Its topology.
    ///
    /// # Panics
    /// Never: a test proves that every line of the file is a tree.
    pub fn tree(&self) -> Tree {
        self.topology.parse().expect("every topology of the file is a tree")
    }
}

/// The measurements of these tables, one run each. B-C is in two tables with the same numbers, and counts once.
pub fn observations(tables: std::ops::RangeInclusive<u32>) -> Vec<Observation> {
    let mut found: Vec<Observation> = Vec::new();
    for cell in cells().into_iter().filter(|cell| tables.contains(&cell.table)) {
        let (tree, message_bytes) = (cell.tree(), cell.size_bytes as u64);
        let same = found.iter_mut().find(|one| one.tree == tree && one.message_bytes == message_bytes);
        let rate = cell.stream_per_s();
        match same {
            Some(one) if one.streams_per_s.contains(&rate) => {}
            Some(one) => one.streams_per_s.push(rate),
            None => found.push(Observation {
                tree,
                message_bytes,
                transport: TRANSPORT.to_owned(),
                ack: ACK.to_owned(),
                streams_per_s: vec![rate],
                latency_us: Vec::new(),
                broker_cpu_us: Vec::new(),
                wire_bytes_per_copy: None,
            }),
        }
    }
    found
}

/// Transport between brokers and clients: TCP, over IP over InfiniBand.
pub(crate) const TRANSPORT: &str = "tcp";
/// Reliability: Qpid's default for routes.
pub const ACK: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_every_topology_is_a_tree() {
        let lines = FILE.lines().filter(|line| !line.starts_with('#')).count();
        let cells = cells();
        assert_eq!(cells.len(), lines);
        for cell in &cells {
            assert!(cell.topology.parse::<topology::Tree>().is_ok(), "{cell:?}");
            assert!(EXPERIMENTS.iter().any(|(name, _)| *name == cell.experiment), "{cell:?}");
        }
    }

    #[test]
    fn tables_are_as_large_as_in_the_paper() {
        let sizes: Vec<usize> = (1..=8).map(|number| table(number).len()).collect();
        assert_eq!(sizes, [20, 15, 16, 12, 16, 12, 15, 20]);
        assert_eq!(tables("multi-level"), [1, 2]);
        assert_eq!(topologies("consumer-fanout"), ["B-1C", "B-2C", "B-4C", "B-8C"]);
        assert_eq!(topologies("sixteen-consumers").len(), 5);
    }

    #[test]
    fn observations_are_streams_and_each_number_counts_once() {
        let observed = observations(1..=6);
        let of = |tree: &str, bytes| {
            let tree: Tree = tree.parse().expect("a tree");
            observed
                .iter()
                .find(|one| one.tree == tree && one.message_bytes == bytes)
                .map(|one| one.streams_per_s.clone())
        };
        assert_eq!(of("B-C", 64), Some(vec![28_258.0]));
        assert_eq!(of("B-B-C", 64), Some(vec![28_233.0, 30_170.0]));
        assert_eq!(of("B-4C", 65_536), Some(vec![412e6 / 65_536.0 / 4.0]));
        assert_eq!(of("B-2B-16C", 64), None);
        assert!(observed.iter().all(|one| one.inconsistency().is_none()));
    }

    #[test]
    fn the_collapse_that_the_paper_saw_is_in_the_file() {
        let of = |topology| table(3).iter().find(|cell| cell.topology == topology).map(|cell| cell.value);
        assert_eq!((of("B-1C"), of("B-8C")), (Some(28_258.0), Some(2_570.0)));
    }
}
