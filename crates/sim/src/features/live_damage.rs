//! Damage of what was written, while the broker runs, and what its scrub says of it: exactly what was damaged, as far as it has
//! read, and never anything else.

use super::FeatureWorkload;
use crate::error_lines::{self, ErrorLine};
use crate::tally::Tally;
use crate::world::SimulatedWorld;
use simdisks::BrokerDisks;
use simdisks::{DamageKind, DamageLedger, DamageOutcome, PlacedDamage};
use simdisks::{LogSurvey, outcome_of, survey};
use std::collections::{BTreeMap, BTreeSet};
use store::limits::{BLOCK_BYTES, FRAME_HEADER_BYTES};
use store::{Block, Damage, FrameSequence, SegmentId};

/// What the scrub of a log of messages calls damage, and that of the journal of definitions.
const SCRUB_LINES: [&str; 2] = ["a part of the store is damaged", "the journal of definitions is damaged"];
/// What any log says of a read that fails.
const UNREADABLE: &str = "the disk cannot read a part of";
/// A frame is damaged early in a pass that has gone by its place: the one after that reads it.
const PASSES_UNTIL_READ: u64 = 2;

/// A place that was damaged.
struct Flip {
    segment: SegmentId,
    /// The blocks of the frame in which bits were flipped, one for each.
    blocks: Vec<Block>,
    /// How many passes had ended then, and how many have by now.
    since: u64,
    passes: u64,
    /// How many had when one was first seen to read it that had begun behind that.
    read_in: Option<u64>,
}

impl Flip {
    /// Whether so many passes have ended since that one of them should have read it.
    fn is_passed(&self) -> bool {
        self.since + PASSES_UNTIL_READ <= self.passes
    }

    /// Whether a pass has ended that must have found it. `is_last`: the segment is being filled, and a pass leaves that out while
    /// a write is under way.
    fn is_due(&self, passes: u64, is_last: bool) -> bool {
        let is_read = self.read_in.is_some_and(|pass| pass < passes);
        self.since + PASSES_UNTIL_READ <= passes && (is_read || !is_last)
    }
}

/// What is known of damage in this life of the broker.
#[derive(Default)]
pub struct LiveDamage {
    /// The disk and the frame of each place that was damaged.
    flips: BTreeMap<(usize, FrameSequence), Flip>,
    /// The disk and each frame that was named.
    named: BTreeSet<(usize, FrameSequence)>,
    /// What was damaged when the disks were mended: a pass may have read some of it before.
    mended: BTreeSet<(usize, FrameSequence)>,
    /// A read has failed, as it was to: the rest of a segment counts as damaged.
    is_unreadable: bool,
}

impl LiveDamage {
    /// Whether the broker may know of damage that is mended: it does not read again what its scrub could not.
    pub fn is_remembered(&self) -> bool {
        !self.mended.is_empty()
    }

    /// The broker's life, or the damage, ends: counts what has become of the places.
    ///
    /// What becomes of those that the scrub has not named is told by the next start.
    pub fn end_flips(&mut self, tally: &mut Tally, damage: &mut DamageLedger) {
        for (place, flip) in std::mem::take(&mut self.flips) {
            let is_named = self.named.contains(&place);
            let flips = flip.blocks.len() as u64;
            if is_named {
                tally.flips_named += flips;
                (0..flips).for_each(|_| tally.outcomes.count(DamageOutcome::NamedByScrub));
                continue;
            }
            tally.flips_unpassed += if flip.is_passed() { 0 } else { flips };
            let (disk, segment, kind) = (place.0, flip.segment, DamageKind::FlippedBit);
            flip.blocks.iter().for_each(|&block| damage.add(PlacedDamage { disk, segment, block, kind }));
        }
    }
}

/// How often a log has been scrubbed, and how many segments it has.
fn scrubs(world: &SimulatedWorld, disk: usize) -> Option<(u64, u64)> {
    let shards = &world.brokers[0].shards;
    let metrics = match shards.get(disk) {
        Some(node) => node.shard.store_metrics()?.messages,
        None => shards.first()?.shard.store_metrics()?.journal?,
    };
    Some((metrics.log.scrubs_done, metrics.log.segments_in_use))
}

/// The disk that a line of a scrub is about, if it is one.
fn disk_of(line: &ErrorLine, disks: &BrokerDisks) -> Option<usize> {
    match SCRUB_LINES.iter().position(|message| line.message == *message)? {
        // The journal is on the last one, and its log has the number of the first shard's.
        1 => Some(disks.count() - 1),
        _ => numbers(&line.damage).get(1).map(|&log| log as usize),
    }
}

