//! What needs a whole broker and a look inside.

use super::Broker;
use crate::broker_options::BrokerOptions;
use crate::ids::ConnectionSlot;
use crate::publishing::Publish;
use crate::session_state::{ClientCapabilities, SessionLogin};
use crate::test_effects::RecordedEffects;
use catalog::{Catalog, CatalogLimits, Definition, ExchangeKind, SessionId, ShardId, default_definitions};
use queues::{BodyRef, DelayedMessages};
use wire::method::confirm;
use wire::{ChannelNumber, Properties, RawProperties, Table, Value};

#[test]
fn a_delaying_exchange_at_its_capacity_refuses_and_has_capacity_again_later() {
    let mut catalog = Catalog::new(CatalogLimits::default());
    for definition in default_definitions() {
        catalog.execute(&definition).expect("the first definitions");
    }
    let vhost = catalog.vhost_by_name("/").expect("the default");
    let user = catalog.authenticate(b"guest", b"guest", true).expect("the guest");
    let arguments = Table::new().with("x-delayed-type", Value::text("fanout")).expect("short");
    let (durable, auto_delete, internal) = (false, false, false);
    let (name, kind) = ("x".into(), ExchangeKind::Delayed);
    let declare = Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
    catalog.execute(&declare).expect("an exchange");
    let options = BrokerOptions {
        shard: ShardId(0),
        shards: 1,
        queue_bytes_max: 1 << 20,
        consumer_timeout_ms: 0,
        epoch_unix_s: 0,
        work_per_turn: crate::limits::WORK_PER_TURN,
    };
    let mut broker = Broker::new(options, catalog);
    broker.data.forwarder.delayed = DelayedMessages::new(2);
    let mut fx = RecordedEffects::default();
    let session = SessionId { shard: ShardId(0), slot: ConnectionSlot::new(0), serial: 1 };
    broker.open_session(
        ConnectionSlot::new(0),
        SessionLogin { session, user, vhost, capabilities: ClientCapabilities::default() },
    );
    broker.open_channel(ConnectionSlot::new(0), ChannelNumber(1));
    let mut publish = |broker: &mut Broker, publishes: usize| {
        let headers = Table::new().with("x-delay", Value::I32(5)).ok();
        let properties = Properties { headers, ..Properties::default() }.to_bytes();
        for _ in 0..publishes {
            let publish = Publish {
                exchange: b"x",
                routing_key: b"",
                mandatory: true,
                immediate: false,
                properties: RawProperties::new(&properties),
                body: BodyRef::Small(b"body"),
            };
            broker
                .publish(ConnectionSlot::new(0), ChannelNumber(1), publish, &mut fx)
                .map(drop)
                .expect("accepted, or refused with a nack");
        }
        broker.flush_batch(&mut fx);
        broker.set_now(broker.data.dispatcher.now_us + 10_000);
        broker.run_timers(&mut fx);
        fx.take()
    };
    assert_eq!(publish(&mut broker, 3), "", "without confirms nothing is sent");
    let select = confirm::Select { no_wait: true }.into();
    broker
        .command(ConnectionSlot::new(0), ChannelNumber(1), select, &mut RecordedEffects::default())
        .map(drop)
        .expect("confirms");
    assert_eq!(publish(&mut broker, 4), "0: ack 2+ | 0: nack 3 | 0: nack 4");
    assert_eq!(publish(&mut broker, 2), "0: ack 6+");
    assert_eq!((broker.data.forwarder.delayed.count(), broker.list_overhead_bytes()), (0, 0));
}
