//! The journal of definitions: whatever is executed, and wherever the journal ends, a restart finds the durable part of it.
//!
//! Enters: random definitions, executed by a catalog and journaled; snapshots in between.  Leaves: agreement of the catalog with
//!         one that was restored, or the shortest list of definitions that breaks it.

mod world;

use catalog::{Catalog, CatalogLimits, Definition, QueueUid};
use definitions::{DurableDefinitions, JournalFault, JournalReplay};
use proptest::prelude::*;
use world::{Journaled, Step, durable_part, steps};

/// Replays pieces of a journal, and restores what they come to in a new catalog.
fn restored(pieces: &[Vec<u8>], from_beginning: bool) -> Catalog {
    let mut replay = JournalReplay::new(from_beginning);
    pieces.iter().for_each(|piece| replay.push(piece).expect("a piece that was written"));
    let durable = replay.finish().expect("whole");
    let mut catalog = Catalog::new(CatalogLimits::default());
    let executed = durable.restore(&mut catalog).expect("what was defined can be defined");
    let mut replica = Catalog::new(CatalogLimits::default());
    for definition in &executed {
        replica.execute(definition).expect("replicas are alike");
    }
    assert_eq!(durable_part(&replica), durable_part(&catalog));
    catalog
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn wherever_the_journal_ends_the_durable_part_is_as_it_was(steps in steps(1..40)) {
        let mut journaled = Journaled::new();
        // What was durable when the journal had so many pieces.
        let begin = journaled.pieces.len();
        let mut expected = vec![(begin, durable_part(&journaled.catalog))];
        for step in &steps {
            journaled.take(step);
            expected.push((journaled.pieces.len(), durable_part(&journaled.catalog)));
        }
        for cut in begin..=journaled.pieces.len() {
            let (_, then) = expected.iter().rfind(|(pieces, _)| *pieces <= cut).expect("a beginning");
            prop_assert_eq!(&durable_part(&restored(&journaled.pieces[..cut], true)), then, "{} pieces", cut);
        }
    }

    #[test]
    fn a_snapshot_and_what_follows_is_as_the_whole_journal(
        before in steps(0..30),
        during in prop::collection::vec((world::step(), 0..3u32), 0..60),
        after in steps(0..10),
        places in 1..4u32,
    ) {
        let mut journaled = Journaled::new();
        before.iter().for_each(|step| journaled.take(step));
        let begin = journaled.pieces.len();
        journaled.begin_snapshot();
        for (step, snapshot_steps) in &during {
            (0..*snapshot_steps).for_each(|_| journaled.snapshot_step(places));
            journaled.take(step);
        }
        let incomplete = durable_part(&journaled.catalog);
        prop_assert_eq!(&durable_part(&restored(&journaled.pieces, true)), &incomplete, "the snapshot may not be complete");
        while !journaled.snapshot_is_complete() {
            journaled.snapshot_step(places);
        }
        after.iter().for_each(|step| journaled.take(step));
        let now = durable_part(&journaled.catalog);
        prop_assert_eq!(&durable_part(&restored(&journaled.pieces, true)), &now);
        prop_assert_eq!(&durable_part(&restored(&journaled.pieces[begin..], false)), &now);
    }
}

#[test]
fn a_journal_without_its_beginning_needs_a_snapshot() {
    let mut journaled = Journaled::new();
    for name in ["a", "b", "c"] {
        journaled.take(&Step::vhost(name));
    }
    let mut replay = JournalReplay::new(false);
    journaled.pieces[1..].iter().for_each(|piece| replay.push(piece).expect("sound"));
    assert_eq!(replay.finish().map(|_| ()), Err(JournalFault::NoSnapshot));
}

#[test]
fn a_snapshot_that_damage_has_hit_does_not_count() {
    let mut journaled = Journaled::new();
    let begin = journaled.pieces.len();
    journaled.take(&Step::vhost("a"));
    journaled.begin_snapshot();
    journaled.snapshot_step(1);
    journaled.take(&Step::vhost("b"));
    let before = journaled.pieces.len();
    while !journaled.snapshot_is_complete() {
        journaled.snapshot_step(1);
    }
    let replayed = |from_beginning| {
        let mut replay = JournalReplay::new(from_beginning);
        let from = if from_beginning { 0 } else { begin };
        journaled.pieces[from..before].iter().for_each(|piece| replay.push(piece).expect("sound"));
        replay.skip();
        journaled.pieces[before + 1..].iter().for_each(|piece| replay.push(piece).expect("sound"));
        replay.finish().map(|durable| durable.counts()[0])
    };
    assert_eq!(replayed(true), Ok(("virtual hosts", 3)), "the journal from its beginning counts");
    assert_eq!(replayed(false), Err(JournalFault::NoSnapshot));
}

#[test]
fn a_snapshot_that_was_begun_has_the_policies_of_its_moment() {
    let mut journaled = Journaled::new();
    journaled.take(&Step::policy("before"));
    // The configuration has others at the next start, and nobody journals that.
    journaled.catalog.execute(&Step::policy("after").0).expect("a policy");
    journaled.finish();
    journaled.begin_snapshot();
    journaled.snapshot_step(1);
    assert!(!journaled.snapshot_is_complete());
    assert_eq!(durable_part(&restored(&journaled.pieces, true)), durable_part(&journaled.catalog));
}

