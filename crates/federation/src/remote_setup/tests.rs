//! A route's setup at a source that keeps what it is told, over connections and processes that end at any method.

use super::{LinkParties, RemoteSetup, SetupStep};
use crate::{AckMode, BrokerIdentity, FederatedQueue, RouteDirection, RouteKind, RouteSpec};
use session::Outbound;
use slab::Pool;
use std::collections::{BTreeMap, BTreeSet};
use wire::method::Method;

/// More than any setup has.
const METHODS_MAX: usize = 30;

#[derive(Default)]
struct InternalAtSource {
    is_bound_to_queue: bool,
    keys: BTreeSet<String>,
}

/// The internal exchanges of the route, by name.
#[derive(Default)]
struct Source(BTreeMap<String, InternalAtSource>);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Source {
    /// Executes a method. Answers with the queue, if it is a declaration of one; with the code that closes the channel; or with
    /// nothing, to what wants no answer.
    fn execute(&mut self, method: &Method<'_>) -> Option<Result<Option<String>, u16>> {
        match method {
            Method::ExchangeDeclare(declare) => {
                let name = text(declare.exchange.as_bytes());
                if declare.passive && name != "x" && !self.0.contains_key(&name) {
                    return Some(Err(404));
                }
                if !declare.passive {
                    self.0.entry(name).or_default();
                }
            }
            Method::ExchangeDelete(delete) => drop(self.0.remove(&text(delete.exchange.as_bytes()))),
            Method::ExchangeBind(bind) => {
                let internal = self.0.get_mut(&text(bind.destination.as_bytes())).expect("it was declared");
                internal.keys.insert(text(bind.routing_key.as_bytes()));
                return None;
            }
            Method::QueueBind(bind) => {
                let internal = self.0.get_mut(&text(bind.exchange.as_bytes())).expect("it was declared");
                internal.is_bound_to_queue = true;
            }
            Method::QueueDeclare(declare) => return Some(Ok(Some(text(declare.queue.as_bytes())))),
            Method::BasicQos(_) | Method::BasicConsume(_) => {}
            other => panic!("{other:?} is no method of a setup"),
        }
        Some(Ok(None))
    }

    /// Whether a message with the route's key gets to its queue.
    fn collects(&self) -> bool {
        self.0.values().any(|internal| internal.is_bound_to_queue && internal.keys.contains("k"))
    }
}

fn new_setup() -> RemoteSetup {
    let spec = RouteSpec {
        exchange: "x".into(),
        kind: RouteKind::Static { key: "k".into() },
        direction: RouteDirection::Pull,
        ack: AckMode::Confirm,
        credit: 10,
        hops_max: 3,
        durable: false,
        forced: false,
        dead_letter_exchange: None,
        options: Default::default(),
    };
    RemoteSetup::new(spec, false, 100_000)
}

/// The methods that were written, as text.
fn written(out: &mut Outbound) -> Vec<String> {
    let sent: Vec<u8> = out.gather().parts().flatten().copied().collect();
    out.clear();
    let (mut rest, mut methods) = (&sent[..], Vec::new());
    while let Some((header, behind)) = rest.split_at_checked(7) {
        let bytes = u32::from_be_bytes(header[3..].try_into().expect("four bytes")) as usize;
        methods.push(match Method::decode(&behind[..bytes]).expect("a method") {
            Method::QueueDeclare(declare) => {
                let kind = if declare.passive { "find" } else { "declare" };
                let arguments = declare.arguments.to_table().expect("sound").len();
                format!("{kind} {} {} {arguments}", text(declare.queue.as_bytes()), declare.durable)
            }
            Method::BasicQos(qos) => format!("qos {}", qos.prefetch_count),
            Method::BasicConsume(consume) => {
                let priority = consume.arguments.get("x-priority").and_then(|value| value.as_i64());
                let (queue, tag) = (text(consume.queue.as_bytes()), text(consume.consumer_tag.as_bytes()));
                format!("consume {queue} {tag} {priority:?} {}", consume.no_wait)
            }
            Method::BasicCancel(cancel) => format!("cancel {}", text(cancel.consumer_tag.as_bytes())),
            other => panic!("{other:?} is no method of a federated queue"),
        });
        rest = &behind[bytes + 1..];
    }
    methods
}

