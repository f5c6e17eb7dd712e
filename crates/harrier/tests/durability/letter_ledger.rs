//! What is known of messages that leave their queue or exchange for a dead letter queue, or for their queue when a delay is over.
//!
//! Enters: what was published, confirmed, rejected, returned and found.  Leaves: a verdict on a queue and its dead letters together.

use super::ledger::body;
use std::collections::HashMap;

/// How messages leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// A consumer rejects them.
    Rejected,
    /// They are older than [`TTL_MS`].
    Expired,
    /// The queue has more than [`LENGTH_MAX`].
    Dropped,
    /// Of a quorum queue: they were returned more than [`RETURNS_MAX`] times, or rejected.
    Returned,
    /// An exchange releases them when their delay is over.
    Delayed,
}

/// Short enough that most messages expire while the broker is down.
pub const TTL_MS: u64 = 700;
pub const LENGTH_MAX: u64 = 8;
pub const RETURNS_MAX: u32 = 2;
const US_PER_MS: u64 = 1_000;

/// A queue with its dead letter queue, or an exchange with the queue of what it delayed.
pub struct LetterPath {
    pub home: &'static str,
    pub dead: &'static str,
    pub departure: Departure,
    /// Both are on the shard of the connection that publishes.
    pub is_near: bool,
}

const fn path(home: &'static str, dead: &'static str, departure: Departure, is_near: bool) -> LetterPath {
    LetterPath { home, dead, departure, is_near }
}

/// The exchange that delays.
pub const DELAYING: &str = "letters.delaying";
pub const PATHS: [LetterPath; 10] = [
    path("letters.rejected.near", "letters.rejected.near.dead", Departure::Rejected, true),
    path("letters.rejected.far", "letters.rejected.far.dead", Departure::Rejected, false),
    path("letters.expired.near", "letters.expired.near.dead", Departure::Expired, true),
    path("letters.expired.far", "letters.expired.far.dead", Departure::Expired, false),
    path("letters.dropped.near", "letters.dropped.near.dead", Departure::Dropped, true),
    path("letters.dropped.far", "letters.dropped.far.dead", Departure::Dropped, false),
    path("letters.returned.near", "letters.returned.near.dead", Departure::Returned, true),
    path("letters.returned.far", "letters.returned.far.dead", Departure::Returned, false),
    path(DELAYING, "letters.due.near", Departure::Delayed, true),
    path(DELAYING, "letters.due.far", Departure::Delayed, false),
];

impl Departure {
    /// Whether they leave by themselves, also at a start.
    pub fn is_automatic(self) -> bool {
        matches!(self, Departure::Expired | Departure::Dropped | Departure::Delayed)
    }

    /// Reasons that the history of a dead letter may give.
    pub fn reasons(self) -> &'static [&'static str] {
        match self {
            Departure::Rejected => &["rejected"],
            Departure::Expired => &["expired"],
            Departure::Dropped => &["maxlen"],
            Departure::Returned => &["delivery_limit", "rejected"],
            Departure::Delayed => &[],
        }
    }
}

/// A message as it was published, and where it may be.
#[derive(Clone, Default)]
struct Letter {
    path: usize,
    bytes: usize,
    /// Serves the verification only, and is not persistent.
    is_probe: bool,
    /// The broker had it no earlier than this, by the wall clock.
    from_us: u64,
    /// The broker had it no later than this, if that is known.
    until_us: Option<u64>,
    /// How long it stays at home at most; of a delayed message, how long it stays.
    stay_us: Option<u64>,
    /// It is confirmed, or was found after a restart.
    is_certain: bool,
    /// It may be at home.
    is_home: bool,
    /// It may have left since the last verification.
    has_left: bool,
    /// It has left, and the store is known to have forgotten that it was at home.
    is_gone_from_home: bool,
    /// A consumer has acknowledged it at home.
    is_settled: bool,
    /// It left in the life of the last verification: if that was not durable when the life ended, it leaves once more.
    may_leave_again: bool,
    /// Its dead letters that must be there, and those that were acknowledged, and may.
    letters: u32,
    settled_letters: u32,
    /// How often it was returned: at least, since that is durable, and at most.
    returns: (u32, u32),
    /// It may have been returned more often than the queue allows.
    has_exceeded: bool,
    /// How often it was taken and not settled: a broker that closes connections before it ends counts these as returns.
    held: u32,
}

