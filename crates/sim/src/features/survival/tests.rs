//! What the model expects of a crash.

use super::{InterruptedCommit, Survival};
use crate::features::shadow_model::{
    BindingTarget, Lifetime, PublishOutcome, SettlementProgress, ShadowBinding, ShadowExchange, ShadowExchangeType,
    ShadowMessage, ShadowModel,
};
use crate::features::sync_losses::{CrashLoss, DurableUntil};

/// A durable queue and a transient one, both confirmed, and messages 1 to 8 in both: persistent, sent, not answered.
fn model() -> (ShadowModel, [usize; 2]) {
    let mut model = ShadowModel::new(true);
    let queues = ["d", "t"].map(|name| model.add_queue(name.into(), None, false));
    model.queues[queues[0]].durable = true;
    for at in queues {
        model.queues[at].life.made = Some(1);
    }
    model.tick();
    for id in 1..=8 {
        let message = ShadowMessage {
            key: "d".into(),
            further_keys: [vec!["t".into()], Vec::new()],
            persistent: true,
            sent: model.now,
            ..ShadowMessage::example(7)
        };
        model.messages.insert(id, message);
    }
    model.tick();
    (model, queues)
}

fn rest(model: &mut ShadowModel) {
    model.tick();
    model.end_period(false);
    model.store_at_rest();
    model.tick();
}

#[test]
fn losses_go_on_while_a_limit_blocks_those_whose_channels_have_ended() {
    let (mut model, [durable, _]) = model();
    model.queues[durable].allow_losses(true);
    let period = model.leaving_period();
    model.end_period(true);
    let queue = &model.queues[durable];
    assert_eq!((queue.may_lose_messages, queue.forgiven, model.leaving_period()), (true, 0, period));
    model.end_period(false);
    let queue = &model.queues[durable];
    assert_eq!((queue.may_lose_messages, queue.forgiven), (false, model.newest()));
    assert!(queue.forgiven > 0 && model.leaving_period() > period);
}

#[test]
fn a_confirmed_message_is_there_an_unanswered_one_may_be_and_others_are_gone() {
    let (mut model, [durable, transient]) = model();
    for id in [1, 2, 3] {
        model.confirm(id, true).expect("it is routed");
    }
    // A later answer says that the broker has it, not that it is stored.
    model.confirm(4, false).expect("it is routed");
    model.messages.get_mut(&2).expect("it exists").persistent = false;
    model.queues[durable].deliveries.entry(3).or_default().settled = SettlementProgress::SendOutcome;
    model.queues[durable].owed.remove(&3);
    for (id, outcome) in [(6, PublishOutcome::Never), (7, PublishOutcome::Staged), (8, PublishOutcome::Unknown)] {
        model.messages.get_mut(&id).expect("it exists").outcome = outcome;
    }
    let expected = [
        (1, Survival::There),
        (2, Survival::Gone),
        (3, Survival::Possible),
        (4, Survival::Possible),
        (5, Survival::Possible),
        (6, Survival::Gone),
        (7, Survival::Gone),
        (8, Survival::Possible),
    ];
    for (id, survival) in expected {
        assert_eq!(model.survival(durable, id), survival, "message {id}");
        assert_eq!(model.survival(transient, id), Survival::Gone, "message {id} of a transient queue");
    }
    model.crash(Vec::new(), None);
    assert!(model.queues[durable].owed.iter().eq(&[1]));
    assert!(model.check_survival(durable, 2).is_err_and(|what| what.contains("transient message 2")));
    assert_eq!(model.check_survival(durable, 4), Ok(()));
    assert!(model.messages[&5].routed.is_some(), "nothing is routed any more that was sent before");
}

