//! Reports: what happened in a run, and the violation that ended it.

use crate::limits::TRACE_LINES_SHOWN;
use crate::settings::Settings;
use simdisks::DamageOutcomes;
use std::fmt::{self, Display, Formatter};

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages published.
    pub published: u64,
    /// Messages that brokers confirmed, or that a later answer on the channel covers.
    pub confirmed: u64,
    /// Messages that the broker refused because a queue was full.
    pub declined: u64,
    /// Deliveries to clients, `basic.get` included.
    pub delivered: u64,
    /// Of these, repeated ones: flagged as redelivered, or known to have come to this queue before.
    pub redelivered: u64,
    /// Deliveries of dead letters.
    pub dead: u64,
    /// Of these, messages that were dead-lettered more than once.
    pub chained: u64,
    /// Of these, messages that reached their delivery limit.
    pub worn: u64,
    /// Channels that the broker closed for the consumer timeout.
    pub overdue: u64,
    /// Requests answered.
    pub answers: u64,
    /// Channels that the broker closed, as it should.
    pub refusals: u64,
    /// Messages found by the final drain.
    pub drained: u64,
    /// One if the run ended with publishers that nothing could unblock.
    pub blocked_for_good: u64,
    /// Times a client received `connection.blocked`.
    pub blocked: u64,
    /// Connections opened by clients.
    pub connections: u64,
    /// Of these, connections that were cut.
    pub client_cuts: u64,
    /// Deliveries by way of another broker.
    pub crossed: u64,
    /// Deliveries that had to happen over federation routes, and did.
    pub owed: u64,
    /// Bindings added and removed under load.
    pub bindings: u64,
    /// Dials of brokers.
    pub dials: u64,
    /// Of these, refused ones.
    pub refused: u64,
    /// Connections between brokers.
    pub links: u64,
    /// Of these, connections that were cut.
    pub link_cuts: u64,
    /// Connections between brokers that became silent.
    pub silences: u64,
    /// Runs whose second paths are forced.
    pub forced: u64,
    /// Brokers stopped.
    pub stops: u64,
    /// Routes removed under load.
    pub reroutes: u64,
    /// Times a broker with a store crashed.
    pub crashes: u64,
    /// Times it was asked to stop.
    pub clean_stops: u64,
    /// Times a disk failed under it.
    pub disk_failures: u64,
    /// Of these, disks of messages that leave the memory.
    pub spill_failures: u64,
    /// Times such a disk was full.
    pub full_spills: u64,
    /// Ends of a broker that may take back what it had confirmed last.
    pub relaxed_ends: u64,
    /// Messages that may have been taken back.
    pub doubtful: u64,
    /// Times a disk was full.
    pub full_disks: u64,
    /// Places of disks that were damaged while it was down.
    pub damages: u64,
    /// What has become of these places, and of those that were damaged while it ran.
    pub outcomes: DamageOutcomes,
    /// Footers that were damaged or stale before a start.
    pub spoiled_footers: u64,
    /// Frames that were damaged while it ran.
    pub flips: u64,
    /// Of these frames, those that its scrub has named, and those of lives that ended before a whole pass had gone by.
    pub flips_named: u64,
    pub flips_unpassed: u64,
    /// Damage that its scrub has named.
    pub scrub_reports: u64,
    /// Of these, damage of the journal of definitions.
    pub journal_reports: u64,
    /// Starts that were refused because of the disks.
    pub refused_starts: u64,
    /// Starts without what was missing.
    pub lossy_starts: u64,
    /// Stores that were written anew for another number of shards.
    pub reshardings: u64,
    /// Messages that were moved within their logs, so that segments could be given back.
    pub moved: u64,
    /// Runs in which some were.
    pub runs_moving: u64,
    /// Connections that have moved from one shard to another.
    pub followed: u64,
    /// Messages that starts without what was missing have lost.
    pub lost: u64,
    /// Of these, those of frames that were cut off, as nothing said that they had been durable.
    pub lost_unproven: u64,
    /// Deliveries of messages that were published before a crash.
    pub recovered: u64,
    /// Ticks of shards.
    pub ticks: u64,
    /// A digest of every event that clients received: the same for the same seed.
    pub digest: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        // Every field is named in a pattern without `..`, so that a new count cannot be forgotten.
        macro_rules! add {
            ($($count:ident)*) => {
                let Tally { $($count,)* digest } = other;
                $(self.$count += $count;)*
                self.digest ^= digest;
            };
        }
        add! {
            published confirmed declined delivered redelivered dead chained worn overdue answers refusals drained
            blocked_for_good blocked connections client_cuts crossed owed bindings dials refused links link_cuts silences
            forced stops reroutes crashes clean_stops disk_failures spill_failures full_spills relaxed_ends doubtful full_disks damages outcomes spoiled_footers flips flips_named flips_unpassed scrub_reports journal_reports refused_starts lossy_starts reshardings moved
            runs_moving followed lost lost_unproven recovered ticks
        }
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Tally { published, confirmed, declined, delivered, redelivered, dead, chained, worn, .. } = self;
        let Tally { drained, answers, refusals, overdue, connections, client_cuts, blocked, blocked_for_good, .. } =
            self;
        write!(
            f,
            "{published} messages published, {confirmed} answered for, {declined} refused, {delivered} delivered \
             ({redelivered} again, {dead} dead letters of which {chained} had died before, {worn} worn out), {drained} found \
             at the end; {answers} requests answered, {refusals} channels refused, {overdue} of them for a timeout; \
             {connections} connections, {client_cuts} cut, {blocked} times blocked, {blocked_for_good} runs blocked for good; "
        )?;
        let Tally { crossed, owed, bindings, stops, reroutes, dials, refused, links, link_cuts, silences, .. } = self;
        if *dials > 0 {
            write!(
                f,
                "{crossed} deliveries from other brokers, {owed} were owed; {bindings} bindings changed, {stops} brokers \
                 stopped, {reroutes} routes removed; {dials} dials, {refused} refused, {links} links, {link_cuts} cut, \
                 {silences} silent; {} with forced paths; ",
                self.forced
            )?;
        }
        let Tally { crashes, clean_stops, disk_failures, full_disks, damages, refused_starts, lossy_starts, .. } = self;
        if crashes + clean_stops + disk_failures > 0 {
            write!(
                f,
                "{crashes} crashes, {clean_stops} stops, {disk_failures} ends for a failed disk ({} of them for a spill disk), {} with {} confirmed messages in doubt, {} \
                 deliveries of what was published before; {full_disks} disks and {} spill disks full, {damages} places damaged, {} while it ran ({} of them named, {} in lives that ended before), {} footers damaged or stale, {} found by the scrub ({} of definitions), {refused_starts} starts refused, \
                 {lossy_starts} without {} messages that were damaged ({} of them in frames that nothing proves), {} with another number of shards; {} messages moved, \
                 in {} runs; ",
                self.spill_failures,
                self.relaxed_ends,
                self.doubtful,
                self.recovered,
                self.full_spills,
                self.flips,
                self.flips_named,
                self.flips_unpassed,
                self.spoiled_footers,
                self.scrub_reports,
                self.journal_reports,
                self.lost,
                self.lost_unproven,
                self.reshardings,
                self.moved,
                self.runs_moving
            )?;
        }
        if self.outcomes.sum() > 0 {
            write!(f, "of the places that were damaged: {}; ", self.outcomes)?;
        }
        write!(f, "{} connections moved between shards; ", self.followed)?;
        write!(f, "{} ticks; digest {:016x}", self.ticks, self.digest)
    }
}

