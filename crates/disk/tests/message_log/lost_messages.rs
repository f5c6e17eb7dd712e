//! What a survey of damage says is what a recovery does not find any more.

use crate::footers::filled;
use crate::seeds;
use crate::world::{LOG, STORE, World};
use std::collections::BTreeSet;
use store::limits::BLOCK_BYTES;
use store::{
    Damage, DamageSurvey, FoundMessage, FoundPage, LiveTotals, MessageLoss, OnDamage, Position, QueueUid, RecoverySink,
    StoredMessage, recover, survey_damage,
};

type Places = BTreeSet<(QueueUid, Position)>;

/// Which messages are alive.
struct Alive<'a> {
    queues: &'a [QueueUid],
    places: Places,
}

impl RecoverySink for Alive<'_> {
    type Message = ();

    fn is_there(&mut self, queue: QueueUid) -> bool {
        self.queues.contains(&queue)
    }
    fn is_loaded(&mut self, _: QueueUid, _: LiveTotals, _: LiveTotals) -> bool {
        true
    }
    fn message(&mut self, _: &StoredMessage<'_>) {}
    fn restore(&mut self, queue: QueueUid, position: Position, _: (), _: FoundMessage) {
        self.places.insert((queue, position));
    }
    fn restore_page(&mut self, _: QueueUid, _: FoundPage) {
        panic!("all of them are loaded");
    }
    fn finish(&mut self, _: QueueUid, _: &[Position]) {}
    fn on_damage(&mut self, _: &Damage) {}
}

fn alive(world: &mut World) -> Places {
    let mut alive = Alive { queues: &world.queues, places: Places::new() };
    let segments = world.disk.segments(LOG);
    recover(&mut world.disk, STORE, LOG, segments, OnDamage::Skip, &mut alive).expect("a log");
    alive.places
}

fn survey(world: &mut World) -> DamageSurvey {
    let (segments, queues) = (world.disk.segments(LOG), world.queues.clone());
    survey_damage(&mut world.disk, STORE, LOG, segments, |queue| queues.contains(&queue)).expect("a log")
}

/// The messages that are named with one of these losses.
fn named(survey: &DamageSurvey, losses: &[MessageLoss]) -> Places {
    let lost = survey.lost.iter().filter(|lost| losses.contains(&lost.loss));
    lost.flat_map(|lost| (lost.first.0..=lost.last.0).map(|position| (lost.queue, Position(position)))).collect()
}

/// Lost messages of damage that footers know, those of other damage, and those of these that are named.
#[derive(Default, Debug)]
struct Seen {
    known: usize,
    unsettled: usize,
    unknown: usize,
    missing: usize,
}

fn check(world: &mut World, before: &Places, what: &str, seen: &mut Seen) {
    let survey = survey(world);
    let after = alive(world);
    let told = format!("seed {}: {what}: {survey:?}", world.seed);
    assert_eq!(survey.unnamed, 0);
    let lost: Places = before.difference(&after).copied().collect();
    let again: Places = after.difference(before).copied().collect();
    let missing = named(&survey, &[MessageLoss::Lost, MessageLoss::Missing]);
    assert!(missing.is_disjoint(&after), "{told}");
    let wrong: Vec<_> = named(&survey, &[MessageLoss::Lost]).difference(&lost).copied().collect();
    assert_eq!(wrong, [], "{told}");
    assert!(named(&survey, &[MessageLoss::Unsettled]).is_subset(&again), "{told}");
    if survey.damage.is_empty() {
        return assert_eq!(survey, DamageSurvey::default());
    }
    if survey.damage.iter().all(|(_, is_known)| *is_known) {
        assert_eq!(named(&survey, &[MessageLoss::Lost]), lost, "{told}");
        assert_eq!(named(&survey, &[MessageLoss::Unsettled]), again, "{told}");
        seen.known += lost.len();
        seen.unsettled += again.len();
    } else {
        seen.unknown += lost.len();
        seen.missing += missing.intersection(&lost).count();
    }
}

#[test]
fn a_survey_of_damage_names_the_messages_that_a_recovery_does_not_find_any_more() {
    let mut seen = Seen::default();
    for seed in seeds(24) {
        let mut world = filled(seed);
        let before = alive(&mut world);
        assert_eq!(survey(&mut world), DamageSurvey::default());
        let blocks = world.disk.written_blocks(LOG);
        for _ in 0..20 {
            let (segment, block) = blocks[world.random.below(blocks.len() as u64) as usize];
            let bit = world.random.below(8 * BLOCK_BYTES as u64) as usize;
            world.disk.flip_bit(segment, block, bit);
            check(&mut world, &before, &format!("bit {bit} of block {} of {segment}", block.0), &mut seen);
            world.disk.flip_bit(segment, block, bit);
        }
        // A row of blocks, and several rows.
        for _ in 0..3 {
            let (segment, first) = blocks[world.random.below(blocks.len() as u64) as usize];
            let last = first.0 + world.random.below(200) as u32;
            for (at, block) in &blocks {
                if *at == segment && (first.0..=last).contains(&block.0) {
                    world.disk.flip_bit(segment, *block, 777);
                }
            }
            check(&mut world, &before, &format!("blocks {} to {last} of {segment}", first.0), &mut seen);
        }
    }
    println!("{seen:?}");
    assert!(seen.known > 20 && seen.unsettled > 10 && seen.unknown > 5, "{seen:?}");
    assert!(seen.missing * 10 >= seen.unknown * 9, "{seen:?}");
}
