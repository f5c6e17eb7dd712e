//! Messages that a route has given up, because its destination refuses them for good.
//!
//! Owns:   how many there were for each reason, and when that is logged.

/// Why a message is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GiveUpReason {
    /// The destination's broker core refuses it.
    Refused,
    /// Its body is larger than the destination takes.
    LargeBody,
    /// Its properties do not fit a frame.
    LargeProperties,
    /// Its header is malformed, although its frames are not.
    Malformed,
}

/// Counts by reason.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GivenUp([u64; 4]);

impl GivenUp {
    pub fn total(self) -> u64 {
        self.0.iter().sum()
    }

    pub fn add(&mut self, other: GivenUp) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// Counts a message of a route. The first one for a reason is logged, the tenth, the hundredth, and so on.
    #[cold]
    pub fn count(&mut self, reason: GiveUpReason, (link, route): (&str, &str), text: &str) {
        let count = &mut self.0[reason as usize];
        *count += 1;
        if is_power_of_ten(*count) {
            tracing::warn!(link, route, ?reason, count, text, "a federation route gives up messages");
        }
    }
}

fn is_power_of_ten(mut number: u64) -> bool {
    while number > 1 && number.is_multiple_of(10) {
        number /= 10;
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use super::{GiveUpReason, GivenUp, is_power_of_ten};

    #[test]
    fn reasons_are_counted_together_and_logged_ever_more_rarely() {
        let mut given_up = GivenUp::default();
        for reason in [GiveUpReason::Refused, GiveUpReason::LargeBody, GiveUpReason::LargeBody] {
            given_up.count(reason, ("link", "route"), "why");
        }
        let mut all = given_up;
        all.add(given_up);
        assert_eq!((given_up.total(), all.total()), (3, 6));
        let logged: Vec<u64> = (0..=2_000).filter(|number| is_power_of_ten(*number)).collect();
        assert_eq!(logged, [1, 10, 100, 1_000]);
    }
}
