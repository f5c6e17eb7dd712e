//! What a run came to, as the document has it: one point for all, one for each group.
//!
//! Enters: the reports of all processes.  Leaves: runs with latencies, faults, usages, and why they must not be trusted.
//! Owns:   the merging, and the rules of open loop.
//! Never:  forgets a message.

use std::collections::BTreeMap;

use gauge::{HistogramBuckets, HostEnvironment, DeliveryFaults, LatencyHistogram, validity};
use report::document::MeasuredRun;

use super::execution::WorkloadOutcome;
use super::spec::WorkloadSpec;
use super::process_messages::{WorkloadPublisherReport, ConsumerGroupReport};
use crate::role_protocol::SelfUsage;

/// The name of the first point.
pub(crate) const ALL: &str = "all";

/// The groups of a workload in the order of the points.
pub(crate) fn groups(spec: &WorkloadSpec) -> Vec<String> {
    let mut names = vec![ALL.to_owned()];
    names.extend(spec.publishers.iter().map(|group| group.name.clone()));
    names.extend(spec.consumers.iter().map(|group| group.name.clone()));
    names
}

/// The runs of all points, in the same order.
pub(crate) fn runs(spec: &WorkloadSpec, outcome: &WorkloadOutcome, environment: &HostEnvironment) -> Vec<MeasuredRun> {
    let elapsed_s = elapsed_s(outcome);
    let mut runs = vec![all(spec, outcome, environment, elapsed_s)];
    for group in 0..spec.publishers.len() {
        let mut run = MeasuredRun { elapsed_s, ..MeasuredRun::default() };
        let of_group = outcome.publishers.iter().filter(|(of, _)| *of == group).map(|(_, sent)| sent);
        add_sent(&mut run, of_group, &mut LatencyKinds::default());
        runs.push(run);
    }
    for group in 0..spec.consumers.len() {
        let mut run = MeasuredRun { elapsed_s, ..MeasuredRun::default() };
        let mut kinds = LatencyKinds::default();
        for taken in outcome.consumers.iter().filter_map(|taken| taken.groups.get(&group)) {
            add_taken(&mut run, taken, outcome, &mut kinds);
            run.notes.extend(group_notes(taken));
        }
        kinds.into_run(&mut run);
        runs.push(run);
    }
    runs
}

/// From the end of the warm-up to the last message, or to the end if nothing came later.
fn elapsed_s(outcome: &WorkloadOutcome) -> f64 {
    let last = outcome.consumers.iter().map(|taken| taken.last_ns).chain(outcome.publishers.iter().map(|(_, sent)| sent.last_ns));
    let end_ns = last.max().unwrap_or(0).max(outcome.end_ns);
    end_ns.saturating_sub(outcome.measured_from_ns).max(1) as f64 / 1e9
}

/// Histograms by kind, while they are merged.
#[derive(Default)]
struct LatencyKinds(BTreeMap<&'static str, LatencyHistogram>);

impl LatencyKinds {
    fn merge(&mut self, kind: &'static str, buckets: &HistogramBuckets) {
        self.0.entry(kind).or_default().merge(buckets);
    }

    fn into_run(self, run: &mut MeasuredRun) {
        for (kind, latencies) in self.0.into_iter().filter(|(_, latencies)| latencies.count() > 0) {
            run.latencies.insert(kind.to_owned(), latencies.buckets());
        }
    }
}

fn add_sent<'a>(run: &mut MeasuredRun, all: impl Iterator<Item = &'a WorkloadPublisherReport>, kinds: &mut LatencyKinds) {
    for sent in all {
        run.published += sent.measured;
        kinds.merge("lateness", &sent.lateness);
        kinds.merge("round_trip", &sent.round_trips);
    }
    std::mem::take(kinds).into_run(run);
}

fn add_taken(run: &mut MeasuredRun, taken: &ConsumerGroupReport, outcome: &WorkloadOutcome, kinds: &mut LatencyKinds) {
    run.delivered += taken.delivered;
    run.delivered_bytes += taken.delivered_bytes;
    kinds.merge("delivery", &taken.delivery);
    kinds.merge("service", &taken.service);
    kinds.merge("done", &taken.done);
    let slice_s = (outcome.end_ns - outcome.measured_from_ns) as f64 / 1e9 / taken.slices.len().max(1) as f64;
    run.rates.resize(taken.slices.len(), 0.0);
    run.rates.iter_mut().zip(&taken.slices).for_each(|(rate, &count)| *rate += count as f64 / slice_s);
}

