//! Converts the reports of a run into the document's form: one point for the whole workload and one for each group.

use std::collections::BTreeMap;

use gauge::{DeliveryFaults, HostEnvironment, LatencyHistogram, validity};
use report::document::MeasuredRun;

use super::execution::WorkloadOutcome;
use super::process_messages::{ConsumerGroupReport, WorkloadPublisherReport};
use super::spec::WorkloadSpec;
use harness::role_protocol::SelfUsage;

/// The name of the first point.
pub const ALL: &str = "all";

/// The groups of a workload, in the order of the points.
pub fn groups(spec: &WorkloadSpec) -> Vec<String> {
    let mut names = vec![ALL.to_owned()];
    names.extend(spec.publishers.iter().map(|group| group.name.clone()));
    names.extend(spec.consumers.iter().map(|group| group.name.clone()));
    names
}

/// The runs of all points, in the same order.
pub fn runs(spec: &WorkloadSpec, outcome: &WorkloadOutcome, environment: &HostEnvironment) -> Vec<MeasuredRun> {
    let elapsed_s = elapsed_s(outcome);
    let mut runs = vec![all(spec, outcome, environment, elapsed_s)];
    for group in 0..spec.publishers.len() {
        let mut run = MeasuredRun { elapsed_s, ..MeasuredRun::default() };
        let of_group =
            outcome.publishers.iter().filter(|(of, _)| *of == group).map(|(_, publisher_report)| publisher_report);
        add_publisher_reports(&mut run, of_group, &mut LatencyKinds::default());
        runs.push(run);
    }
    for group in 0..spec.consumers.len() {
        let mut run = MeasuredRun { elapsed_s, ..MeasuredRun::default() };
        let mut kinds = LatencyKinds::default();
        for consumer_report in outcome.consumers.iter().filter_map(|consumer_report| consumer_report.groups.get(&group))
        {
            add_consumer_report(&mut run, consumer_report, outcome, &mut kinds);
            run.notes.extend(group_notes(consumer_report));
        }
        kinds.into_run(&mut run);
        runs.push(run);
    }
    runs
}

/// From the end of the warm-up to the last message, or to the end if no message came later.
fn elapsed_s(outcome: &WorkloadOutcome) -> f64 {
    let last = outcome
        .consumers
        .iter()
        .map(|consumer_report| consumer_report.last_ns)
        .chain(outcome.publishers.iter().map(|(_, publisher_report)| publisher_report.last_ns));
    let end_ns = last.max().unwrap_or(0).max(outcome.end_ns);
    end_ns.saturating_sub(outcome.measured_from_ns).max(1) as f64 / 1e9
}

/// Histograms by kind, while they are merged.
#[derive(Default)]
struct LatencyKinds(BTreeMap<&'static str, LatencyHistogram>);

impl LatencyKinds {
    fn merge(&mut self, kind: &'static str, latencies: &LatencyHistogram) {
        self.0.entry(kind).or_default().merge(&latencies.buckets());
    }

    fn into_run(self, run: &mut MeasuredRun) {
        for (kind, latencies) in self.0.into_iter().filter(|(_, latencies)| latencies.count() > 0) {
            run.latencies.insert(kind.to_owned(), latencies.buckets());
        }
    }
}

fn add_publisher_reports<'a>(
    run: &mut MeasuredRun,
    all: impl Iterator<Item = &'a WorkloadPublisherReport>,
    kinds: &mut LatencyKinds,
) {
    for publisher_report in all {
        run.published += publisher_report.measured;
        kinds.merge("lateness", &publisher_report.lateness);
        kinds.merge("round_trip", &publisher_report.round_trips);
        kinds.merge("confirm", &publisher_report.confirm_times);
    }
    std::mem::take(kinds).into_run(run);
}

fn add_consumer_report(
    run: &mut MeasuredRun,
    consumer_report: &ConsumerGroupReport,
    outcome: &WorkloadOutcome,
    kinds: &mut LatencyKinds,
) {
    run.delivered += consumer_report.delivered;
    run.delivered_bytes += consumer_report.delivered_bytes;
    kinds.merge("delivery", &consumer_report.delivery);
    kinds.merge("service", &consumer_report.service);
    kinds.merge("done", &consumer_report.done);
    let slice_s = (outcome.end_ns - outcome.measured_from_ns) as f64 / 1e9 / consumer_report.slices.len().max(1) as f64;
    run.rates.resize(consumer_report.slices.len(), 0.0);
    run.rates.iter_mut().zip(&consumer_report.slices).for_each(|(rate, &count)| *rate += count as f64 / slice_s);
}