/// Something that was done to a message over the connection that publishes.
#[derive(Clone, Copy)]
enum DoneBefore {
    Rejected(u64),
    Returned(u64, u32),
}

/// A publish that awaits its confirm.
pub struct OpenLetter {
    number: u64,
    /// How much had been done to messages of its queue before it.
    done_before: usize,
}

impl OpenLetter {
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A message found at home.
pub struct HomeMessage {
    pub number: u64,
    pub returns: u32,
}

/// A dead letter, or a message whose delay is over.
pub struct DeadMessage {
    pub number: u64,
    /// The reason in its history, which has been checked.
    pub reason: Option<String>,
    pub found_us: u64,
}

#[derive(Clone, Default)]
pub struct LetterLedger {
    /// By their numbers.
    letters: Vec<Letter>,
    done: [Vec<DoneBefore>; PATHS.len()],
    /// Starts of the broker since each path was compared.
    starts: [u32; PATHS.len()],
    /// When the broker was killed, by the wall clock, if it has not been started since.
    pub ended_us: Option<u64>,
    /// The same of the life before this one, if that is known.
    last_end_us: Option<u64>,
    /// By how much the broker's wall clock may differ.
    pub clock_error_us: u64,
    /// Queues do not stay on their shards.
    pub moves_shards: bool,
    /// The declaration of all queues was answered.
    pub is_declared: bool,
}

impl LetterLedger {
    /// The broker is started.
    pub fn start(&mut self) {
        self.last_end_us = self.ended_us.take();
        self.starts.iter_mut().for_each(|starts| *starts += 1);
    }

    /// Enters a message that is about to be published. `from_us`: a moment since when the broker has answered.
    pub fn publish(&mut self, path: usize, bytes: usize, delay_ms: u64, from_us: u64) -> OpenLetter {
        let departure = PATHS[path].departure;
        let stay_ms = match departure {
            Departure::Delayed => Some(delay_ms),
            Departure::Expired => Some(TTL_MS),
            _ => None,
        };
        self.letters.push(Letter {
            path,
            bytes: bytes.max(8),
            from_us,
            stay_us: stay_ms.map(|stay_ms| stay_ms * US_PER_MS),
            is_home: true,
            has_left: departure.is_automatic(),
            ..Letter::default()
        });
        OpenLetter { number: self.letters.len() as u64 - 1, done_before: self.done[path].len() }
    }

    /// Enters a message that must not survive a restart.
    pub fn publish_probe(&mut self, path: usize) -> u64 {
        self.letters.push(Letter { path, bytes: 8, is_probe: true, ..Letter::default() });
        self.letters.len() as u64 - 1
    }

    pub fn confirm(&mut self, publish: &OpenLetter, now_us: u64) {
        let letter = &mut self.letters[publish.number as usize];
        letter.is_certain = true;
        letter.until_us = Some(now_us);
        let path = letter.path;
        // It has been written, and what was done before it, too.
        for done in &self.done[path][..publish.done_before] {
            match *done {
                DoneBefore::Rejected(number) => {
                    self.letters[number as usize].is_gone_from_home |= PATHS[path].is_near && !self.moves_shards;
                }
                DoneBefore::Returned(number, count) => {
                    let letter = &mut self.letters[number as usize];
                    letter.returns.0 = letter.returns.0.max(count);
                }
            }
        }
    }

    /// It was taken at home.
    pub fn take(&mut self, number: u64) {
        let letter = &mut self.letters[number as usize];
        letter.held += 1;
        letter.note_limit();
    }

    /// It is about to be rejected: it leaves.
    pub fn reject(&mut self, number: u64) {
        let letter = &mut self.letters[number as usize];
        letter.has_left = true;
        letter.held = letter.held.saturating_sub(1);
        self.done[letter.path].push(DoneBefore::Rejected(number));
    }

    /// It is about to be acknowledged at home.
    pub fn settle(&mut self, number: u64) {
        self.letters[number as usize].is_settled = true;
    }

