//! The thread that asks the shards for their reports.
//!
//! Enters: reports of the shards.  Leaves: rounds of them, through a bounded channel.

use crate::management::limits::REPORTS_WAITING_MAX;
use shard::{AdminHandle, ShardReport};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How often each shard is asked.
const ROUND: Duration = Duration::from_secs(1);

/// A step of a reader.
pub enum ReadStep {
    Report(Box<ShardReport>),
    /// Every shard has told everything that had changed.
    RoundEnds,
}

/// Starts the thread. It ends when the broker does, or when nobody takes what it reads.
///
/// # Errors
/// The system refuses a thread.
pub fn read_reports(operator: AdminHandle) -> io::Result<Receiver<ReadStep>> {
    let (steps, read) = sync_channel(REPORTS_WAITING_MAX);
    let run = move || while read_round(&operator, &steps).is_some() {};
    std::thread::Builder::new().name("reports".to_owned()).spawn(run)?;
    Ok(read)
}

/// One round, and the pause behind it. `None`: the broker has stopped, or nobody takes it.
fn read_round(operator: &AdminHandle, steps: &SyncSender<ReadStep>) -> Option<()> {
    for shard in 0..operator.shards() {
        loop {
            let report = operator.report(catalog::ShardId(shard))?;
            let more = report.more;
            steps.send(ReadStep::Report(Box::new(report))).ok()?;
            if !more {
                break;
            }
        }
    }
    steps.send(ReadStep::RoundEnds).ok()?;
    std::thread::sleep(ROUND);
    Some(())
}
