use super::ShardEffects;
use crate::output_queues::OutputQueues;
use crate::test_sessions::sessions;
use broker::{AdminRequest, AdminRequestError, ConnectionSlot, Delivery, Effects, ReplyAddress};
use catalog::{Refusal, ShardId};
use queues::{BodyRef, Content};
use session::Outbound;
use std::sync::mpsc::sync_channel;
use wire::Method;
use wire::method::basic;
use wire::{BodyRun, ChannelNumber, DeliveryTag};

#[test]
fn replies_are_written_and_what_concerns_other_connections_is_noted() {
    let [open, absent, resumed, throttled, refused] = [3, 4, 5, 6, 7].map(ConnectionSlot::new);
    let mut effects = sessions().effects;
    effects.outputs.open(open, Outbound::new(), 0);
    let ack = || Method::BasicAck(basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    effects.reply(open, ChannelNumber(1), ack());
    effects.reply(absent, ChannelNumber(1), ack());
    assert!(effects.output_bytes() > 0 && effects.output(absent).is_none());
    assert_eq!((effects.outputs.next_dirty(), effects.outputs.next_dirty()), (Some(open), None));
    assert!(effects.has_capacity(open) && !effects.has_capacity(absent));

    effects.resume(resumed);
    effects.throttle(throttled);
    effects.refuse(
        refused,
        ChannelNumber(1),
        Refusal::connection(wire::ReplyCode::NotAllowed, "no"),
        basic::Publish::ID,
    );
    let refusals: Vec<_> = effects.refusals.iter().map(|refusal| (refusal.slot, refusal.method)).collect();
    assert_eq!((&effects.resumed[..], &effects.throttled[..]), (&[resumed][..], &[throttled][..]));
    assert_eq!(refusals, [(refused, basic::Publish::ID)]);
}

#[test]
fn administrative_requests_wait_for_the_program_up_to_a_limit() {
    let mut effects = sessions().effects;
    let request = || {
        let reply_to = ReplyAddress { shard: ShardId(0), channel: Default::default(), nonce: 1 };
        AdminRequest { user: "guest".into(), reply_to, correlation_id: None, body: [].into() }
    };
    assert_eq!(effects.admin_request(request()), Err(AdminRequestError::Unavailable));
    let (sender, requests) = sync_channel(1);
    effects.send_requests_to(sender);
    assert_eq!(
        [effects.admin_request(request()), effects.admin_request(request())],
        [Ok(()), Err(AdminRequestError::Busy)]
    );
    assert_eq!(requests.try_recv(), Ok(request()));
    drop(requests);
    assert_eq!(effects.admin_request(request()), Err(AdminRequestError::Unavailable));
}

/// A delivery of a message with this body.
fn delivery(tag: u64, body: &[u8]) -> Delivery<'_> {
    let content = Content { exchange: b"x", routing_key: b"key", body: BodyRef::Small(body), ..Content::EMPTY };
    Delivery { consumer_tag: b"c", tag: DeliveryTag(tag), redelivered: false, content }
}

fn written(effects: &ShardEffects, slot: ConnectionSlot) -> Vec<u8> {
    let output = effects.outputs.get(slot).expect("it is open");
    output.out.gather().parts().flatten().copied().collect()
}

#[test]
fn an_output_accepts_as_much_of_a_run_as_of_single_messages() {
    const BODY_BYTES: usize = 50;
    let slots @ [single, run] = [1, 2].map(ConnectionSlot::new);
    let messages: Vec<u8> = (0..90_u8).flat_map(|number| [number; BODY_BYTES]).collect();
    let bodies = BodyRun::new(&messages, BODY_BYTES, 0, BODY_BYTES);
    for (limit_bytes, expected) in [(1, 1), (108, 1), (109, 1), (110, 2), (5_000, 46), (1 << 20, 90)] {
        let mut effects = sessions().effects;
        effects.outputs = OutputQueues::new(limit_bytes);
        slots.into_iter().for_each(|slot| effects.outputs.open(slot, Outbound::new(), 0));
        let mut delivered = 0;
        for (tag, body) in (1..).zip(bodies.iter()) {
            if effects.has_capacity(single) {
                effects.deliver(single, ChannelNumber(1), delivery(tag, body));
                delivered += 1;
            }
        }
        let first = || delivery(1, bodies.first());
        let accepted = effects.accepted_deliveries(run, &first(), bodies.len());
        assert_eq!((delivered, accepted), (expected, expected), "{limit_bytes} bytes");
        effects.deliver_run(run, ChannelNumber(1), first(), bodies.take(accepted).expect("at least one"));
        assert_eq!(written(&effects, run), written(&effects, single), "{limit_bytes} bytes");
        let is_full = expected < bodies.len();
        assert_eq!(effects.accepted_deliveries(run, &first(), 3), if is_full { 0 } else { 3 });
        assert_eq!(effects.copied.bytes_out, 2 * (expected * BODY_BYTES) as u64);
        let absent = effects.accepted_deliveries(ConnectionSlot::new(3), &first(), 3);
        assert_eq!(absent, 0, "nobody is there");
    }
}

#[test]
fn what_needs_several_frames_or_goes_over_a_link_is_not_accepted_as_a_run() {
    let slot = ConnectionSlot::new(1);
    let mut effects = sessions().effects;
    let mut out = Outbound::new();
    out.set_frame_bytes_max(4_096);
    effects.outputs.open(slot, out, 0);
    let body = [0; 5_000];
    let accepted = |effects: &ShardEffects, bytes| effects.accepted_deliveries(slot, &delivery(1, &body[..bytes]), 2);
    assert_eq!([4_088, 4_089].map(|bytes| accepted(&effects, bytes)), [2, 0]);
    effects.output(slot).expect("it is open").link_output = Some(Box::default());
    assert_eq!(accepted(&effects, 10), 0);
}