    /// It is about to be returned to its queue.
    pub fn give_back(&mut self, number: u64) {
        let letter = &mut self.letters[number as usize];
        if PATHS[letter.path].departure != Departure::Returned {
            return;
        }
        letter.returns.1 += 1;
        letter.held = letter.held.saturating_sub(1);
        let count = letter.returns.1;
        self.done[letter.path].push(DoneBefore::Returned(number, count));
        letter.note_limit();
    }

    /// A dead letter is about to be acknowledged.
    pub fn settle_letter(&mut self, number: u64) {
        let letter = &mut self.letters[number as usize];
        if !letter.is_probe {
            letter.letters -= 1;
            letter.settled_letters += 1;
        }
    }

    /// Which message of a path a body is.
    pub fn number_of(&self, path: usize, bytes: &[u8]) -> Result<u64, String> {
        let number =
            bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or("a body of fewer than 8 bytes")?;
        let letter = self.letters.get(number as usize).ok_or("a body that nobody published")?;
        if letter.path != path {
            return Err(format!("message {number} is of {}", PATHS[letter.path].dead));
        }
        if bytes == body(number, letter.bytes) { Ok(number) } else { Err(format!("message {number} has changed")) }
    }

    /// What is known at a moment between two: what was certain before, and what may have happened up to `self`.
    pub fn since(mut self, before: &LetterLedger) -> LetterLedger {
        for (number, letter) in self.letters.iter_mut().enumerate() {
            let earlier = before.letters.get(number);
            letter.is_certain &= earlier.is_some_and(|earlier| earlier.is_certain);
            letter.is_gone_from_home &= earlier.is_some_and(|earlier| earlier.is_gone_from_home);
            letter.returns.0 = earlier.map_or(0, |earlier| earlier.returns.0);
        }
        (self.ended_us, self.last_end_us) = (None, None);
        self.is_declared &= before.is_declared;
        self
    }

    /// Compares what a path has after a restart with what it must and may have, and goes on from there. `begun_us`: before the
    /// first request of the client that found these, and after the start.
    pub fn compare(
        &mut self,
        path: usize,
        home: &[HomeMessage],
        dead: &[DeadMessage],
        begun_us: u64,
    ) -> Result<(), String> {
        for pair in home.windows(2) {
            if pair[1].number <= pair[0].number {
                return Err(format!("message {} comes behind message {}", pair[1].number, pair[0].number));
            }
        }
        let mut found_dead: HashMap<u64, u32> = HashMap::new();
        for found in dead {
            *found_dead.entry(found.number).or_default() += 1;
            self.check_dead(path, found)?;
        }
        let found_home: HashMap<u64, u32> = home.iter().map(|found| (found.number, found.returns)).collect();
        let starts = self.starts[path];
        let (ended_us, error_us) = (self.last_end_us, self.clock_error_us);
        for (number, letter) in (0..).zip(&mut self.letters).filter(|(_, letter)| letter.path == path) {
            let found = (found_home.get(&number).copied(), found_dead.get(&number).copied().unwrap_or(0));
            let times = RestartTimes { starts, begun_us, ended_us, error_us };
            letter.compare(found, times).map_err(|why| format!("message {number}: {why}"))?;
        }
        self.starts[path] = 0;
        self.done[path].clear();
        Ok(())
    }

    /// A dead letter is there for a reason that its message has had, and not before its time.
    fn check_dead(&self, path: usize, found: &DeadMessage) -> Result<(), String> {
        let DeadMessage { number, reason, found_us } = found;
        let letter = &self.letters[*number as usize];
        if reason.as_deref() == Some("delivery_limit") && !letter.has_exceeded {
            return Err(format!("message {number} was returned {} times, and is a dead letter", letter.returns.1));
        }
        let first_us = letter.from_us + letter.stay_us.unwrap_or(0);
        // A delay has milliseconds.
        if found_us + self.clock_error_us + US_PER_MS < first_us {
            let early_us = first_us - found_us;
            return Err(format!("message {number} is in {} {early_us} us before its time", PATHS[path].dead));
        }
        Ok(())
    }

