//! Dead letters that nobody has routed yet, in their order, grouped by target and reason.
//!
//! What a dead letter causes in turn is routed before the letters behind it. So one message that dies again and again in many
//! queues takes as many entries here as these queues have, times the deaths of one copy, and not one for each of its copies. How many
//! it may become in all has a limit, and once they are many they have turns like the letters behind it.

use crate::dead_letter_list::{DeadLetterGroup, DeadLetterList};
use crate::dead_letter_reason::DeadLetterReason;
use crate::death_history::DeadLetterTarget;
use crate::detached_letters::{DetachedLetters, LetterOrigin};
use crate::held_dead_letters::{HeldDeadLetters, ReleasedLetters};
use crate::ids::StoredPosition;
use crate::limits::{
    DEAD_LETTER_TURNS_IN_PLACE_MAX, DEAD_LETTERS_CAUSED_IN_CROWD_MAX, DEAD_LETTERS_CAUSED_MAX,
    DEAD_LETTERS_EXPIRED_MAX, DEAD_LETTERS_PENDING_MAX,
};
use crate::message::Message;
use crate::queue_stats::DeathStats;
use std::ops::Range;
use std::sync::Arc;

/// The dead letters of a shard.
pub struct PendingDeadLetters {
    /// Those that commands and timers have caused.
    first: DeadLetterList,
    /// How many were ever added to these: the number of the next one.
    arrived: u64,
    /// Those that dead letters have caused, each list by a letter of the one before it. The last is routed first.
    nested: Vec<DeadLetterList>,
    /// The letter of `first` that has caused these.
    origin: LetterOrigin,
    /// What others have caused, of which there was so much that turns alternate between these and `first`.
    detached: DetachedLetters,
    detached_is_next: bool,
    /// The budget of a turn was spent since a letter was taken.
    turn_has_ended: bool,
    /// A list whose capacity serves again.
    spare: Option<DeadLetterList>,
    /// A letter is being routed: what is added is caused by it.
    routing: bool,
    /// It has caused others.
    has_caused: bool,
    /// A letter is between two of its queues, and is to be finished before others: whether it has caused others.
    suspended: Option<bool>,
    /// The next letter is one that was [put back](Self::put_back): nothing may come before it.
    is_put_back: bool,
    messages: usize,
    /// At so many, more are dropped.
    messages_max: usize,
    /// Those that wait for memory. They are no pending work until it is there, and do not count in `messages`.
    held: Option<Box<HeldDeadLetters>>,
    /// Those that waited for memory and are routed now, a list of `nested`.
    released: Option<ReleasedLetters>,
    is_holding: bool,
    /// How many were ever added, by reason.
    pub by_reason: DeathStats,
    /// Letters dropped because there were too many.
    dropped: u64,
    /// The last group that was routed: the next is often of the same target and reason, and reuses its reference.
    routed: Option<DeadLetterGroup>,
}

impl Default for PendingDeadLetters {
    fn default() -> Self {
        PendingDeadLetters {
            first: DeadLetterList::default(),
            arrived: 0,
            nested: Vec::new(),
            origin: LetterOrigin::default(),
            detached: DetachedLetters::default(),
            detached_is_next: false,
            turn_has_ended: false,
            spare: None,
            routing: false,
            has_caused: false,
            suspended: None,
            is_put_back: false,
            messages: 0,
            messages_max: DEAD_LETTERS_PENDING_MAX,
            held: None,
            released: None,
            is_holding: false,
            by_reason: DeathStats::default(),
            dropped: 0,
            routed: None,
        }
    }
}

impl PendingDeadLetters {
    /// Adds a letter: `source` is where the store has the message that it comes from. Returns whether there is room for it.
    #[inline]
    pub fn push(
        &mut self,
        target: &Arc<DeadLetterTarget>,
        reason: DeadLetterReason,
        message: Message,
        source: Option<StoredPosition>,
    ) -> bool {
        self.by_reason.add(reason, 1);
        if self.messages >= self.messages_max || self.routing && self.origin.caused >= self.caused_max() {
            self.dropped += 1;
            return false;
        }
        self.messages += 1;
        if self.routing {
            self.origin.caused += 1;
            if !std::mem::replace(&mut self.has_caused, true) {
                self.nested.push(self.spare.take().unwrap_or_default());
            }
        } else {
            self.arrived += 1;
        }
        let list = match self.nested.last_mut() {
            Some(list) if self.routing => list,
            _ => &mut self.first,
        };
        let routed = &mut self.routed;
        list.push(reason, message, source, target, |target| {
            let known = routed.take_if(|group| group.is_of(target, reason));
            known.map_or_else(|| Arc::clone(target), |group| group.target)
        });
        true
    }

