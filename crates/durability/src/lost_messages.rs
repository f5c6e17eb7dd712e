//! What damage of a store has taken, in words: queues with their names, and the positions of messages.
//!
//! Enters: a log that nobody writes, and what the store defines.  Leaves: lines for whoever decides what becomes of it.

use crate::limits::LOST_RANGES_NAMED_MAX;
use crate::message_store::queue_of;
use definitions::DurableDefinitions;
use queues::delayed_record::delaying_shard;
use std::collections::HashMap;
use std::fmt::Write;
use store::{
    DamageSurvey, LogId, LostMessages, MessageLoss, Position, QueueUid, ScanError, SegmentNumber, SegmentReader,
    StoreTag, survey_damage,
};

/// Bits of a position below its priority level.
const PLACE_BITS: u32 = 56;

/// The queues of a store by their numbers.
pub struct QueueNames {
    /// Virtual host and name.
    names: HashMap<QueueUid, (String, String)>,
    /// There are no others.
    is_complete: bool,
}

impl QueueNames {
    /// The queues that these definitions have. If some definitions are missing there may be others.
    pub fn of(definitions: &DurableDefinitions, is_complete: bool) -> Self {
        let queues = definitions.queues();
        let named =
            queues.map(|(vhost, name, queue)| (QueueUid(queue.uid.number()), (vhost.to_string(), name.to_string())));
        QueueNames { names: named.collect(), is_complete }
    }

    /// Of a store whose definitions cannot be read.
    pub fn unknown() -> Self {
        QueueNames { names: HashMap::new(), is_complete: false }
    }

    fn is_there(&self, queue: QueueUid) -> bool {
        !self.is_complete || self.names.contains_key(&queue) || is_delayed(queue)
    }

    fn label(&self, queue: QueueUid) -> String {
        match self.names.get(&queue) {
            Some((vhost, name)) => format!("queue {} ({name:?} in {vhost:?})", queue.0),
            None if is_delayed(queue) => "what waits for its delay".to_owned(),
            None => format!("queue {}", queue.0),
        }
    }
}

/// Whether this is no queue, but what delayed messages of a shard have.
fn is_delayed(queue: QueueUid) -> bool {
    queue_of(queue).is_some_and(|uid| delaying_shard(uid).is_some())
}

/// Says what the damage of a log of messages has taken; nothing of a sound one.
///
/// # Errors
/// The log cannot be read, for another reason than damage.
pub fn describe_losses(
    reader: &mut impl SegmentReader,
    store: StoreTag,
    log: LogId,
    segments: Vec<SegmentNumber>,
    names: &QueueNames,
) -> Result<Vec<String>, ScanError> {
    let survey = survey_damage(reader, store, log, segments, |queue| names.is_there(queue))?;
    Ok(lines(&survey, names))
}

fn lines(survey: &DamageSurvey, names: &QueueNames) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, (damage, is_known)) in survey.damage.iter().enumerate() {
        let place = format!("{} at block {}", damage.segment, damage.block.0);
        let mut rest: Vec<&LostMessages> = survey.lost.iter().filter(|lost| lost.damage == number).collect();
        if rest.is_empty() {
            let what =
                if *is_known { "no message that is alive is lost" } else { "which messages it had cannot be told" };
            lines.push(format!("{place}: {what}"));
        }
        while let Some(first) = rest.first() {
            let (queue, loss) = (first.queue, first.loss);
            let (same, others): (Vec<_>, Vec<_>) =
                rest.iter().partition(|lost| (lost.queue, lost.loss) == (queue, loss));
            lines.push(format!("{place}: {}", words(&names.label(queue), loss, &same)));
            rest = others;
        }
    }
    if survey.unnamed > 0 {
        lines.push(format!("{} more ranges of messages are concerned", survey.unnamed));
    }
    lines
}

