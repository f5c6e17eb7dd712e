//! Paces a sending thread: it sleeps while the next message is far away, and spins for the last stretch.
//!
//! The length of that stretch follows the observed timer lateness; a budget limits spinning to a share of a processor.

/// Timer lateness is compensated up to this; the last stretch before a message is spent awake.
pub(crate) const SPIN_NS: u64 = 30_000;
/// The rest of that stretch after a typical timer wake-up.
const SPARE_NS: u64 = 2_000;
/// The step by which one timer moves the estimate of lateness. Upward steps are three times as large, which estimates the 75 % quantile.
const LESSON_NS: u64 = 250;
/// At most one N-th of the time is spent spinning.
pub(crate) const SPIN_PART: u64 = 5;
/// The maximum of the spinning budget.
const SAVED_NS_MAX: u64 = 20 * SPIN_NS;
/// Messages closer together than this are batched: no separate wake-up for each.
pub(crate) const NAP_NS_MIN: u64 = 50_000;
/// Above this rate naps grow with it: a wake-up costs tens of microseconds, which the messages themselves need.
const NAPS_GROW_ABOVE_PER_S: f64 = 100_000.0;
/// The longest nap: a fifth of what counts as late.
pub(crate) const NAP_NS_MAX: u64 = 200_000;

const _: () = assert!(NAP_NS_MAX * 5 <= gauge::limits::LATE_SEND_NS);

/// What the thread should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacerAction {
    Send,
    /// Check the clock again at once.
    Spin,
    /// Sleep until this time, unless something else happens.
    Sleep(u64),
}

/// The pacer of one thread.
#[derive(Clone, Debug)]
pub struct SendPacer {
    nap_ns: u64,
    /// Whether messages are so far apart that each gets a wake-up of its own.
    is_sparse: bool,
    saved_ns: u64,
    last_ns: u64,
    spinning: bool,
    /// The estimated timer lateness (75 % quantile), and when the last timer was due.
    lateness_ns: u64,
    alarm_ns: Option<u64>,
    #[cfg(test)]
    spun_ns: u64,
}

impl SendPacer {
    /// For a thread with at most this many messages per second.
    pub fn for_rate(peak_per_s: f64) -> Self {
        let nap_ns = (NAP_NS_MIN as f64 * peak_per_s / NAPS_GROW_ABOVE_PER_S) as u64;
        let nap_ns = nap_ns.clamp(NAP_NS_MIN, NAP_NS_MAX);
        Self {
            nap_ns,
            is_sparse: 1e9 / peak_per_s > (SPIN_NS + nap_ns) as f64,
            saved_ns: 0,
            last_ns: 0,
            spinning: false,
            lateness_ns: SPIN_NS,
            alarm_ns: None,
            #[cfg(test)]
            spun_ns: 0,
        }
    }

    /// How long before a message the timer should fire.
    fn lead_ns(&self) -> u64 {
        (self.lateness_ns + SPARE_NS).min(SPIN_NS)
    }

    /// Must be called first after a sleep: if the timer woke the thread, its lateness is learned. Without these calls the thread
    /// spins for all of `SPIN_NS`.
    pub fn woke(&mut self, now_ns: u64) {
        let Some(late_ns) = self.alarm_ns.take().and_then(|alarm_ns| now_ns.checked_sub(alarm_ns)) else { return };
        self.lateness_ns = if late_ns > self.lateness_ns {
            (self.lateness_ns + 3 * LESSON_NS).min(SPIN_NS)
        } else {
            self.lateness_ns.saturating_sub(LESSON_NS)
        };
    }

    /// What to do at `now_ns` if the next message is due at `due_ns`.
    pub fn step(&mut self, now_ns: u64, due_ns: u64) -> PacerAction {
        self.alarm_ns = None;
        let passed_ns = now_ns.saturating_sub(self.last_ns);
        if self.last_ns > 0 {
            if self.spinning {
                self.saved_ns = self.saved_ns.saturating_sub(passed_ns);
                #[cfg(test)]
                {
                    self.spun_ns += passed_ns;
                }
            } else {
                self.saved_ns = (self.saved_ns + passed_ns / SPIN_PART).min(SAVED_NS_MAX);
            }
        }
        self.last_ns = now_ns;
        self.spinning = false;
        if due_ns <= now_ns {
            return PacerAction::Send;
        }
        let gap_ns = due_ns - now_ns;
        let lead_ns = self.lead_ns();
        if gap_ns > SPIN_NS + self.nap_ns || (self.is_sparse && gap_ns > lead_ns) {
            // Without a budget for the last stretch the message is sent when the timer fires.
            let has_budget = self.saved_ns + gap_ns / SPIN_PART >= lead_ns;
            let alarm_ns = if has_budget { due_ns - lead_ns } else { due_ns };
            self.alarm_ns = Some(alarm_ns);
            return PacerAction::Sleep(alarm_ns);
        }
        if gap_ns <= self.saved_ns && self.nap_ns == NAP_NS_MIN {
            self.spinning = true;
            return PacerAction::Spin;
        }
        PacerAction::Sleep(if self.is_sparse { due_ns } else { due_ns.max(now_ns + self.nap_ns) })
    }

