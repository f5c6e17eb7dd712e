//! The thread that asks the shards for their reports, as long as somebody looks at them.
//!
//! Enters: reports of the shards.  Leaves: rounds of them, through a bounded channel.

use crate::management::clock::now;
use crate::management::management_limits::{
    DISK_LOOK_INTERVAL, LOOKING_TIMEOUT, QUIET_ROUND_INTERVAL, REPORTS_WAITING_MAX, ROUND_INTERVAL,
};
use crate::management::process_resources::{ProcessResources, disk_free_bytes};
use federation::LinkStatus;
use shard::{AdminHandle, ShardReport};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A step of a reader.
pub enum ReadStep {
    Report(Box<ShardReport>),
    /// Every shard has told everything that had changed.
    RoundEnds(Box<RoundEnd>),
    /// Bytes that are free on the disk, looked at between two rounds; `None`: that is not known.
    DiskFree(Option<u64>),
}

/// What is to be read next.
enum DueReading {
    Round,
    DiskFree,
}

/// What is read once a round.
pub struct RoundEnd {
    pub links: Vec<LinkStatus>,
    pub resources: ProcessResources,
}

/// Whether somebody looks.
#[derive(Default)]
struct Interest {
    state: Mutex<InterestState>,
    changed: Condvar,
}

#[derive(Default)]
struct InterestState {
    /// When somebody last looked, and since when no pause between two looks was long.
    looked_at: Option<Instant>,
    looking_since: Option<Instant>,
    is_over: bool,
}

impl InterestState {
    fn is_looking(&self, now: Instant) -> bool {
        self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < LOOKING_TIMEOUT)
    }

    /// Somebody looks. True if nobody did until now.
    fn look(&mut self, now: Instant) -> bool {
        let is_first = !self.is_looking(now);
        if is_first {
            self.looking_since = Some(now);
        }
        self.looked_at = Some(now);
        is_first
    }

    /// The time until the next round: none if somebody looks who has seen none yet.
    fn rest_of_pause(&self, last_round: Instant, now: Instant) -> Duration {
        let interval = match self.is_looking(now) {
            true if self.looking_since.is_some_and(|since| last_round < since) => return Duration::ZERO,
            true => ROUND_INTERVAL,
            false => QUIET_ROUND_INTERVAL,
        };
        (last_round + interval).saturating_duration_since(now)
    }
}

/// The time until the next look at the disk; each round has one. Nobody looks if there is no disk.
fn rest_of_disk_pause(last_look: Option<Instant>, now: Instant) -> Duration {
    last_look.map_or(Duration::MAX, |at| (at + DISK_LOOK_INTERVAL).saturating_duration_since(now))
}