fn words(queue: &str, loss: MessageLoss, runs: &[&LostMessages]) -> String {
    let count: u64 = runs.iter().map(|run| run.last.0 - run.first.0 + 1).sum();
    let (noun, what) = if count == 1 { ("message", "it was") } else { ("messages", "they were") };
    let mut ranges = String::new();
    for run in runs.iter().take(LOST_RANGES_NAMED_MAX) {
        let separator = if ranges.is_empty() { "" } else { ", " };
        let written = match run.first == run.last {
            true => write!(ranges, "{separator}{}", place_of(run.first)),
            false => write!(ranges, "{separator}{} to {}", place_of(run.first), place_of(run.last)),
        };
        written.expect("a text takes what is written");
    }
    if let Some(more) = runs.len().checked_sub(LOST_RANGES_NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(ranges, " and {more} more ranges");
    }
    match loss {
        MessageLoss::Lost => format!("{queue} has lost {noun} {ranges}"),
        MessageLoss::Missing => {
            format!("{queue} has lost {noun} {ranges}, as far as {what} written and not settled")
        }
        MessageLoss::Unsettled => format!("{queue} has {noun} {ranges} again, which it was done with"),
    }
}

/// A position, behind its priority level if that is not 0.
fn place_of(position: Position) -> String {
    let place = position.0 & ((1 << PLACE_BITS) - 1);
    if position.level() == 0 { place.to_string() } else { format!("{}/{place}", position.level()) }
}

#[cfg(test)]
mod tests {
    use super::{QueueNames, lines};
    use std::collections::HashMap;
    use store::{
        Block, Damage, DamageSurvey, FrameSequence, LogId, LostMessages, MessageLoss, Position, QueueUid, SegmentId,
        SegmentNumber,
    };

    #[test]
    fn a_line_has_what_one_queue_has_lost_at_one_place() {
        let damage = |block| Damage {
            segment: SegmentId { log: LogId(1), number: SegmentNumber(3) },
            block: Block(block),
            first: FrameSequence(5),
            next: FrameSequence(6),
        };
        let lost = |damage, queue, first, last, loss| LostMessages {
            damage,
            queue: QueueUid(queue),
            first: Position(first),
            last: Position(last),
            loss,
        };
        let survey = DamageSurvey {
            damage: vec![(damage(2), true), (damage(9), false), (damage(20), true), (damage(21), false)],
            lost: vec![
                lost(0, 7, 20, 22, MessageLoss::Lost),
                lost(0, 7, 30, 30, MessageLoss::Lost),
                lost(0, 7, 3, 4, MessageLoss::Unsettled),
                lost(0, u64::MAX, 1, 1, MessageLoss::Lost),
                lost(1, 8, 5 << 56 | 6, 5 << 56 | 9, MessageLoss::Missing),
            ],
            unnamed: 2,
        };
        let queue = (QueueUid(7), ("/".to_owned(), "or\nders".to_owned()));
        let names = QueueNames { names: HashMap::from([queue]), is_complete: true };
        assert_eq!(
            lines(&survey, &names),
            [
                r#"segment 3 of log 1 at block 2: queue 7 ("or\nders" in "/") has lost messages 20 to 22, 30"#,
                r#"segment 3 of log 1 at block 2: queue 7 ("or\nders" in "/") has messages 3 to 4 again, which it was done with"#,
                "segment 3 of log 1 at block 2: what waits for its delay has lost message 1",
                "segment 3 of log 1 at block 9: queue 8 has lost messages 5/6 to 5/9, as far as they were written and not settled",
                "segment 3 of log 1 at block 20: no message that is alive is lost",
                "segment 3 of log 1 at block 21: which messages it had cannot be told",
                "2 more ranges of messages are concerned",
            ]
        );
        assert!(names.is_there(QueueUid(7)) && names.is_there(QueueUid(u64::MAX)) && !names.is_there(QueueUid(8)));
        assert!(QueueNames::unknown().is_there(QueueUid(8)), "nobody knows what else is defined");
    }
}