#[test]
fn what_was_done_before_a_rest_is_durable() {
    let (mut model, [durable, _]) = model();
    for id in [1, 2] {
        model.confirm(id, false).expect("it is routed");
    }
    let settle = |model: &mut ShadowModel, id| {
        let delivery = model.queues[durable].deliveries.entry(id).or_default();
        (delivery.times, delivery.settled) = (1, SettlementProgress::Proven);
        model.queues[durable].owed.remove(&id);
    };
    settle(&mut model, 1);
    rest(&mut model);
    for id in [3, 4] {
        model.confirm(id, false).expect("it is routed");
    }
    settle(&mut model, 3);
    assert_eq!(
        [1, 2, 3, 4].map(|id| model.survival(durable, id)),
        [Survival::Gone, Survival::There, Survival::Possible, Survival::Possible]
    );
    model.crash(Vec::new(), None);
    let [before, after] = [1, 3].map(|id| &model.queues[durable].deliveries[&id]);
    assert_eq!((before.settled, before.times), (SettlementProgress::Proven, 1));
    assert_eq!((after.settled, after.times), (SettlementProgress::None, 0), "it may come again, flagged or not");
}

#[test]
fn a_delivery_before_a_rest_is_flagged_after_a_crash_and_keeps_its_count() {
    let (mut model, [durable, _]) = model();
    model.confirm(1, true).expect("it is routed");
    let delivery = model.queues[durable].deliveries.entry(1).or_default();
    (delivery.times, delivery.returns, delivery.holder) = (3, 0b101, Some(7));
    rest(&mut model);
    model.queues[durable].deliveries.entry(1).or_default().returns |= 0b1000;
    model.crash(Vec::new(), None);
    let delivery = &model.queues[durable].deliveries[&1];
    assert_eq!((delivery.times, delivery.returns, delivery.holder), (3, 0b11, None));
}

#[test]
fn durable_definitions_stay_and_a_binding_is_as_durable_as_its_ends() {
    let (mut model, [durable, transient]) = model();
    let exclusive = model.add_queue("e".into(), Some(3), false);
    model.queues[exclusive].durable = true;
    for (name, is_durable) in [("x", true), ("y", false)] {
        model.exchanges.push(ShadowExchange {
            name: name.into(),
            exchange_type: ShadowExchangeType::Fanout,
            alternate: None,
            auto_delete: false,
            durable: is_durable,
            life: Lifetime { made: Some(1), ..Lifetime::requested(1) },
        });
    }
    let (kept, lost) = (1, 2);
    let ends = [
        (kept, BindingTarget::Queue(durable), true),
        (kept, BindingTarget::Queue(transient), false),
        (kept, BindingTarget::Queue(exclusive), false),
        (lost, BindingTarget::Queue(durable), false),
        (kept, BindingTarget::Exchange(lost), false),
        (kept, BindingTarget::Exchange(kept), true),
    ];
    for (source, target, _) in ends {
        let life = Lifetime { made: Some(1), ..Lifetime::requested(1) };
        let (key, lives) = (String::new(), vec![life]);
        model.bindings.push(ShadowBinding { source, target, key, headers: None, lives, locked: true });
    }
    model.crash(Vec::new(), None);
    let now = model.now;
    let is_there = |life: &Lifetime| (life.surely_spans(now, now), life.ended.is_some());
    for (queue, there) in [(durable, true), (transient, false), (exclusive, false)] {
        let life = &model.queues[queue].life;
        assert_eq!((life.ending.is_none(), life.ended.is_none()), (there, there), "queue {queue}");
    }
    assert!(model.exchanges[kept].life.ended.is_none() && model.exchanges[lost].life.ended.is_some());
    for (binding, (.., there)) in model.bindings.iter().zip(ends) {
        assert_eq!(is_there(&binding.lives[0]), (there, !there), "{:?}", binding.target);
        assert_eq!(binding.locked, there, "what is surely gone may be bound again");
    }
}