fn all(spec: &WorkloadSpec, outcome: &WorkloadOutcome, environment: &HostEnvironment, elapsed_s: f64) -> MeasuredRun {
    let mut run = MeasuredRun { elapsed_s, broker: outcome.broker, ..MeasuredRun::default() };
    let mut kinds = LatencyKinds::default();
    for taken in outcome.consumers.iter().flat_map(|taken| taken.groups.values()) {
        add_taken(&mut run, taken, outcome, &mut kinds);
    }
    kinds.into_run(&mut run);
    add_sent(&mut run, outcome.publishers.iter().map(|(_, sent)| sent), &mut LatencyKinds::default());
    let mut faults = DeliveryFaults::default();
    outcome.consumers.iter().flat_map(|taken| taken.faults.values()).for_each(|one| faults.add(*one));
    outcome.publishers.iter().for_each(|(_, sent)| faults.add(sent.answer_faults));
    run.faults = faults;
    run.refused = outcome.publishers.iter().map(|(group, sent)| refused(spec.publishers[*group].mandatory, sent)).sum();
    let (mut publishers, mut consumers) = (SelfUsage::default(), SelfUsage::default());
    outcome.publishers.iter().for_each(|(_, sent)| publishers.add(&sent.used));
    outcome.consumers.iter().for_each(|taken| consumers.add(&taken.used));
    run.publishers = publishers.process.known();
    run.consumers = consumers.process.known();
    let mut network = publishers.network;
    if let (Some(sum), Some(more)) = (&mut network, &consumers.network) {
        sum.add(more);
    }
    run.network = network;
    run.invalid = invalid(outcome, &run, environment);
    run.notes = notes(outcome, &run, elapsed_s);
    run
}

/// Messages the broker refused, and those that came back or did not come back against what their keys say.
fn refused(mandatory: bool, sent: &WorkloadPublisherReport) -> u64 {
    let back = if mandatory { sent.unroutable } else { 0 };
    sent.refused + sent.unconfirmed + sent.returned.abs_diff(back)
}

fn invalid(outcome: &WorkloadOutcome, run: &MeasuredRun, environment: &HostEnvironment) -> Vec<String> {
    let sum = |count: &dyn Fn(&WorkloadPublisherReport) -> u64| outcome.publishers.iter().map(|(_, sent)| count(sent)).sum::<u64>();
    let (late, unsent) = (sum(&|sent| sent.late), sum(&|sent| sent.unsent));
    let stalled_ns = sum(&|sent| sent.stalled_ns);
    let behind = validity::generator_fell_behind(late + unsent, run.published + unsent).map(|why| {
        if stalled_ns == 0 {
            return why;
        }
        format!(
            "{why}; publishers were kept from sending for {:.1} s in all: the broker took no more, or did not confirm",
            stalled_ns as f64 / 1e9
        )
    });
    let full = [("publishers", &run.publishers), ("consumers", &run.consumers)];
    let full = full.into_iter().filter_map(|(role, usage)| validity::client_was_full(role, usage.as_ref()?));
    behind.into_iter().chain(full).chain(validity::unoptimised(environment)).collect()
}

fn notes(outcome: &WorkloadOutcome, run: &MeasuredRun, elapsed_s: f64) -> Vec<String> {
    let sum = |count: &dyn Fn(&WorkloadPublisherReport) -> u64| outcome.publishers.iter().map(|(_, sent)| count(sent)).sum::<u64>();
    let digest = outcome.publishers.iter().fold(0_u64, |all, (_, sent)| all.wrapping_add(sent.digest));
    let mut notes = vec![format!("{} messages sent, digest {digest:016x}", sum(&|sent| sent.sent))];
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    note(sum(&|sent| sent.unsent), "messages were not sent before the time to drain was over");
    note(sum(&|sent| sent.unroutable), "messages had a key that no queue is bound to");
    note(outcome.consumers.iter().map(|taken| taken.redelivered).sum(), "deliveries were redeliveries, and said so");
    note(
        outcome.consumers.iter().flat_map(|taken| taken.groups.values()).map(|group| group.behind).sum(),
        "deliveries came after the time to drain: consumers were too slow",
    );
    let full = [("publishers", &run.publishers), ("consumers", &run.consumers)];
    notes.extend(
        full.into_iter().filter_map(|(role, usage)| validity::client_was_starved(role, usage.as_ref()?, elapsed_s)),
    );
    notes
}

fn group_notes(taken: &ConsumerGroupReport) -> Vec<String> {
    let mut notes = Vec::new();
    if taken.rejected > 0 {
        notes.push(format!("{} messages put back", taken.rejected));
    }
    if taken.crashes > 0 {
        notes.push(format!("{} channels closed with everything unacknowledged", taken.crashes));
    }
    if taken.behind > 0 {
        notes.push(format!("{} deliveries after the time to drain", taken.behind));
    }
    notes
}