    /// How many more may be added.
    #[inline]
    pub fn room(&self) -> usize {
        self.messages_max.saturating_sub(self.messages)
    }

    /// The number of the next letter that a command or a timer causes: who compares it knows whether a command has caused any.
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.arrived
    }

    /// Whether the letters with these numbers are routed, or wait for memory, with all that they have caused.
    pub fn are_routed(&self, numbers: &Range<u64>) -> bool {
        let is_at_hand = self.suspended.is_some() || self.messages > self.first.len() + self.detached.messages();
        let is_left = numbers.end > self.arrived - self.first.len() as u64
            || is_at_hand && self.origin.is_one_of(numbers)
            || self.released.as_ref().is_some_and(|released| released.interrupted.is_one_of(numbers))
            || self.detached.has_one_of(numbers);
        numbers.is_empty() || !is_left
    }

    /// Units of work of [`are_routed`](Self::are_routed).
    pub fn waiting_work(&self) -> usize {
        1 + self.detached.search_work()
    }

    /// Whether what has expired is to stay in its queue for a moment: more letters would only wait here. Each may be many when it has
    /// expired in the queues where it goes.
    #[inline]
    pub fn keeps_expired(&self) -> bool {
        self.first.len() >= DEAD_LETTERS_EXPIRED_MAX
    }

    /// How many a letter may cause.
    fn caused_max(&self) -> usize {
        if self.detached.is_crowd() { DEAD_LETTERS_CAUSED_IN_CROWD_MAX } else { DEAD_LETTERS_CAUSED_MAX }
    }

    /// Whether a turn has ended since a group was last chosen in a new one: the group at hand is left then, and another is chosen.
    #[inline]
    pub fn turn_has_ended(&self) -> bool {
        self.turn_has_ended
    }

    /// The budget of a turn is spent: others have their turns beside what a letter has caused.
    pub fn end_turn(&mut self) {
        self.turn_has_ended = true;
    }

    /// The first letter of a turn is about to be taken.
    #[cold]
    fn begin_turn(&mut self) {
        self.turn_has_ended = false;
        self.origin.turns += 1;
        let makes_way = self.origin.is_detached || self.origin.turns >= DEAD_LETTER_TURNS_IN_PLACE_MAX;
        // Those that have had no turn before it: who leaves its place now goes behind those that left theirs.
        let leaves_first = makes_way && !self.origin.is_detached && self.detached.messages() == 0;
        self.detached_is_next = !(self.origin.is_detached || leaves_first);
        if makes_way {
            // Letters that waited for memory are in the place of the first.
            let released = self.released.as_ref().map_or(0, |released| released.at + 1);
            self.detached.add(&mut self.nested, released, &mut self.origin);
        }
    }

    /// How many were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the first group: its messages are those that [`next`](Self::next) returns next, until
    /// [`finish_group`](Self::finish_group).
    #[inline]
    pub fn next_group(&mut self) -> Option<DeadLetterGroup> {
        if self.held.is_some() && !self.is_holding && !self.is_put_back && self.released.is_none() {
            self.release_held();
        }
        if self.turn_has_ended && !self.is_put_back {
            self.begin_turn();
        }
        loop {
            while let Some(list) = self.nested.last_mut() {
                if let Some(group) = list.groups.pop_front() {
                    return Some(group);
                }
                self.spare = self.nested.pop();
                if let Some(released) = self.released.take_if(|released| released.at == self.nested.len()) {
                    self.origin = released.interrupted;
                }
            }
            let is_first = self.is_put_back || !self.detached_is_next && !self.first.groups.is_empty();
            if is_first || !self.detached.take(&mut self.nested, &mut self.origin) {
                break;
            }
        }
        let next = self.first.groups.pop_front();
        if next.is_none() {
            self.messages_max = DEAD_LETTERS_PENDING_MAX;
        }
        next
    }

    /// Memory is short, or is not any more: letters that several queues would get are [held](Self::hold) from now on, or routed.
    pub fn set_holding(&mut self, on: bool) {
        self.is_holding = on;
    }

    #[inline]
    pub fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Whether letters of the group at hand are held: those behind them must not overtake them.
    #[inline]
    pub fn is_held(&self, group: &DeadLetterGroup) -> bool {
        self.held.as_ref().is_some_and(|held| held.has(&group.target))
    }

    /// Keeps the message at hand, which has caused nothing, until memory is there again. It takes here what it took before, so that
    /// there is no limit of their own for these.
    #[cold]
    pub fn hold(&mut self, group: &mut DeadLetterGroup, message: Message, source: Option<StoredPosition>) {
        let is_last = |released: &mut ReleasedLetters| released.at + 1 == self.nested.len();
        if self.held.is_none()
            && let Some(released) = self.released.take_if(is_last)
            && let Some(mut list) = self.nested.pop()
        {
            // It was held before, and so were those behind it: they are held together, however many they are.
            self.messages -= list.len();
            list.return_front(group, message, source);
            let (held, interrupted) = HeldDeadLetters::again(released, list);
            self.held = Some(Box::new(held));
            self.origin = interrupted;
        } else {
            self.held.get_or_insert_default().push(&group.target, group.reason, message, source);
        }
    }

    /// Those that were held come before those that have followed them, and leave these as much room as there was.
    #[cold]
    fn release_held(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.messages += held.len();
        self.messages_max = DEAD_LETTERS_PENDING_MAX + held.len();
        let (released, list) = held.release(self.nested.len(), std::mem::take(&mut self.origin));
        self.released = Some(released);
        self.nested.push(list);
    }

    /// Takes the next message of the group at hand, and if that `is_stored`, where the store has what it comes from. What is added
    /// from now on is caused by it.
    #[inline]
    pub fn next(&mut self, is_stored: bool) -> Option<(Message, Option<StoredPosition>)> {
        (self.routing, self.is_put_back) = (true, false);
        let depth = self.nested.len();
        if depth == 0 {
            self.origin = LetterOrigin::numbered(self.arrived - self.first.len() as u64);
        } else if self.released.as_ref().is_some_and(|released| released.at + 1 == depth) {
            self.origin = LetterOrigin::default();
        }
        let next = self.nested.last_mut().unwrap_or(&mut self.first).pop(is_stored);
        self.messages -= usize::from(next.is_some());
        next
    }

    /// The messages behind the one at hand, if that has caused no others.
    #[inline]
    pub fn following(&self) -> impl Iterator<Item = &Message> {
        self.nested.last().unwrap_or(&self.first).messages()
    }

    /// Drops so many of the messages behind the one at hand, which are routed. Passes on where the store has what they come from, if
    /// the group at hand `is_stored`.
    pub fn drop_following(&mut self, count: usize, is_stored: bool, routed: impl FnMut(StoredPosition)) {
        self.messages -= count;
        self.nested.last_mut().unwrap_or(&mut self.first).drop_next(count, is_stored, routed);
    }

    /// Returns the message at hand: it is the next again. It has caused nothing.
    pub fn put_back(&mut self, message: Message, source: Option<StoredPosition>) {
        self.messages += 1;
        self.is_put_back = true;
        self.nested.last_mut().unwrap_or(&mut self.first).put_back(message, source);
    }

    /// Whether the message at hand has caused dead letters, which go before the rest of its group.
    #[inline]
    pub fn has_caused(&self) -> bool {
        self.has_caused
    }

    /// The group at hand is routed, but for the messages that it has left.
    #[inline]
    pub fn finish_group(&mut self, group: DeadLetterGroup) {
        self.routing = false;
        let has_caused = std::mem::take(&mut self.has_caused);
        if group.messages == 0 {
            self.routed = Some(group);
            return;
        }
        let depth = self.nested.len() - usize::from(has_caused);
        let list = match depth.checked_sub(1).and_then(|at| self.nested.get_mut(at)) {
            Some(list) => list,
            None => &mut self.first,
        };
        list.groups.push_front(group);
    }

    /// The letter at hand has not reached all its queues, and is left for another turn.
    #[cold]
    pub fn suspend(&mut self) {
        self.suspended = Some(self.has_caused);
    }

    /// Goes on with the letter that was suspended: what is added until [`end_letter`](Self::end_letter) is caused by it.
    pub fn resume(&mut self) {
        self.routing = true;
        self.has_caused = self.suspended.take().unwrap_or_default();
    }

    /// The letter that was resumed has reached its queues, or is suspended again.
    #[inline]
    pub fn end_letter(&mut self) {
        (self.routing, self.has_caused) = (false, false);
    }

    /// How many wait, for whatever.
    pub fn len(&self) -> usize {
        self.messages + usize::from(self.suspended.is_some()) + self.held_len()
    }

    /// How many wait for memory.
    pub fn held_len(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.len())
    }

    /// Whether none can be routed now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages == 0 && self.suspended.is_none() && (self.is_holding || self.held.is_none())
    }
}

#[cfg(test)]
mod tests;