fn all(spec: &WorkloadSpec, outcome: &WorkloadOutcome, environment: &HostEnvironment, elapsed_s: f64) -> MeasuredRun {
    let mut run =
        MeasuredRun { elapsed_s, broker: outcome.broker, store: outcome.store.usage, ..MeasuredRun::default() };
    let mut kinds = LatencyKinds::default();
    for consumer_report in outcome.consumers.iter().flat_map(|consumer_report| consumer_report.groups.values()) {
        add_consumer_report(&mut run, consumer_report, outcome, &mut kinds);
    }
    kinds.into_run(&mut run);
    add_publisher_reports(
        &mut run,
        outcome.publishers.iter().map(|(_, publisher_report)| publisher_report),
        &mut LatencyKinds::default(),
    );
    let mut faults = DeliveryFaults::default();
    outcome
        .consumers
        .iter()
        .flat_map(|consumer_report| consumer_report.faults.values())
        .for_each(|one| faults.add(*one));
    outcome.publishers.iter().for_each(|(_, publisher_report)| faults.add(publisher_report.answer_faults));
    run.faults = faults;
    run.refused = outcome
        .publishers
        .iter()
        .map(|(group, publisher_report)| refused(spec.publishers[*group].mandatory, publisher_report))
        .sum();
    let (mut publishers, mut consumers) = (SelfUsage::default(), SelfUsage::default());
    outcome.publishers.iter().for_each(|(_, publisher_report)| publishers.add(&publisher_report.used));
    outcome.consumers.iter().for_each(|consumer_report| consumers.add(&consumer_report.used));
    run.publishers = publishers.process.known();
    run.consumers = consumers.process.known();
    let mut network = publishers.network;
    if let (Some(sum), Some(more)) = (&mut network, &consumers.network) {
        sum.add(more);
    }
    run.network = network;
    run.invalid = invalid(outcome, &run, environment);
    run.notes = notes(outcome, &run, elapsed_s);
    run.notes.extend(outcome.store.note.clone());
    run
}

/// Messages rejected by the broker, and those returned, or not returned, contrary to their keys.
fn refused(mandatory: bool, publisher_report: &WorkloadPublisherReport) -> u64 {
    let back = if mandatory { publisher_report.unroutable } else { 0 };
    publisher_report.refused + publisher_report.unconfirmed + publisher_report.returned.abs_diff(back)
}

fn invalid(outcome: &WorkloadOutcome, run: &MeasuredRun, environment: &HostEnvironment) -> Vec<String> {
    let sum = |count: &dyn Fn(&WorkloadPublisherReport) -> u64| {
        outcome.publishers.iter().map(|(_, publisher_report)| count(publisher_report)).sum::<u64>()
    };
    let (late, unsent) =
        (sum(&|publisher_report| publisher_report.late), sum(&|publisher_report| publisher_report.unsent));
    let stalled_ns = sum(&|publisher_report| publisher_report.stalled_ns);
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
    let sum = |count: &dyn Fn(&WorkloadPublisherReport) -> u64| {
        outcome.publishers.iter().map(|(_, publisher_report)| count(publisher_report)).sum::<u64>()
    };
    let digest =
        outcome.publishers.iter().fold(0_u64, |all, (_, publisher_report)| all.wrapping_add(publisher_report.digest));
    let mut notes =
        vec![format!("{} messages sent, digest {digest:016x}", sum(&|publisher_report| publisher_report.sent))];
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    note(sum(&|publisher_report| publisher_report.unsent), "messages were not sent before the time to drain was over");
    note(sum(&|publisher_report| publisher_report.unroutable), "messages had a key that no queue is bound to");
    note(
        outcome.consumers.iter().map(|consumer_report| consumer_report.redelivered).sum(),
        "deliveries were redeliveries, and said so",
    );
    note(
        outcome
            .consumers
            .iter()
            .flat_map(|consumer_report| consumer_report.groups.values())
            .map(|group| group.behind)
            .sum(),
        "deliveries came after the time to drain: consumers were too slow",
    );
    let full = [("publishers", &run.publishers), ("consumers", &run.consumers)];
    notes.extend(
        full.into_iter().filter_map(|(role, usage)| validity::client_was_starved(role, usage.as_ref()?, elapsed_s)),
    );
    notes
}

fn group_notes(consumer_report: &ConsumerGroupReport) -> Vec<String> {
    let mut notes = Vec::new();
    if consumer_report.rejected > 0 {
        notes.push(format!("{} messages put back", consumer_report.rejected));
    }
    if consumer_report.crashes > 0 {
        notes.push(format!("{} channels closed with everything unacknowledged", consumer_report.crashes));
    }
    if consumer_report.behind > 0 {
        notes.push(format!("{} deliveries after the time to drain", consumer_report.behind));
    }
    notes
}