#[test]
fn a_federated_queue_consumes_at_its_upstream_while_it_wants_messages() {
    let like = wire::Table::new().with("x-max-length", wire::Value::I64(9)).expect("short");
    let federated = FederatedQueue {
        name: "here".into(),
        durable: true,
        auto_delete: false,
        arguments: like,
        consumer_tag: "tag".into(),
    };
    let mut spec = new_setup().spec;
    (spec.exchange, spec.kind) = ("".into(), RouteKind::Queue { queue: "there".into() });
    spec.options.federated_queue = Some(Box::new(federated));
    let mut setup = RemoteSetup::new(spec, false, 100_000);
    let (mut out, pool) = (Outbound::new(), Pool::default());
    let own = BrokerIdentity { cluster_name: "b".into(), vhost: "/".into() };
    for is_there in [false, true] {
        let parties = || LinkParties { own: &own, peer: None, fanout_only: false };
        setup.begin(None);
        setup.advance();
        assert!(setup.send_step(&parties(), &mut out, &pool));
        assert_eq!(written(&mut out), ["find there false 0"]);
        if !is_there {
            assert!(setup.on_channel_closed(404, "NOT_FOUND"));
            assert!(setup.send_step(&parties(), &mut out, &pool));
            assert_eq!(written(&mut out), ["declare there true 1"], "like the one here");
        }
        assert!(setup.on_answer(Some((b"there", 0))) && setup.send_step(&parties(), &mut out, &pool));
        assert_eq!(written(&mut out), ["qos 10"]);
        // What it wants meanwhile counts once it runs.
        setup.set_wanting(is_there, Some((&mut out, &pool)));
        assert!(setup.on_answer(None));
        assert_eq!(setup.step, SetupStep::LocalSide);
        setup.advance();
        assert!(setup.send_step(&parties(), &mut out, &pool));
        assert_eq!(setup.step, SetupStep::Running);
        let consume = "consume there tag Some(-1) true".to_owned();
        let expected = if is_there { vec![consume.clone()] } else { Vec::new() };
        assert_eq!(written(&mut out), expected);
        let first = if is_there { "" } else { &*consume };
        for (is_wanting, expected) in [(true, first), (true, ""), (false, "cancel tag"), (false, ""), (true, &*consume)]
        {
            setup.set_wanting(is_wanting, Some((&mut out, &pool)));
            assert_eq!(written(&mut out).join(", "), expected);
        }
        setup.disconnect();
        assert!(!setup.is_consuming);
    }
}

/// Connects, until so many methods are executed, of which the last is answered or not. Answers whether the route runs; calls
/// `check` after each method.
fn connect(
    setup: &mut RemoteSetup,
    source: &mut Source,
    (mut methods, is_last_answered): (usize, bool),
    mut check: impl FnMut(&Source),
) -> bool {
    let (mut out, pool) = (Outbound::new(), Pool::default());
    let own = BrokerIdentity { cluster_name: "b".into(), vhost: "/".into() };
    setup.begin(None);
    setup.advance();
    loop {
        setup.send_step(&LinkParties { own: &own, peer: None, fanout_only: false }, &mut out, &pool);
        if setup.step == SetupStep::Running {
            return true;
        }
        let sent = out.take_bytes(&pool);
        let (mut rest, mut answer) = (&sent[..], None);
        while let Some((header, behind)) = rest.split_at_checked(7) {
            let bytes = u32::from_be_bytes(header[3..].try_into().expect("four bytes")) as usize;
            if methods == 0 {
                return false;
            }
            methods -= 1;
            answer = source.execute(&Method::decode(&behind[..bytes]).expect("a method"));
            check(source);
            rest = &behind[bytes + 1..];
        }
        if methods == 0 && !is_last_answered {
            return false;
        }
        let goes_on = match answer.expect("each step has an answer") {
            Ok(queue) => setup.on_answer(queue.as_ref().map(|queue| (queue.as_bytes(), 0))),
            Err(code) => setup.on_channel_closed(code, "NOT_FOUND"),
        };
        if setup.step == SetupStep::LocalSide {
            setup.advance();
        } else {
            assert!(goes_on || setup.step == SetupStep::Running, "it stopped at {:?}", setup.step);
        }
    }
}

/// A connection or process ends after any method of a setup, and the next again: all the while the queue is collecting, by an
/// internal exchange to which it was collecting before, and in the end there is one, which is bound by what is wanted alone.
#[test]
fn a_source_collects_while_setups_break_off_and_begin_anew() {
    let ends = |is_last_answered: &'static [bool]| {
        let all = move |methods| is_last_answered.iter().map(move |&answered| (methods, answered));
        (0..METHODS_MAX)
            .flat_map(all)
            .flat_map(|(methods, answered)| [true, false].map(|process| (methods, answered, process)))
    };
    let mut broken_off = 0;
    for first in ends(&[true, false]) {
        for (second, is_new_process) in ends(&[true]).flat_map(|end| [(end, true), (end, false)]) {
            let (mut setup, mut source) = (new_setup(), Source::default());
            assert!(connect(&mut setup, &mut source, (usize::MAX, true), |_| ()) && source.collects());
            source.0.values_mut().for_each(|internal| assert!(internal.keys.insert("of before".to_owned())));
            let check = |source: &Source| assert!(source.collects(), "after {first:?}, {second:?}: nothing collects");
            for (methods, is_last_answered, is_process) in [first, second, (usize::MAX, true, is_new_process)] {
                setup.disconnect();
                if is_process {
                    setup = new_setup();
                }
                broken_off += usize::from(!connect(&mut setup, &mut source, (methods, is_last_answered), check));
            }
            assert_eq!(setup.step, SetupStep::Running);
            let left: Vec<_> = source.0.values().map(|internal| (internal.is_bound_to_queue, &internal.keys)).collect();
            assert_eq!(left, [(true, &BTreeSet::from(["k".to_owned()]))], "after {first:?}, {second:?}");
        }
    }
    assert!(broken_off > 1_000, "{broken_off} broke off");
}
