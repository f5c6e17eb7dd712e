//! What the 2009 paper measured, from `paper-2009.csv`.
//!
//! Enters: the file of the tree.  Leaves: experiments with their topologies; the paper's number for each cell.
//! Owns:   what each table counts.
//! Never:  a number that is not the paper's.

const FILE: &str = include_str!("paper-2009.csv");
/// From here on messages are large: their tables count bytes.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// One of the paper's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub table: u32,
    pub experiment: &'static str,
    pub topology: &'static str,
    pub size_bytes: usize,
    /// Messages a second of one stream, or MB/s at all consumers together.
    pub value: f64,
}

/// All of them, in the paper's order.
pub(super) fn cells() -> Vec<Cell> {
    FILE.lines().filter(|line| !line.starts_with('#')).filter_map(cell).collect()
}

fn cell(line: &'static str) -> Option<Cell> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    Some(Cell {
        table: next()?.parse().ok()?,
        experiment: next()?,
        topology: next()?,
        size_bytes: next()?.parse().ok()?,
        value: next()?.parse().ok()?,
    })
}

/// The experiments' names, and what each varies.
pub(super) const EXPERIMENTS: [(&str, &str); 4] = [
    ("multi-level", "brokers one below another, between one publisher and one consumer (Tables 1 and 2)"),
    ("consumer-fanout", "consumers of one broker (Tables 3 and 4)"),
    ("federated-fanout", "brokers below the root, a consumer on each (Tables 5 and 6)"),
    ("sixteen-consumers", "sixteen consumers on trees of five kinds (Tables 7 and 8)"),
];

/// The topologies of an experiment, in the paper's order.
pub(super) fn topologies(experiment: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for cell in cells().iter().filter(|cell| cell.experiment == experiment) {
        if !found.contains(&cell.topology) {
            found.push(cell.topology);
        }
    }
    found
}

/// The cells of a table.
pub(super) fn table(number: u32) -> Vec<Cell> {
    cells().into_iter().filter(|cell| cell.table == number).collect()
}

/// The numbers of the tables of an experiment.
pub(super) fn tables(experiment: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        cells().iter().filter(|cell| cell.experiment == experiment).map(|cell| cell.table).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Whether tables count the bytes of messages of this size, and not their number.
pub(super) fn is_large(size_bytes: usize) -> bool {
    size_bytes >= LARGE_BYTES_MIN
}

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
    fn the_collapse_that_the_paper_saw_is_in_the_file() {
        let of = |topology| table(3).iter().find(|cell| cell.topology == topology).map(|cell| cell.value);
        assert_eq!((of("B-1C"), of("B-8C")), (Some(28_258.0), Some(2_570.0)));
    }
}
