//! A second device beside the first: requests through it, and its end.

use super::ends::{CardPort, PATIENCE, connected, connecting, drive, fresh, lab, listening, now, settings};
use std::path::Path;
use std::process::Command;

/// The far end of the pair of interfaces that the lab's device is on.
const INTERFACE: &str = "fab1";
const OTHER: &str = "10.9.7.9";

fn run(words: &str) -> bool {
    let mut words = words.split(' ');
    let program = words.next().expect("a program");
    Command::new(program).args(words).status().expect("it is there").success()
}

#[test]
fn a_request_through_another_device_is_refused_and_a_device_that_goes_is_told_of() {
    let Some(ip) = lab() else { return };
    // The connection manager's library looks for devices when it is first used: `SECOND` is a process that starts
    // later.
    if std::env::var_os(SECOND).is_some() {
        return with_two(&ip.to_string());
    }
    assert!(run(&format!("ip address add {OTHER}/24 dev {INTERFACE}")), "an address for the second device");
    assert!(run(&format!("rdma link add rxe1 type rxe netdev {INTERFACE}")), "a second device");
    let test = std::env::current_exe().expect("this test");
    let output = Command::new(test).args(["--exact", NAME, "--nocapture"]).env(SECOND, "1").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    // It has taken the device away.
    let begun = now();
    while Path::new("/sys/class/infiniband/rxe1").exists() {
        assert!(now() - begun < PATIENCE, "the device does not go");
        std::thread::yield_now();
    }
    assert!(run(&format!("ip address del {OTHER}/24 dev {INTERFACE}")), "the address goes");
}

#[test]
fn an_address_of_ipv6_serves_as_well_in_brackets() {
    let Some(ip) = lab() else { return };
    let own = "fd09::9";
    assert!(run(&format!("ip address add {own}/64 dev fab0 nodad")), "an address of IPv6");
    let address = fresh(ip).replace(&ip.to_string(), &format!("[{own}]"));
    let (far_port, near_port) = (listening(&address, &settings()), connecting(&address, &settings()));
    let (_near, far) = connected(&near_port, &far_port, &address);
    assert!(link::Link::peer(&far).address.starts_with("[fd09::9]:"), "{:?}", link::Link::peer(&far));
    assert!(run(&format!("ip address del {own}/64 dev fab0")), "the address goes");
}

const SECOND: &str = "CARD_SECOND_DEVICE";
const NAME: &str = "devices::a_request_through_another_device_is_refused_and_a_device_that_goes_is_told_of";

fn with_two(ip: &str) {
    let own = fresh(ip.parse().expect("an address"));
    let (_, number) = own.rsplit_once(':').expect("host and port");
    let everywhere = listening(&format!("0.0.0.0:{number}"), &settings());
    let other = format!("{OTHER}:{number}");
    let clients = [&own, &other].map(|address| connecting(address, &settings()));
    println!("two devices");
    // One of the two is the device that listens, whichever the library finds first.
    let mut outcomes = Vec::new();
    for (client, address) in clients.iter().zip([&own, &other]) {
        let mut near = client.connect(address, None).expect("there is room");
        let mut outcome = None;
        drive(&[client, &everywhere], "no answer", || {
            let accepted = everywhere.accept().map(|_| "accepted".to_owned());
            let failed = link::Link::receive(&mut near, &mut [], &mut []).err().map(|error| error.to_string());
            outcome = outcome.take().or(accepted).or(failed);
            outcome.is_some()
        });
        outcomes.extend(outcome);
    }
    outcomes.sort();
    assert_eq!(outcomes[0], "accepted");
    assert!(outcomes[1].contains("the peer rejected"), "{outcomes:?}");
    println!("{outcomes:?}");
    // A port on the second device, with a connection; then the device goes.
    let address = other.replace(number, "19999");
    let (far_port, near_port) = (listening(&address, &settings()), connecting(&address, &settings()));
    let (mut near, _far) = connected(&near_port, &far_port, &address);
    // It ends when this process has: until then libraries hold the device open.
    let status =
        Command::new("sh").args(["-c", "rdma link delete rxe1 >/dev/null 2>&1 &"]).status().expect("a shell is there");
    assert!(status.success(), "{status}");
    let begun = now();
    let broken = |port: &CardPort| loop {
        if let Err(error) = port.poll() {
            break error.to_string();
        }
        assert!(now() - begun < PATIENCE, "nobody is told");
        std::thread::yield_now();
    };
    for port in [&near_port, &far_port] {
        let text = broken(port);
        assert!(text.contains("rxe1") && text.starts_with("RDMA: the device"), "{text}");
    }
    let text = link::Link::receive(&mut near, &mut [], &mut []).expect_err("it has ended").to_string();
    assert!(text.contains("the device rxe1"), "{text}");
}
