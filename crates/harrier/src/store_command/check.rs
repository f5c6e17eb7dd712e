//! `harrier store check`: reads all frames of all logs, and says what is damaged.

use super::StoreReport;
use super::footer_check::FooterCheck;
use super::stopped_store::{StoppedStore, StoredLog};
use cli::{Column, table};
use store::{Block, Damage, FrameHeader, Record, RecordVisitor, ScanError, ScanResult, SegmentId};

const HEADING: [&str; 10] =
    ["log", "segments", "footers", "frames", "records", "messages", "settled", "last sequence", "torn", "damaged"];

/// Counts what is in a log.
struct RecordCounts<'a> {
    records: u64,
    messages: u64,
    settled: u64,
    footers: FooterCheck<'a>,
}

impl RecordVisitor for RecordCounts<'_> {
    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader) {
        self.footers.on_frame(segment, block, header);
    }

    fn on_record(&mut self, record: Record<'_>) {
        self.footers.on_record(&record);
        self.records += 1;
        match record {
            Record::Message { .. } | Record::Large { .. } | Record::Again { .. } => self.messages += 1,
            Record::Settled { count, .. } => self.settled = self.settled.saturating_add(count),
            _ => {}
        }
    }

    fn on_damage(&mut self, _damage: &Damage) {
        self.footers.on_damage();
    }
}

pub fn check(store: &StoppedStore) -> StoreReport {
    let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
    let (mut faults, mut notes) = (Vec::new(), Vec::new());
    for (number, log) in store.logs().iter().enumerate() {
        match check_log(log) {
            Ok((counts, result)) => {
                rows.push(row(log, &counts, &result));
                notes.extend(counts.footers.wrong);
                notes.extend(result.unreadable_end.map(|end| end.to_string()));
                faults.extend(result.damage.iter().map(|damage| log.describe(damage)));
                // The first one has the definitions.
                if number > 0 && !result.damage.is_empty() {
                    match log.losses(&store.queue_names()) {
                        Ok(losses) => faults.extend(losses),
                        Err(error) => faults.push(format!("{}: {error}", log.name())),
                    }
                }
            }
            Err(error) => faults.push(format!("{}: {error}", log.name())),
        }
    }
    // Whether the beginning of the journal is missing shows in what it says, and not in its frames.
    faults.extend(store.definitions().err().filter(|_| faults.is_empty()));
    let columns = std::array::from_fn::<_, { HEADING.len() }, _>(|column| match column {
        0 => Column::Name,
        _ => Column::Number,
    });
    let verdict = if faults.is_empty() { "sound\n" } else { "" };
    StoreReport { text: table(&columns, &rows) + verdict, notes, faults }
}

fn check_log(log: &StoredLog) -> Result<(RecordCounts<'_>, ScanResult), ScanError> {
    let mut counts = RecordCounts { records: 0, messages: 0, settled: 0, footers: FooterCheck::new(log) };
    let result = log.scan(&mut counts)?;
    counts.footers.end_segment(result.end.chain.next, result.end.chain.previous_crc);
    Ok((counts, result))
}

fn row(log: &StoredLog, counts: &RecordCounts<'_>, result: &ScanResult) -> Vec<String> {
    let numbers = [
        log.segments() as u64,
        counts.footers.right,
        result.frames,
        counts.records,
        counts.messages,
        counts.settled,
        result.end.chain.next.0 - 1,
        result.torn_frames,
        result.damage.len() as u64,
    ];
    std::iter::once(log.name().to_owned()).chain(numbers.iter().map(u64::to_string)).collect()
}