impl Interest {
    fn state(&self) -> MutexGuard<'_, InterestState> {
        // Nobody panics with the lock held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a round is due, or a look at the disk. `None`: nobody will ever look at one.
    fn wait(&self, last_round: Instant, last_disk_look: Option<Instant>) -> Option<DueReading> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            let now = now();
            let (round, disk) = (state.rest_of_pause(last_round, now), rest_of_disk_pause(last_disk_look, now));
            if round.is_zero() {
                return Some(DueReading::Round);
            }
            if disk.is_zero() {
                return Some(DueReading::DiskFree);
            }
            state = self.changed.wait_timeout(state, round.min(disk)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The end at which what is read arrives. When it is dropped, the thread ends.
pub struct ReportReader {
    steps: Receiver<ReadStep>,
    interest: Arc<Interest>,
}

impl ReportReader {
    /// Starts the thread, which ends when the broker does as well.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(operator: AdminHandle, state_folder: &str) -> io::Result<Self> {
        let (sender, steps) = sync_channel(REPORTS_WAITING_MAX);
        let interest = Arc::new(Interest::default());
        let (wanted, folder) = (Arc::clone(&interest), state_folder.to_owned());
        let run = move || {
            // Before the start there was nothing to tell.
            let mut last_round = now();
            let has_disk = !folder.is_empty();
            let mut last_disk_look = has_disk.then_some(last_round);
            while let Some(due) = wanted.wait(last_round, last_disk_look) {
                let began = now();
                last_disk_look = has_disk.then_some(began);
                let read = match due {
                    DueReading::Round => {
                        last_round = began;
                        read_round(&operator, &folder, &sender)
                    }
                    DueReading::DiskFree => sender.send(ReadStep::DiskFree(disk_free_bytes(&folder))).ok(),
                };
                if read.is_none() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("reports".to_owned()).spawn(run)?;
        Ok(ReportReader { steps, interest })
    }

    /// Somebody looks. True if nobody did until now, so that what is known is old.
    pub fn look(&self) -> bool {
        let is_first = self.interest.state().look(now());
        // While somebody looks, the thread waits for its next round, which further looks do not hasten.
        if is_first {
            self.interest.changed.notify_all();
        }
        is_first
    }

    pub fn try_next(&self) -> Result<ReadStep, TryRecvError> {
        self.steps.try_recv()
    }

    /// The next step, waiting so long for it.
    pub fn next_within(&self, time: Duration) -> Result<ReadStep, RecvTimeoutError> {
        self.steps.recv_timeout(time)
    }
}

impl Drop for ReportReader {
    fn drop(&mut self) {
        self.interest.state().is_over = true;
        self.interest.changed.notify_all();
    }
}

/// One round. `None`: the broker has stopped, or nobody takes it.
fn read_round(operator: &AdminHandle, folder: &str, steps: &SyncSender<ReadStep>) -> Option<()> {
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
    let end = RoundEnd { links: operator.link_statuses()?, resources: ProcessResources::read(folder) };
    steps.send(ReadStep::RoundEnds(Box::new(end))).ok()
}

#[cfg(test)]
mod tests {
    use super::{InterestState, rest_of_disk_pause};
    use crate::management::clock::now;
    use crate::management::management_limits::{
        DISK_LOOK_INTERVAL, LOOKING_TIMEOUT, QUIET_ROUND_INTERVAL, ROUND_INTERVAL,
    };
    use std::time::Duration;

    #[test]
    fn rounds_are_rare_while_nobody_looks_and_begin_at_once_when_somebody_does() {
        let begin = now();
        let ms = Duration::from_millis;
        let mut state = InterestState::default();
        assert_eq!(state.rest_of_pause(begin, begin + ms(1)), QUIET_ROUND_INTERVAL - ms(1));
        assert!(state.look(begin + ms(2)), "nobody has looked until now");
        assert_eq!(state.rest_of_pause(begin, begin + ms(2)), Duration::ZERO, "the last round was before that");
        assert!(!state.look(begin + ms(3)));
        assert_eq!(state.rest_of_pause(begin + ms(2), begin + ms(3)), ROUND_INTERVAL - ms(1));
        assert_eq!(state.rest_of_pause(begin + ms(2), begin + ms(2) + ROUND_INTERVAL), Duration::ZERO);
        // Quiet or not, the disk is looked at, if there is one.
        assert_eq!(rest_of_disk_pause(Some(begin), begin + ms(5)), DISK_LOOK_INTERVAL - ms(5));
        assert_eq!(rest_of_disk_pause(Some(begin), begin + DISK_LOOK_INTERVAL), Duration::ZERO);
        assert_eq!(rest_of_disk_pause(None, begin), Duration::MAX);
        // A minute after the last look, it is quiet again.
        let later = begin + ms(3) + LOOKING_TIMEOUT;
        assert_eq!(state.rest_of_pause(later, later), QUIET_ROUND_INTERVAL);
        assert_eq!(state.rest_of_pause(later, later + QUIET_ROUND_INTERVAL), Duration::ZERO);
        let again = later + ms(10);
        assert!(state.look(again));
        assert_eq!(state.rest_of_pause(later, again), Duration::ZERO);
    }
}