/// A violated promise.
#[derive(Clone, Debug)]
pub struct SeedFailure {
    /// What was violated.
    pub violation: String,
    /// The settings of the run, and with them its seed.
    pub settings: Settings,
    /// What happened before, if the run was traced.
    pub trace: Vec<String>,
}

impl Display for SeedFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for line in &self.trace[self.trace.len().saturating_sub(TRACE_LINES_SHOWN)..] {
            writeln!(f, "  {line}")?;
        }
        let seed = self.settings.seed;
        writeln!(f, "seed {seed}: {}", self.violation)?;
        writeln!(f, "{}", self.settings)?;
        let option = self.settings.mode().option();
        write!(f, "reproduce with: cargo run -p harrier-sim --release -- {option}--seed {seed}")
    }
}

impl std::error::Error for SeedFailure {}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn sums_count_every_field_and_digests_cancel() {
        let one = Tally { published: 1, ticks: 2, reroutes: 3, digest: 0xF0, ..Tally::default() };
        let mut sum = one;
        sum += one;
        assert_eq!(sum, Tally { published: 2, ticks: 4, reroutes: 6, digest: 0, ..Tally::default() });
    }

    #[test]
    fn only_runs_with_dials_report_links() {
        let shown = |dials: u64| Tally { dials, ..Tally::default() }.to_string();
        assert!(!shown(0).contains("dials") && shown(3).contains("3 dials"));
    }
}