#[test]
fn a_commit_that_crashed_is_whole_or_nothing() {
    let commit = || InterruptedCommit::new(vec![1, 2], vec![(0, 3)]);
    let crashed = || {
        let (mut model, [durable, _]) = model();
        for id in [1, 2] {
            model.messages.get_mut(&id).expect("it exists").outcome = PublishOutcome::Unknown;
        }
        model.crash(vec![commit()], None);
        (model, durable)
    };
    // One publish came: the other one is owed, and what the commit acknowledged is gone.
    let (mut model, queue) = crashed();
    assert_eq!(model.check_survival(queue, 1), Ok(()));
    assert!(model.queues[queue].owed.contains(&2) && model.survival(queue, 3) == Survival::Gone);
    // What it acknowledged came again: nobody receives what it published.
    let (mut model, queue) = crashed();
    assert_eq!(model.check_survival(queue, 3), Ok(()));
    assert_eq!([1, 2].map(|id| model.messages[&id].outcome), [PublishOutcome::Never; 2]);
    assert_eq!(model.survival(queue, 1), Survival::Gone);
}

#[test]
fn of_a_commit_that_crashed_something_must_come_and_all_that_it_acknowledged_if_it_was_not_executed() {
    let (mut model, [durable, _]) = model();
    for id in [3, 4] {
        model.confirm(id, true).expect("it is routed");
        model.queues[durable].owed.remove(&id);
    }
    model.messages.get_mut(&1).expect("it exists").outcome = PublishOutcome::Unknown;
    model.crash(vec![InterruptedCommit::new(vec![1], vec![(durable, 3), (durable, 4), (durable, 5)])], None);
    // Of message 5 nothing is promised.
    assert_eq!(model.undecided_commits(), [3, 4].map(|id| [(durable, 1), (durable, id)]));
    assert_eq!(model.check_survival(durable, 3), Ok(()));
    assert!(model.queues[durable].owed.iter().eq(&[4]) && model.undecided_commits().is_empty());
}

#[test]
fn what_an_answered_commit_acknowledged_is_gone_and_a_rejection_counts_where_there_are_no_dead_letters() {
    for has_dead_letters in [false, true] {
        let (mut model, [durable, transient]) = model();
        model.queues[durable].traits.dead = has_dead_letters.then_some(transient);
        for id in [1, 2] {
            model.confirm(id, true).expect("it is routed");
            model.queues[durable].owed.remove(&id);
            model.queues[durable].deliveries.entry(id).or_default().settled = SettlementProgress::Proven;
        }
        model.store_committed(&[(durable, 1, false), (durable, 2, true)]);
        model.crash(Vec::new(), None);
        let settled = [1, 2].map(|id| model.queues[durable].deliveries[&id].settled == SettlementProgress::Proven);
        assert_eq!(settled, [true, !has_dead_letters]);
    }
}

#[test]
fn a_rejected_message_is_a_dead_letter_or_comes_again() {
    let (mut model, [durable, _]) = model();
    let target = model.add_queue("dead".into(), None, false);
    (model.queues[target].durable, model.queues[target].life.made) = (true, Some(1));
    model.queues[durable].traits.dead = Some(target);
    for id in [1, 2] {
        model.confirm(id, true).expect("it is routed");
        model.queues[durable].owed.remove(&id);
        model.dead_letter(durable, id);
    }
    let copies: Vec<u64> = model.queues[target].owed.iter().copied().collect();
    model.crash(Vec::new(), None);
    assert!(model.queues[target].owed.is_empty(), "no answer says that the dead letters are stored");
    assert_eq!(model.pending_alternatives().len(), 2);
    assert_eq!(model.check_survival(durable, 1), Ok(()));
    assert_eq!(model.pending_alternatives(), [[(target, copies[1]), (durable, 2)]]);
    model.queues[target].deliveries.entry(copies[1]).or_default().times = 1;
    assert!(model.pending_alternatives().is_empty());
}