    #[cfg(test)]
    pub(crate) fn spun_ns(&self) -> u64 {
        self.spun_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paces even messages with timers that are `late_ns` late; checking the clock takes 100 ns and sending 1 us. Returns the share
    /// of time spent spinning, the largest lateness and the number of wake-ups.
    fn simulate(gap_ns: u64, late_ns: u64, count: u64) -> (f64, u64, u64) {
        let mut pacer = SendPacer::for_rate(1e9 / gap_ns as f64);
        let (start_ns, mut now_ns) = (1_000_000, 1_000_000);
        let (mut worst_ns, mut wakes, mut sent) = (0, 0, 1);
        while sent < count {
            let due_ns = start_ns + sent * gap_ns;
            match pacer.step(now_ns, due_ns) {
                PacerAction::Send => {
                    // The first messages have no budget yet.
                    if sent > count / 10 {
                        worst_ns = worst_ns.max(now_ns - due_ns);
                    }
                    sent += 1;
                    now_ns += 1_000;
                }
                PacerAction::Spin => now_ns += 100,
                PacerAction::Sleep(until_ns) => {
                    assert!(until_ns > now_ns);
                    wakes += 1;
                    now_ns = until_ns + late_ns;
                    pacer.woke(now_ns);
                }
            }
        }
        (pacer.spun_ns() as f64 / (now_ns - start_ns) as f64, worst_ns, wakes)
    }

    #[test]
    fn far_messages_are_met_and_cost_little() {
        let (spun, worst_ns, wakes) = simulate(1_000_000, 10_000, 1_000);
        assert!(spun < 0.05, "{spun}");
        assert!(worst_ns <= 100, "{worst_ns}");
        assert_eq!(wakes, 999);
    }

    #[test]
    fn no_more_is_spent_awake_than_timers_are_late() {
        // Without an estimate it is all of `SPIN_NS`.
        let (spun, worst_ns, _) = simulate(125_000, 10_000, 10_000);
        let spent_ns = spun * 125_000.0;
        assert!((1_000.0..4_000.0).contains(&spent_ns), "{spent_ns} of {SPIN_NS}");
        assert!(worst_ns <= 100, "{worst_ns}");
    }

    #[test]
    fn other_wake_ups_teach_nothing_about_timers() {
        let mut pacer = SendPacer::for_rate(8_000.0);
        assert_eq!(pacer.step(1, 1), PacerAction::Send);
        // Long enough to save a budget.
        let mut now_ns = 1_000_000;
        for _ in 0..100 {
            let due_ns = now_ns + 125_000;
            for left_ns in [125_000, 41_000, SPIN_NS + 1] {
                let alarm_ns = due_ns - SPIN_NS;
                assert_eq!(pacer.step(due_ns - left_ns, due_ns), PacerAction::Sleep(alarm_ns), "{left_ns} ns before");
                pacer.woke(alarm_ns - 1);
            }
            now_ns = due_ns;
            assert_eq!(pacer.step(now_ns, due_ns), PacerAction::Send);
        }
        assert_eq!(pacer.lateness_ns, SPIN_NS);
    }

    #[test]
    fn dense_messages_leave_together() {
        let (spun, worst_ns, wakes) = simulate(5_000, 10_000, 100_000);
        assert!(spun <= 1.0 / SPIN_PART as f64 + 0.02, "{spun}");
        assert!(worst_ns < 2 * NAP_NS_MIN + 10_000 + 30_000, "{worst_ns}");
        assert!(wakes < 10_000, "{wakes} for 100,000 messages");
    }

    #[test]
    fn the_budget_bounds_spinning_at_every_rate() {
        for gap_ns in [1_000, 10_000, 20_000, 40_000, 60_000, 81_000, 100_000, 200_000, 500_000] {
            let (spun, worst_ns, _) = simulate(gap_ns, 8_000, 20_000);
            assert!(spun <= 1.0 / SPIN_PART as f64 + 0.02, "{gap_ns}: {spun}");
            let nap_ns = if gap_ns < 10_000 { NAP_NS_MAX } else { NAP_NS_MIN };
            assert!(worst_ns <= nap_ns + 8_000 + 60_000, "{gap_ns}: {worst_ns}");
        }
    }

    #[test]
    fn a_machine_that_wakes_late_is_late_by_no_more() {
        let (_, worst_ns, _) = simulate(1_000_000, 200_000, 1_000);
        assert!(worst_ns <= 200_000, "{worst_ns}");
    }
}
