//! What comes out: a line for each check as soon as it is known, and a table of all figures at the end.
//!
//! Enters: figures and their bounds.  Leaves: lines `ok NAME - …` and `not ok NAME - …`, a table.
//! Owns:   the rows, and whether all were within their bounds.
//! Never:  rounds a figure over its bound.

/// One line of the table: what so many of a kind cost each.
pub struct Row {
    /// What was counted.
    pub what: String,
    /// Shards of the broker.
    pub shards: u16,
    /// How many.
    pub count: u64,
    /// Resident memory before and with them.
    pub bytes: (u64, u64),
    /// The most that one may cost in bytes; `None` only prints.
    pub each_bytes_max: Option<f64>,
    /// What else is worth knowing.
    pub note: String,
}

impl Row {
    /// Bytes of one.
    pub fn each_bytes(&self) -> f64 {
        self.bytes.1.saturating_sub(self.bytes.0) as f64 / self.count as f64
    }

    fn is_good(&self) -> bool {
        self.each_bytes_max.is_none_or(|most| self.each_bytes() <= most)
    }
}

/// The rows so far.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
    failed: u32,
}

impl Report {
    /// A figure; it is held against its bound.
    pub fn row(&mut self, row: Row) {
        let most = row.each_bytes_max.map_or(String::new(), |most| format!(", {most:.0} are the most"));
        let figures =
            format!("{} on {} shard(s): {:.0} bytes each{most}; {}", row.count, row.shards, row.each_bytes(), row.note);
        self.verdict(&row.what.replace(' ', "-"), row.is_good(), &figures);
        self.rows.push(row);
    }

    /// Whether something holds.
    pub fn verdict(&mut self, name: &str, good: bool, figures: &str) {
        println!("{} scale-{name} - {figures}", if good { "ok" } else { "not ok" });
        self.failed += u32::from(!good);
    }

    /// Prints the table. Answers whether everything held.
    pub fn finish(self) -> bool {
        if !self.rows.is_empty() {
            println!("\n{:<28} {:>6} {:>10} {:>12} {:>8}  note", "what", "shards", "count", "bytes each", "at most");
        }
        for row in &self.rows {
            let most = row.each_bytes_max.map_or("-".to_owned(), |most| format!("{most:.0}"));
            let (what, shards, count, each) = (&row.what, row.shards, row.count, row.each_bytes());
            println!("{what:<28} {shards:>6} {count:>10} {each:>12.1} {most:>8}  {}", row.note);
        }
        self.failed == 0
    }
}

/// Something to know that is no figure.
pub fn note(text: &str) {
    eprintln!("{text}");
}

/// Bytes in MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
