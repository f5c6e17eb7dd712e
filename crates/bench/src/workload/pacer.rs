//! How a sender waits for the next intended time: asleep while it is far, awake for the last stretch.
//!
//! Enters: the time, and when the next message is due.  Leaves: what to do until then.
//! Owns:   the budget of spinning, so that waiting never uses more than a share of a processor.
//! Never:  reads a clock or sleeps itself.

/// A timer wakes a thread up to so much late; the last stretch before a message is spent awake.
pub(crate) const SPIN_NS: u64 = 30_000;
/// At most one part in so many of the time is spent spinning.
pub(crate) const SPIN_PART: u64 = 5;
/// The budget that can be saved up.
const SAVED_NS_MAX: u64 = 20 * SPIN_NS;
/// Messages closer together than this are not woken up for one by one: those that fall due meanwhile leave together.
pub(crate) const NAP_NS_MIN: u64 = 50_000;
/// Above this rate naps grow with it: waking up costs tens of microseconds, which the messages themselves need.
const NAPS_GROW_ABOVE_PER_S: f64 = 100_000.0;
/// The longest nap: a fifth of what counts as late.
pub(crate) const NAP_NS_MAX: u64 = 200_000;

const _: () = assert!(NAP_NS_MAX * 5 <= gauge::limits::LATE_SEND_NS);

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is due.
    Send,
    /// Look at the clock again at once.
    Spin,
    /// Sleep until this time, unless something happens before.
    Sleep(u64),
}

/// The pacing of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    nap_ns: u64,
    saved_ns: u64,
    last_ns: u64,
    spinning: bool,
    #[cfg(test)]
    spun_ns: u64,
}

impl Pacer {
    /// For a thread that sends so many messages a second at most.
    pub(crate) fn for_rate(peak_per_s: f64) -> Self {
        let nap_ns = (NAP_NS_MIN as f64 * peak_per_s / NAPS_GROW_ABOVE_PER_S) as u64;
        let nap_ns = nap_ns.clamp(NAP_NS_MIN, NAP_NS_MAX);
        Self {
            nap_ns,
            saved_ns: 0,
            last_ns: 0,
            spinning: false,
            #[cfg(test)]
            spun_ns: 0,
        }
    }

    /// What to do at `now_ns` if the next message is due at `due_ns`.
    pub(crate) fn step(&mut self, now_ns: u64, due_ns: u64) -> Step {
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
            return Step::Send;
        }
        let gap_ns = due_ns - now_ns;
        if gap_ns > SPIN_NS + self.nap_ns {
            // Without a budget for the last stretch the message leaves when the timer says so.
            return Step::Sleep(if self.saved_ns + gap_ns / SPIN_PART >= SPIN_NS { due_ns - SPIN_NS } else { due_ns });
        }
        if gap_ns <= self.saved_ns && self.nap_ns == NAP_NS_MIN {
            self.spinning = true;
            return Step::Spin;
        }
        Step::Sleep(due_ns.max(now_ns + self.nap_ns))
    }

    /// Time spent spinning so far.
    #[cfg(test)]
    pub(crate) fn spun_ns(&self) -> u64 {
        self.spun_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paces even messages on a machine whose timers are `late_ns` late and on which a look at the clock takes 100 ns
    /// and sending 1 us; tells the share of time spent spinning, the longest lateness, and the wake-ups.
    fn simulate(gap_ns: u64, late_ns: u64, count: u64) -> (f64, u64, u64) {
        let mut pacer = Pacer::for_rate(1e9 / gap_ns as f64);
        let (start_ns, mut now_ns) = (1_000_000, 1_000_000);
        let (mut worst_ns, mut wakes, mut sent) = (0, 0, 1);
        while sent < count {
            let due_ns = start_ns + sent * gap_ns;
            match pacer.step(now_ns, due_ns) {
                Step::Send => {
                    // The first messages have no budget behind them.
                    if sent > count / 10 {
                        worst_ns = worst_ns.max(now_ns - due_ns);
                    }
                    sent += 1;
                    now_ns += 1_000;
                }
                Step::Spin => now_ns += 100,
                Step::Sleep(until_ns) => {
                    assert!(until_ns > now_ns);
                    wakes += 1;
                    now_ns = until_ns + late_ns;
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
