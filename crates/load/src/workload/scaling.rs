//! Scales a workload: its rates, publishers, consumers and rate objectives by a factor, or its duration.
//!
//! Sizes, keys, bindings and think times do not change.

use super::spec::{ObjectiveGoal, WorkloadSpec};

/// Each group is still expected to send at least about this many messages.
const MESSAGES_MIN: f64 = 16.0;

/// Multiplies rates and numbers.
pub fn times(spec: &mut WorkloadSpec, factor: f64) {
    let count = |count: usize| ((count as f64 * factor).round() as usize).max(1);
    for group in &mut spec.publishers {
        let expected = group.rate.expected(spec.duration_ns);
        let factor = factor.max((MESSAGES_MIN / expected.max(1e-9)).min(1.0));
        group.rate = group.rate.times(factor);
        group.count = count(group.count);
        group.processes = group.processes.min(group.count);
    }
    for group in &mut spec.consumers {
        group.count = count(group.count);
    }
    for objective in &mut spec.objectives {
        if let ObjectiveGoal::Rate { least_per_s } = &mut objective.goal {
            *least_per_s *= factor;
        }
    }
}

/// Sets the duration, with the warm-up in proportion.
pub fn lasting(spec: &mut WorkloadSpec, seconds: f64) {
    let factor = seconds * 1e9 / spec.duration_ns as f64;
    spec.duration_ns = (seconds * 1e9) as u64;
    spec.warm_up_ns = (spec.warm_up_ns as f64 * factor) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::shipped;

    #[test]
    fn small_and_short_still_sends_something_and_fits_together() {
        for (name, mut spec) in shipped::all() {
            lasting(&mut spec, 2.0);
            times(&mut spec, 0.02);
            assert_eq!(spec.duration_ns, 2_000_000_000);
            for group in &spec.publishers {
                let expected = group.rate.expected(spec.duration_ns);
                assert!((10.0..2_000.0).contains(&expected), "{name} {}: {expected}", group.name);
            }
            assert_eq!(crate::workload::validation::whole(&spec), Ok(()), "{name}");
        }
    }

    #[test]
    fn ten_times_is_ten_times() {
        for (name, spec) in shipped::all() {
            let mut larger = spec.clone();
            times(&mut larger, 10.0);
            for (group, more) in spec.publishers.iter().zip(&larger.publishers) {
                assert_eq!(group.count * 10, more.count, "{name}");
                let (before, after) = (group.rate.expected(spec.duration_ns), more.rate.expected(spec.duration_ns));
                assert!((after / before - 10.0).abs() < 1e-6, "{name}");
            }
        }
    }
}