#[test]
fn what_is_in_a_virtual_host_goes_with_it() {
    let mut journaled = Journaled::new();
    for step in [Step::vhost("v"), Step::user("a", "s")].into_iter().chain(Step::all_in_vhost("v", "a")) {
        let before = journaled.pieces.len();
        journaled.take(&step);
        assert!(journaled.pieces.len() > before, "{step:?} is journaled");
    }
    journaled.take(&Step(Definition::DeleteVhost { name: catalog::Name::from("v") }));
    assert_eq!(durable_part(&restored(&journaled.pieces, true)), durable_part(&journaled.catalog));
    journaled.take(&Step::vhost("v"));
    assert_eq!(durable_part(&restored(&journaled.pieces, true)), durable_part(&journaled.catalog));
}

#[test]
fn uids_of_queues_that_are_gone_are_not_used_again() {
    let mut journaled = Journaled::new();
    let [declare, delete] = [Step::queue("q"), Step::delete_queue("q")];
    for _ in 0..3 {
        journaled.take(&declare);
        journaled.take(&delete);
    }
    let catalog = restored(&journaled.pieces, true);
    assert_eq!((catalog.queues_count(), catalog.next_queue_uid()), (0, QueueUid::new(4).expect("a uid")));
}

#[test]
fn queues_stay_where_their_messages_are_unless_they_are_spread_over_other_shards() {
    let mut journaled = Journaled::new();
    for name in ["a", "b", "c", "d"] {
        journaled.take(&Step::queue(name));
    }
    let mut replay = JournalReplay::new(true);
    journaled.pieces.iter().for_each(|piece| replay.push(piece).expect("sound"));
    let mut durable = replay.finish().expect("whole");
    let homes = |durable: &DurableDefinitions| -> Vec<(u64, u16)> {
        let mut catalog = Catalog::new(CatalogLimits::default());
        durable.restore(&mut catalog).expect("restored");
        catalog.queues().map(|(_, queue)| (queue.uid.expect("durable").number(), queue.home.0)).collect()
    };
    assert_eq!(homes(&durable), [(1, 0), (2, 1), (3, 2), (4, 0)]);
    durable.spread_over(2);
    assert_eq!(homes(&durable), [(1, 1), (2, 0), (3, 1), (4, 0)]);
}

#[test]
fn exchanges_that_go_in_later_steps_go_from_the_journal_too() {
    let mut journaled = Journaled::new();
    journaled.take(&Step::queue("q"));
    // More bindings than one definition removes.
    let exchanges = catalog::limits::DEFINITION_STEPS_MAX + 100;
    for exchange in 0..exchanges {
        journaled.take(&Step::auto_delete_exchange(&format!("x{exchange}")));
        journaled.take(&Step::bind(&format!("x{exchange}"), "q"));
    }
    journaled.execute(&Step::delete_queue("q"));
    assert!(journaled.catalog.has_unfinished());
    assert_eq!(durable_part(&restored(&journaled.pieces, true)), durable_part(&journaled.catalog));
    journaled.finish();
    let catalog = restored(&journaled.pieces, true);
    assert_eq!(durable_part(&catalog), durable_part(&journaled.catalog));
    assert!(!catalog.exchanges().any(|(_, exchange)| exchange.name.starts_with('x')));
}

#[test]
fn what_the_catalog_refuses_now_is_named() {
    let mut journaled = Journaled::new();
    journaled.take(&Step::queue("a"));
    journaled.take(&Step::queue("b"));
    let mut replay = JournalReplay::new(true);
    journaled.pieces.iter().for_each(|piece| replay.push(piece).expect("sound"));
    let mut catalog = Catalog::new(CatalogLimits { queues_max: 1, ..CatalogLimits::default() });
    let fault = replay.finish().expect("whole").restore(&mut catalog).expect_err("there may be only one queue");
    assert_eq!(
        fault.to_string(),
        "queue 'b' in vhost '/' cannot be restored: PRECONDITION_FAILED - cannot declare queue 'b' in vhost '/': queue limit of 1 is \
         reached"
    );
}

#[test]
fn more_queues_than_may_be_declared_are_restored() {
    let mut journaled = Journaled::new();
    journaled.take(&Step::queue("a"));
    journaled.take(&Step::queue("b"));
    journaled.take(&Step::queues_max("/", 1));
    let catalog = restored(&journaled.pieces, true);
    assert_eq!(durable_part(&catalog), durable_part(&journaled.catalog));
    assert_eq!(catalog.queues_count(), 2);
}

#[test]
fn what_is_not_durable_is_not_journaled() {
    let mut journaled = Journaled::new();
    let before = journaled.pieces.len();
    for definition in
        [Step::transient_queue("q"), Step::transient_exchange("x"), Step::bind("x", "q"), Step::unbind("x", "q")]
    {
        journaled.take(&definition);
    }
    journaled.take(&Step::queue("d"));
    let with_queue = journaled.pieces.len();
    journaled.take(&Step::bind("x", "d"));
    journaled.take(&Step(Definition::Finish));
    journaled.take(&Step::queue("d"));
    assert_eq!((with_queue - before, journaled.pieces.len() - with_queue), (1, 0));
}

#[test]
fn a_plain_password_is_never_written() {
    let mut journaled = Journaled::new();
    journaled.take(&Step::user("somebody", "s3cret-s3cret"));
    journaled.begin_snapshot();
    while !journaled.snapshot_is_complete() {
        journaled.snapshot_step(8);
    }
    for piece in &journaled.pieces {
        assert!(!piece.windows(12).any(|bytes| bytes == b"s3cret-s3cre"));
    }
    let catalog = restored(&journaled.pieces, true);
    assert!(catalog.authenticate(b"somebody", b"s3cret-s3cret", true).is_ok());
    assert!(catalog.authenticate(b"somebody", b"s3cret", true).is_err());
}
