//! What goes wrong, what is said then, and that everything comes back.

use super::ends::{
    CardLink, CardPort, PATIENCE, census, connected, connecting, drive, fault, fresh, lab, listening, now, pattern,
    port, settings,
};
use link::{Link, ReceiveOutcome};
use slab::{Gather, Pool, PoolOptions};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use verbs::device::{ConnectionEvent, Device as _, QueuePairLimits, WorkRequestId};
use verbs::{Port, PortSettings, PortUsage, card};

const QUEUE_PAIR_LIMITS: QueuePairLimits =
    QueuePairLimits { send_slots: 16, receiver_not_ready_retries: 6, reads_issued_max: 1, reads_answered_max: 1 };

fn words(address: &str) -> String {
    match card::open_at(address, 1) {
        Ok(_) => panic!("{address} has a device"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_address_without_a_device_is_said_in_words() {
    let Some(_) = lab() else { return };
    // One of documentation, which nobody has.
    let text = words("192.0.2.7:5673");
    assert!(text.starts_with("RDMA: no RDMA device has the address 192.0.2.7: "), "{text}");
    let text = words("127.0.0.1:5673");
    assert!(text.contains("the loopback address belongs to no device"), "{text}");
    let text = match card::open_towards("192.0.2.7:5673") {
        Ok(_) => panic!("nothing leads there"),
        Err(error) => error.to_string(),
    };
    assert!(text.starts_with("RDMA: no RDMA device routes to 192.0.2.7: "), "{text}");
}

/// Anywhere: what is missing is named, and the program goes on.
#[test]
fn where_there_is_no_device_the_error_says_what_is_missing() {
    if std::env::var_os("LAB_ADDRESS").is_some() {
        return;
    }
    // Where there is one after all, documentation's address is none of its own.
    let text = words("192.0.2.7:5673");
    let known =
        ["cannot be used", "there is no RDMA device", "libibverbs cannot open", "no RDMA device has the address"];
    assert!(known.iter().any(|part| text.contains(part)), "{text}");
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let _listening = listening(&address, &settings());
    let text = words(&address);
    assert_eq!(text, format!("RDMA: {address} is in use"));
}

#[test]
fn a_request_to_nobody_fails_and_says_so() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let near_port = connecting(&address, &settings());
    let before = census(&near_port);
    let mut near = near_port.connect(&address, None).expect("it can be asked");
    let text = fault(&[&near_port], &mut near);
    assert!(text.contains(&format!("nobody listens at {address}")), "{text}");
    drop(near);
    drive(&[&near_port], "something is not given back", || census(&near_port) == before);
}

#[test]
fn private_data_that_makes_no_sense_is_rejected_with_a_reason() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let far_port = listening(&address, &settings());
    let pool = Pool::new(PoolOptions::default());
    let mut device = card::open_towards(&address).expect("the lab has a device");
    device.post_receives(&mut vec![(WorkRequestId(1), pool.block(256))]).expect("it takes buffers");
    for private in [&b"nonsense"[..], b"", &[0xff; 56]] {
        let pair = device.connect(&address, private, &QUEUE_PAIR_LIMITS).expect("it can be asked");
        let mut events = Vec::new();
        let deadline = now() + PATIENCE;
        while events.is_empty() {
            far_port.poll().expect("the device is whole");
            device.events(device.now(), &mut events).expect("the device is whole");
            assert!(now() < deadline, "no answer");
            std::thread::yield_now();
        }
        match &events[..] {
            // The magic, and reason 1; behind it the connection manager's zeroes.
            [ConnectionEvent::Rejected { pair: of, private }] if *of == pair => {
                assert_eq!(private[..6], *b"HRDM\x00\x01", "{private:?}");
            }
            other => panic!("{other:?}"),
        }
        device.destroy(pair);
    }
    assert_eq!(far_port.counters().refusals, 3);
    assert_eq!(far_port.usage().connections, 0);
}

const PEER_ADDRESS: &str = "CARD_PEER_ADDRESS";
const PEER_SENDS: &str = "CARD_PEER_SENDS";
const KILLED: &str = "failures::a_peer_that_is_killed_in_a_rendezvous_takes_nothing_with_it";
const BODY_BYTES: usize = 16 << 20;

fn peer(address: &str, sends: bool) -> Child {
    let test = std::env::current_exe().expect("this test");
    let mut command = Command::new(test);
    command.args(["--exact", KILLED, "--nocapture"]).env(PEER_ADDRESS, address);
    if sends {
        command.env(PEER_SENDS, "1");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it runs")
}

/// This test is its own peer: with an address in the environment it connects there, and is killed.
#[test]
fn a_peer_that_is_killed_in_a_rendezvous_takes_nothing_with_it() {
    let Some(ip) = lab() else { return };
    if let Ok(address) = std::env::var(PEER_ADDRESS) {
        be_killed(&address, std::env::var_os(PEER_SENDS).is_some());
        return;
    }
    let address = fresh(ip);
    let far_port = listening(&address, &settings());
    let before = census(&far_port);
    let pool = Pool::new(PoolOptions::default());
    let body = pool.copy(&pattern(BODY_BYTES, 3));
    for sends in [true, false] {
        let mut peer = peer(&address, sends);
        let mut far = None;
        drive(&[&far_port], "nobody asks", || {
            far = far.take().or_else(|| far_port.accept());
            far.is_some()
        });
        let mut far = far.expect("accepted");
        if sends {
            // We read from it: its body is on the way into memory of ours.
            far.lend(pool.block(BODY_BYTES), 0..BODY_BYTES).expect("it takes memory");
            drive(&[&far_port], "nothing is offered", || {
                let received = far.receive(&mut [], &mut []).expect("the connection stands");
                assert!(!matches!(received, ReceiveOutcome::Closed));
                far_port.counters().messages_received > 0
            });
            let received = far.receive(&mut [], &mut []).expect("the connection stands");
            assert!(matches!(received, ReceiveOutcome::Idle), "a READ takes its time: {received:?}");
        } else {
            // It reads from us, into landing blocks.
            let mut gather = Gather::new();
            gather.push(body.clone());
            drive(&[&far_port], "it does not read", || {
                if !gather.is_empty() {
                    far.send(&mut gather).expect("the connection stands");
                }
                far_port.usage().granted_bytes > 0
            });
        }
        peer.kill().expect("it lives");
        peer.wait().expect("it has ended");
        let text = fault(&[&far_port], &mut far);
        println!("sends: {sends}: {text}");
        assert!(far.take_filled().is_none(), "it was killed in the middle");
        drop(far);
        drive(&[&far_port], "something is not given back", || is_as(&far_port, before));
    }
    assert!(body.is_unique(), "the device holds nothing of it");
    assert_eq!(pool.used_bytes(), pool_used_by(&body, &pool));
}

fn is_as(port: &CardPort, before: PortUsage) -> bool {
    census(port) == before
}

/// What one body takes of a pool.
fn pool_used_by(body: &slab::Slice, pool: &Pool) -> usize {
    let before = pool.used_bytes();
    let _same = pool.block(body.len());
    pool.used_bytes() - before
}

fn be_killed(address: &str, sends: bool) {
    let near_port = connecting(address, &settings());
    let mut near = near_port.connect(address, None).expect("it can be asked");
    let pool = Pool::new(PoolOptions::default());
    let mut gather = Gather::new();
    if sends {
        gather.push(pool.copy(&pattern(BODY_BYTES, 4)));
    }
    drive(&[&near_port], "nobody has killed this", || {
        // Sends until there is nothing more to send, and receives a little now and then.
        if near.wait(link::WaitFor::Writable, Some(Duration::ZERO)).is_ok_and(|is_writable| is_writable)
            && !gather.is_empty()
        {
            near.send(&mut gather).expect("the connection stands");
        }
        if !sends {
            near.receive(&mut [], &mut [0; 1]).expect("the connection stands");
        }
        false
    });
}

/// If a device kept the receive buffer of a message that had begun to arrive when its connection ended, ten such ends
/// would leave too few of sixteen for a peer that uses its credit.
#[test]
fn connections_that_end_in_the_middle_of_a_message_keep_no_receive_buffer() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    // A message is long on its way, and there are as many buffers as one connection is promised.
    let large = PortSettings {
        receive_buffer_bytes: 1 << 20,
        receive_buffers: 16,
        spare_buffers: 0,
        rendezvous_threshold_bytes: u32::MAX,
        ..settings()
    };
    let (far_port, near_port) = (listening(&address, &large), connecting(&address, &large));
    let ports = [&near_port, &far_port];
    let before = [census(&near_port), census(&far_port)];
    let pool = Pool::new(PoolOptions::default());
    let body = pool.copy(&pattern((1 << 20) - 8, 1));
    let fill = |count: usize| {
        let mut gather = Gather::new();
        (0..count).for_each(|_| gather.push(body.clone()));
        gather
    };
    for _ in 0..10 {
        let (mut near, mut far) = connected(&near_port, &far_port, &address);
        let heard = far_port.counters().messages_received;
        let mut gather = fill(4);
        drive(&ports, "nothing arrives", || {
            if !gather.is_empty() {
                near.send(&mut gather).expect("the connection stands");
            }
            far_port.counters().messages_received > heard
        });
        far.abort(link::AbortReason::Overdue);
        drop((near, far));
        drive(&ports, "something is not given back", || [census(&near_port), census(&far_port)] == before);
    }
    let (mut near, far) = connected(&near_port, &far_port, &address);
    let heard = far_port.counters().messages_received;
    let mut gather = fill(10);
    drive(&ports, "there are not enough buffers", || {
        assert!(!fails(&mut near), "the connection stands");
        if !gather.is_empty() {
            near.send(&mut gather).expect("the connection stands");
        }
        far_port.counters().messages_received == heard + 10
    });
    drop(far);
}

fn fails(link: &mut CardLink) -> bool {
    link.receive(&mut [], &mut [0; 1]).is_err()
}

const LITTLE: &str = "failures::memory_that_may_not_be_locked_is_said_in_words";
const LITTLE_ADDRESS: &str = "CARD_LITTLE_MEMORY";

/// This test is its own child, with a limit.
#[test]
fn memory_that_may_not_be_locked_is_said_in_words() {
    let Some(ip) = lab() else { return };
    if let Ok(address) = std::env::var(LITTLE_ADDRESS) {
        let mut devices = card::open_at(&address, 1).expect("the lab has a device");
        let opened = Port::open(devices.remove(0), &Pool::new(PoolOptions::default()), settings());
        match opened {
            Ok(_) => println!("it was opened"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    // Root may lock what it likes, unless it cannot have the right.
    let test = std::env::current_exe().expect("this test");
    let output = Command::new("prlimit")
        .args(["--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"])
        .arg(test)
        .args(["--exact", LITTLE, "--nocapture"])
        .env(LITTLE_ADDRESS, fresh(ip))
        .output()
        .expect("prlimit and setpriv are there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("refused: RDMA: ") && text.contains("`ulimit -l`"), "{text}{output:?}");
    // And without it there is enough.
    drop(port(card::open_at(&fresh(ip), 1).expect("the lab has a device").remove(0), &settings()));
}
