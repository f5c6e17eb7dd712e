//! Rules that decide when figures are INVALID. Each returns a sentence for the document's `invalid`, or nothing.

use crate::environment::HostEnvironment;
use crate::limits::{CLIENT_CORES_SHARE_MAX, LATE_SEND_NS, LATE_SENDS_SHARE_MAX};
use crate::role_usage::RoleUsage;
use crate::sequence_tally::DeliveryFaults;

/// A client that used more than 85 % of its available processors: the broker may be faster than measured. `role` is its name
/// in the sentence: `publishers`, `consumers`.
pub fn client_was_full(role: &str, usage: &RoleUsage) -> Option<String> {
    let share = usage.share_of_cores();
    (share > CLIENT_CORES_SHARE_MAX).then(|| {
        format!(
            "the {role} were the bottleneck: one process used {:.2} of the {:.0} processors it could have ({:.0} %, limit {:.0} %)",
            usage.busiest_cores,
            usage.cores_max,
            share * 100.0,
            CLIENT_CORES_SHARE_MAX * 100.0
        )
    })
}

/// A client close to that limit if its run-queue wait is included: a note, because other programs used the processor.
pub fn client_was_starved(role: &str, usage: &RoleUsage, elapsed_s: f64) -> Option<String> {
    if elapsed_s <= 0.0 || usage.processes == 0 || client_was_full(role, usage).is_some() {
        return None;
    }
    let waited = usage.run_queue_s / f64::from(usage.processes) / elapsed_s;
    let share = (usage.busiest_cores + waited) / usage.cores_max.max(1.0);
    (share > CLIENT_CORES_SHARE_MAX).then(|| {
        format!(
            "the {role} ran or waited for a processor {:.0} % of the time: more processors would change the figures",
            share.min(1.0) * 100.0
        )
    })
}

/// An open-loop generator that fell behind: `late` of `intended` messages were sent more than [`LATE_SEND_NS`] late.
pub fn generator_fell_behind(late: u64, intended: u64) -> Option<String> {
    let share = late as f64 / intended.max(1) as f64;
    (share > LATE_SENDS_SHARE_MAX).then(|| {
        format!(
            "the load generator fell behind: {late} of {intended} messages left more than {} ms late ({:.1} %, limit {:.0} %)",
            LATE_SEND_NS / 1_000_000,
            share * 100.0,
            LATE_SENDS_SHARE_MAX * 100.0
        )
    })
}

/// An unoptimised build.
pub fn unoptimised(environment: &HostEnvironment) -> Option<String> {
    (!environment.optimised).then(|| "this program was built without optimisation: its figures mean nothing".to_owned())
}

/// Loss, duplicates, reordering, corruption, rejections.
pub fn faulty(faults: &DeliveryFaults, refused: u64) -> Option<String> {
    let DeliveryFaults { lost, duplicates, reordered, strays, damaged } = *faults;
    let kinds = [
        (lost, "lost"),
        (duplicates, "doubled"),
        (reordered, "out of order"),
        (strays, "stray"),
        (damaged, "damaged"),
        (refused, "refused or returned"),
    ];
    let parts: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    (!parts.is_empty()).then(|| format!("messages: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(busiest_cores: f64, cores_max: f64, run_queue_s: f64) -> RoleUsage {
        RoleUsage { processes: 1, busiest_cores, cores_max, run_queue_s, ..RoleUsage::default() }
    }

    #[test]
    fn a_full_client_is_named() {
        assert_eq!(client_was_full("publishers", &used(0.85, 1.0, 0.0)), None);
        assert_eq!(client_was_full("publishers", &used(1.6, 2.0, 0.0)), None);
        let sentence = client_was_full("consumers", &used(0.9, 1.0, 0.0)).expect("it was full");
        assert_eq!(
            sentence,
            "the consumers were the bottleneck: one process used 0.90 of the 1 processors it could have (90 %, limit 85 %)"
        );
        assert_eq!(client_was_full("publishers", &RoleUsage::default()), None, "nothing is known");
    }

    #[test]
    fn a_starved_client_is_noted() {
        assert_eq!(client_was_starved("consumers", &used(0.5, 1.0, 0.2), 1.0), None);
        let sentence = client_was_starved("consumers", &used(0.5, 1.0, 0.45), 1.0).expect("it waited");
        assert!(sentence.contains("95 %"), "{sentence}");
        assert_eq!(client_was_starved("consumers", &used(0.9, 1.0, 0.45), 1.0), None, "that is said otherwise");
    }

    #[test]
    fn a_late_generator() {
        assert_eq!(generator_fell_behind(10, 1_000), None);
        assert_eq!(generator_fell_behind(0, 0), None);
        assert_eq!(
            generator_fell_behind(11, 1_000).as_deref(),
            Some("the load generator fell behind: 11 of 1000 messages left more than 1 ms late (1.1 %, limit 1 %)")
        );
    }

    #[test]
    fn faults_are_counted_by_kind() {
        assert_eq!(faulty(&DeliveryFaults::default(), 0), None);
        let faults = DeliveryFaults { lost: 2, damaged: 1, ..DeliveryFaults::default() };
        assert_eq!(faulty(&faults, 3).as_deref(), Some("messages: 2 lost, 1 damaged, 3 refused or returned"));
    }

    #[test]
    fn builds() {
        let mut environment = HostEnvironment::read();
        environment.optimised = true;
        assert_eq!(unoptimised(&environment), None);
        environment.optimised = false;
        assert!(unoptimised(&environment).is_some());
    }
}