#[test]
fn a_rejected_message_that_damage_took_is_owed_in_neither_place() {
    let (mut model, [durable, _]) = model();
    let target = model.add_queue("dead".into(), None, false);
    (model.queues[target].durable, model.queues[target].life.made) = (true, Some(1));
    model.queues[durable].traits.dead = Some(target);
    for id in [1, 2] {
        model.confirm(id, true).expect("it is routed");
        model.queues[durable].owed.remove(&id);
        model.dead_letter(durable, id);
    }
    model.crash(Vec::new(), None);
    model.queues[durable].survival.lose(&[1].into());
    let left = model.pending_alternatives();
    assert_eq!(left.iter().map(|[_, origin]| *origin).collect::<Vec<_>>(), [(durable, 2)]);
}

#[test]
fn a_purged_message_is_gone_for_good_unless_somebody_may_have_had_it() {
    for (had, purged) in [(false, true), (true, false)] {
        let (mut model, [durable, _]) = model();
        model.confirm(1, true).expect("it is routed");
        let requested = model.tick();
        model.confirm(2, true).expect("it is routed");
        model.queues[durable].had_unseen_deliveries = had;
        model.purge(durable, requested);
        let is_purged = |model: &ShadowModel, id| model.queues[durable].survival.is_purged(id);
        assert_eq!((is_purged(&model, 1), is_purged(&model, 2)), (purged, false));
        rest(&mut model);
        model.crash(Vec::new(), None);
        assert_eq!((is_purged(&model, 1), is_purged(&model, 2)), (purged, false));
    }
    let (mut model, [durable, _]) = model();
    model.confirm(1, true).expect("it is routed");
    let requested = model.tick();
    model.purge(durable, requested);
    model.crash(Vec::new(), None);
    assert!(model.queues[durable].survival.is_purged(1), "a purge that is answered is durable");
}

#[test]
fn a_confirm_of_a_mandatory_message_proves_the_queue_whose_declaration_is_not_answered() {
    for (mandatory, is_owed) in [(true, true), (false, false)] {
        let mut model = ShadowModel { has_store: true, ..ShadowModel::new(true) };
        let queue = model.add_queue("q".into(), None, false);
        model.queues[queue].durable = true;
        model.tick();
        let message = ShadowMessage {
            key: "q".into(),
            persistent: true,
            mandatory,
            sent: model.now,
            ..ShadowMessage::example(7)
        };
        model.messages.insert(1, message);
        model.tick();
        let confirmed = model.confirm(1, true);
        assert_eq!(confirmed, Ok(()), "it may be there");
        assert_eq!(model.queues[queue].owed.contains(&1), is_owed);
        assert_eq!(model.queues[queue].survival.is_proven, is_owed);
        assert_eq!(model.survival(queue, 1) == Survival::There, is_owed);
    }
}

#[test]
fn a_confirm_of_what_may_be_gone_at_once_proves_no_queue() {
    let kept = || ShadowMessage { key: "q".into(), persistent: true, mandatory: true, ..ShadowMessage::example(7) };
    let transient = ShadowMessage { persistent: false, ..kept() };
    let expiring = ShadowMessage { expiration_us: Some(0), ..kept() };
    for (message, ttl_us, is_proven) in
        [(kept(), None, true), (kept(), Some(0), false), (transient, None, false), (expiring, None, false)]
    {
        let mut model = ShadowModel { has_store: true, ..ShadowModel::new(true) };
        let queue = model.add_queue("q".into(), None, false);
        (model.queues[queue].durable, model.queues[queue].traits.ttl_us) = (true, ttl_us);
        let sent = model.tick();
        model.messages.insert(1, ShadowMessage { sent, ..message });
        model.tick();
        assert_eq!(model.confirm(1, true), Ok(()));
        assert_eq!(model.queues[queue].survival.is_proven, is_proven);
    }
}

#[test]
fn nothing_is_confirmed_that_was_sent_when_the_broker_had_closed_its_connections() {
    let (mut model, _) = model();
    model.ended = model.tick();
    assert_eq!(model.confirm(1, true), Ok(()), "it was sent before");
    model.messages.get_mut(&2).expect("it exists").sent = model.tick();
    assert!(model.confirm(2, true).is_err_and(|what| what.contains("had closed its connections")));
}