    /// What there was: messages that were published, and those that may have left.
    pub fn describe(&self) -> String {
        let left = self.letters.iter().filter(|letter| letter.letters + letter.settled_letters > 0).count();
        format!("{} letters, {left} of them dead or due", self.letters.len())
    }
}

/// When a broker was started again and looked at, by the wall clock.
#[derive(Clone, Copy)]
struct RestartTimes {
    /// How often it was started since it was last looked at.
    starts: u32,
    begun_us: u64,
    ended_us: Option<u64>,
    error_us: u64,
}

impl Letter {
    /// It leaves if it was returned too often.
    fn note_limit(&mut self) {
        if PATHS[self.path].departure == Departure::Returned && self.returns.1 + self.held > RETURNS_MAX {
            (self.has_left, self.has_exceeded) = (true, true);
        }
    }

    /// Compares where it was found: at home with so many returns, and how often as a dead letter.
    ///
    /// A message that is certain is at home or has a letter. It has one letter for each time that it left, which it does once; but
    /// one that was leaving when the broker ended may be at home after the start all the same, and leaves again, if it does so by
    /// itself.
    fn compare(&mut self, (home, dead): (Option<u32>, u32), times: RestartTimes) -> Result<(), String> {
        let RestartTimes { starts, begun_us, ended_us, error_us } = times;
        let departure = PATHS[self.path].departure;
        if self.is_probe {
            return if home.is_none() && dead == 0 { Ok(()) } else { Err("it is there, and is transient".to_owned()) };
        }
        let past = |since_us: Option<u64>, now_us: u64| {
            let end_us = since_us.zip(self.stay_us).map(|(since_us, stay_us)| since_us + stay_us);
            end_us.is_some_and(|end_us| end_us + error_us <= now_us)
        };
        // It must have expired, or been released.
        let is_overdue = past(self.until_us, begun_us);
        let has_left = self.has_left && self.is_home;
        // Before the end of the last life it may have left once.
        let was_leaving = has_left
            && (self.stay_us.is_none()
                || ended_us.is_none_or(|ended_us| self.from_us + self.stay_us.unwrap_or(0) <= ended_us + error_us));
        let at_starts = if departure.is_automatic() && (has_left || self.may_leave_again) { starts } else { 0 };
        let letters_max = self.letters + self.settled_letters + u32::from(was_leaving) + at_starts;
        if dead > letters_max {
            return Err(format!("it is there {dead} times as a letter, and may be {letters_max} times"));
        }
        if let Some(returns) = home {
            if !self.is_home && !self.may_leave_again {
                return Err("it is at home again".to_owned());
            }
            if self.is_gone_from_home {
                return Err("it was rejected before what was confirmed, and is at home again".to_owned());
            }
            if departure == Departure::Expired && is_overdue {
                return Err("it has expired while the broker was down, and is delivered".to_owned());
            }
            let (least, most) = (self.returns.0.min(RETURNS_MAX), self.returns.1 + self.held);
            if departure == Departure::Returned && !(least..=most).contains(&returns) {
                return Err(format!("it was returned {least} to {most} times, and its count is {returns}"));
            }
        }
        let must_be_somewhere = self.is_certain && self.is_home && !self.is_settled;
        let is_invisible = departure == Departure::Delayed && !is_overdue;
        let letters_min = self.letters + u32::from(must_be_somewhere && home.is_none() && !is_invisible);
        if must_be_somewhere && home.is_none() && !self.has_left {
            return Err("it was confirmed and nobody removed it, and it is not at home".to_owned());
        }
        if dead < letters_min {
            let where_from = if self.is_home { "and is not at home" } else { "and has left its home" };
            return Err(format!("it is there {dead} times as a letter instead of {letters_min}, {where_from}"));
        }
        let (was_home, has_new_letter) = (self.is_home || self.may_leave_again, dead > self.letters);
        let may_be_delayed = departure == Departure::Delayed && self.is_home && !is_overdue && !has_new_letter;
        self.is_home = home.is_some() || may_be_delayed;
        self.may_leave_again = departure.is_automatic() && home.is_none() && was_home && has_new_letter;
        self.is_certain |= home.is_some();
        if home.is_some() {
            self.until_us = Some(self.until_us.unwrap_or(begun_us).min(begun_us));
        }
        self.has_left = departure.is_automatic();
        (self.is_gone_from_home, self.is_settled) = (false, false);
        (self.letters, self.settled_letters) = (dead, 0);
        self.returns = home.map_or(self.returns, |returns| (returns, returns));
        // Whoever compares has taken it.
        self.held = u32::from(home.is_some());
        self.note_limit();
        Ok(())
    }
}