/// The numbers in a text, in their order.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// What a scrub must say of the damage that it names, if all of it is true.
fn expected(survey: &LogSurvey, named: &[u64]) -> Option<Damage> {
    let &[_, _, _, first, last] = named else { return None };
    let (segment, block, damaged_to) = survey.damaged_from(FrameSequence(first))?;
    let next = FrameSequence(last.min(damaged_to.0) + 1);
    Some(Damage { segment, block, first: FrameSequence(first), next })
}

impl FeatureWorkload {
    /// A frame that was written may be damaged.
    pub fn draw_live_damage(&mut self, world: &mut SimulatedWorld) {
        let Some(durable) = self.settings.durable.filter(|durable| durable.flip_permille > 0) else { return };
        let Some(disks) = world.brokers[0].disks.clone() else { return };
        if !world.chance.permille(durable.flip_permille) {
            return;
        }
        let at = world.chance.below(disks.count() as u64) as usize;
        let Some(disk) = disks.all().nth(at) else { return };
        // Where a log cannot be read in spite of everything, the next start says so.
        let Ok(survey) = survey(&disks, at, disk) else { return };
        let frames = survey.frames();
        let Some(frame) = frames.get(world.chance.below(frames.len().max(1) as u64) as usize) else { return };
        let Some((passes, _)) = scrubs(world, at) else { return };
        let bytes = FRAME_HEADER_BYTES as u64 + u64::from(frame.header.bytes);
        let byte = world.chance.below(bytes) as usize;
        let (block, bit) = (Block(frame.block.0 + (byte / BLOCK_BYTES) as u32), byte % BLOCK_BYTES * 8);
        disk.with(|disk| disk.flip_bit(frame.segment, block, bit));
        let sequence = frame.header.sequence;
        // Damaged once more, a bit may be as it was: what counts is what the next pass reads.
        disk.with(|disk| disk.take_scrubbed(frame.segment, block));
        let before = self.live_damage.flips.remove(&(at, sequence));
        let mut blocks = before.map(|flip| flip.blocks).unwrap_or_default();
        blocks.push(block);
        let flip = Flip { segment: frame.segment, blocks, since: passes, passes, read_in: None };
        self.live_damage.flips.insert((at, sequence), flip);
        world.tally.flips += 1;
        world
            .trace
            .note(|| format!("disk {at}: frame {} is damaged at block {} of {}", sequence.0, block.0, frame.segment));
    }

    /// A pass may have read what was damaged.
    pub fn note_scrubs(&mut self, world: &SimulatedWorld) {
        let Some(disks) = world.brokers[0].disks.as_ref().filter(|_| !self.live_damage.flips.is_empty()) else {
            return;
        };
        for (&(at, _), flip) in &mut self.live_damage.flips {
            let (Some((passes, _)), Some(disk)) = (scrubs(world, at), disks.all().nth(at)) else { continue };
            flip.passes = passes;
            if flip.read_in.is_some() {
                continue;
            }
            let Some(&block) = flip.blocks.last() else { continue };
            let is_read = disk.with(|disk| disk.take_scrubbed(flip.segment, block));
            // The pass that was under way may have come to the segment before.
            flip.read_in = Some(passes).filter(|&passes| is_read && passes > flip.since + 1);
        }
    }

    /// The disks are about to be mended. What a start would make of their damage is looked at before.
    pub fn note_damage(&mut self, world: &mut SimulatedWorld) {
        let Some(disks) = world.brokers[0].disks.clone() else { return };
        self.live_damage.end_flips(&mut world.tally, &mut world.damage);
        let mut surveys = Vec::new();
        for (at, disk) in disks.all().enumerate() {
            let is_damaged = disk.peek(|disk| !disk.damage().is_empty());
            let survey = match is_damaged.then(|| survey(&disks, at, disk)).transpose() {
                Ok(survey) => survey,
                Err(why) => return world.trace.fail(format!("disk {at}: {why}")),
            };
            let lost = survey.iter().flat_map(LogSurvey::lost_frames).map(|frame| (at, frame));
            self.live_damage.mended.extend(lost);
            surveys.push(survey);
        }
        if let Err(violation) =
            world.damage.decide(&mut world.tally.outcomes, |place| outcome_of(&disks, &surveys, place))
        {
            world.trace.fail(violation);
        }
    }

    /// Whether writes of a disk may lie elsewhere.
    fn has_astray_writes(&self, at: usize, disks: &BrokerDisks) -> bool {
        at + 1 < disks.count() && disks.options().messages.misdirected_write > 0
    }