#[test]
fn what_a_broker_had_is_there_after_it_was_asked_to_stop() {
    let (mut model, [durable, _]) = model();
    model.confirm(1, false).expect("it is routed");
    assert_eq!(model.survival(durable, 1), Survival::Possible);
    model.store_at_stop();
    assert_eq!((model.survival(durable, 1), model.survival(durable, 5)), (Survival::There, Survival::Possible));
}

/// A crash that takes back what was confirmed after these moments, of queues that are all on one shard or each on another.
fn loss(queues: &[usize], on_one_shard: bool, messages_us: u64, settlements_us: u64) -> CrashLoss {
    let until = |shard| DurableUntil { shard, messages_us, settlements_us };
    let shard = |at: usize| if on_one_shard { 0 } else { at };
    let queues = queues.iter().enumerate().map(|(at, &queue)| (queue, until(Some(shard(at)))));
    CrashLoss { queues: queues.collect(), least: until(None) }
}

#[test]
fn what_was_confirmed_last_is_in_doubt_and_there_if_anything_behind_it_is() {
    let (mut model, [durable, _]) = model();
    for (id, now_us) in [(1, 100), (2, 200), (3, 300), (4, 400)] {
        model.now_us = now_us;
        model.confirm(id, true).expect("it is routed");
    }
    let crash_loss = loss(&[durable], true, 100, 100);
    assert_eq!(model.crash(Vec::new(), Some(crash_loss)), 3);
    assert!(model.queues[durable].owed.iter().eq(&[1]), "it was confirmed in time");
    assert_eq!(model.check_survival(durable, 3), Ok(()));
    assert!(
        model.queues[durable].owed.iter().eq(&[1, 2]),
        "it is before what came, and the last one need not be there"
    );
}

#[test]
fn a_crash_takes_back_late_purges_and_acknowledgements_of_late_commits() {
    let (mut model, [durable, _]) = model();
    for id in [1, 2] {
        model.confirm(id, true).expect("it is routed");
        model.queues[durable].owed.remove(&id);
        model.queues[durable].deliveries.entry(id).or_default().settled = SettlementProgress::Proven;
        model.now_us = 100 * id;
        model.store_committed(&[(durable, id, false)]);
    }
    for id in [3, 4] {
        model.confirm(id, true).expect("it is routed");
        let now = model.tick();
        model.now_us = 50 * id;
        model.purge(durable, now);
    }
    model.crash(Vec::new(), Some(loss(&[durable], true, 0, 150)));
    let settled = [1, 2].map(|id| model.queues[durable].deliveries[&id].settled == SettlementProgress::Proven);
    assert_eq!(settled, [true, false]);
    assert_eq!([3, 4].map(|id| model.queues[durable].survival.is_purged(id)), [true, false]);
}

#[test]
fn a_dead_letter_that_went_to_another_log_may_be_lost_and_on_one_shard_it_is_here_or_there() {
    for on_one_shard in [true, false] {
        let (mut model, [durable, _]) = model();
        let target = model.add_queue("dead".into(), None, false);
        (model.queues[target].durable, model.queues[target].life.made) = (true, Some(1));
        model.queues[durable].traits.dead = Some(target);
        model.confirm(1, true).expect("it is routed");
        model.queues[durable].owed.remove(&1);
        model.dead_letter(durable, 1);
        model.crash(Vec::new(), Some(loss(&[durable, target], on_one_shard, 9, 9)));
        assert_eq!(model.pending_alternatives().len(), usize::from(on_one_shard));
        let sent = model.messages[&1].sent;
        assert_eq!(model.queues[durable].survival.may_have_lost_letter(sent), !on_one_shard);
        assert!(!model.queues[durable].survival.may_have_lost_letter(model.now));
    }
}