    /// What the broker has said of damage is true.
    pub fn check_damage_lines(&mut self, world: &mut SimulatedWorld) {
        if self.settings.durable.is_none() {
            return;
        }
        for line in error_lines::take() {
            let Some(disks) = world.brokers[0].disks.clone() else { return };
            world.trace.note(|| format!("the broker says: {line}"));
            if line.message.starts_with(UNREADABLE) {
                self.live_damage.is_unreadable = true;
                if !self.troubles.may_fail(&disks) {
                    return world.trace.fail(format!("no disk has failed, and the broker says: {line}"));
                }
            }
            let Some(at) = disk_of(&line, &disks) else { continue };
            let Some(disk) = disks.all().nth(at) else { return };
            let named = numbers(&line.damage);
            if self.live_damage.is_unreadable {
                continue;
            }
            let Ok(survey) = survey(&disks, at, disk) else { continue };
            let expected = expected(&survey, &named);
            let is_true = match self.has_astray_writes(at, &disks) {
                // What lies elsewhere may be found before what should be there.
                true => named.len() == 5 && (named[3]..=named[4]).all(|frame| survey.is_lost(FrameSequence(frame))),
                false => expected.map(|damage| damage.to_string()).as_deref() == Some(&*line.damage),
            };
            let was_true = || {
                let mut frames = named.iter().copied().skip(3).take(1).flat_map(|first| first..=named[4]);
                frames.all(|frame| self.live_damage.mended.contains(&(at, FrameSequence(frame))))
            };
            if !is_true && (self.live_damage.mended.is_empty() || !was_true()) {
                return world.trace.fail(format!("disk {at}: the scrub says {}, and {expected:?} is", line.damage));
            }
            world.tally.scrub_reports += 1;
            world.tally.journal_reports += u64::from(at + 1 == disks.count());
            let frames = named[3]..=named[4];
            self.live_damage.named.extend(frames.map(|frame| (at, FrameSequence(frame))));
        }
    }

    /// At rest: what was damaged long ago, and is a part of a log, is known.
    pub fn check_scrubbed(&mut self, world: &mut SimulatedWorld) {
        let Some(disks) = world.brokers[0].disks.clone() else { return };
        for at in 0..disks.count() {
            let Some((passes, segments)) = scrubs(world, at) else { return };
            // A frame may be read where another copy of it lies, and behind what cannot be read nothing is looked at.
            if self.has_astray_writes(at, &disks) || self.live_damage.is_unreadable {
                continue;
            }
            let flips = self.live_damage.flips.range((at, FrameSequence(0))..=(at, FrameSequence(u64::MAX)));
            let mut unnamed = flips.filter(|(place, _)| !self.live_damage.named.contains(place)).peekable();
            let Some(disk) = disks.all().nth(at).filter(|_| unnamed.peek().is_some()) else { continue };
            let Ok(survey) = survey(&disks, at, disk) else { continue };
            let last: BTreeSet<_> = survey.damaged_in_last(1).map(|frame| frame.header.sequence).collect();
            let is_due =
                |&(&(_, frame), flip): &(&(usize, FrameSequence), &Flip)| flip.is_due(passes, last.contains(&frame));
            let due: BTreeSet<FrameSequence> = unnamed.filter(is_due).map(|(&(_, frame), _)| frame).collect();
            let mut damaged = survey.damaged_in_last(segments as usize);
            if let Some(frame) = damaged.find(|frame| due.contains(&frame.header.sequence)) {
                let (frame, segment) = (frame.header.sequence.0, frame.segment);
                world
                    .trace
                    .fail(format!("disk {at}: frame {frame} of {segment} is damaged, and the scrub does not say so"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flip, numbers};
    use store::{Block, Damage, FrameSequence, LogId, SegmentId, SegmentNumber};

    #[test]
    fn damage_is_due_two_passes_later_and_in_the_segment_that_is_filled_once_one_has_read_it() {
        let segment = SegmentId { log: LogId(0), number: SegmentNumber(1) };
        let mut flip = Flip { segment, blocks: vec![Block(3)], since: 4, passes: 4, read_in: None };
        assert_eq!([5, 6].map(|passes| flip.is_due(passes, false)), [false, true]);
        assert_eq!([6, 60].map(|passes| flip.is_due(passes, true)), [false, false]);
        flip.read_in = Some(7);
        assert_eq!([7, 8].map(|passes| flip.is_due(passes, true)), [false, true]);
    }

    #[test]
    fn what_a_scrub_says_has_the_segment_the_log_the_block_and_the_frames() {
        let segment = SegmentId { log: LogId(2), number: SegmentNumber(31) };
        let damage = Damage { segment, block: Block(7), first: FrameSequence(40), next: FrameSequence(44) };
        assert_eq!(numbers(&damage.to_string()), [31, 2, 7, 40, 43]);
    }
}
