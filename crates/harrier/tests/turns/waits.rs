//! The bystander's waits while an attack goes on.

use crate::broker::LimitedBroker;
use crate::{LIMIT_MIB, PATIENCE, has_store};
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions};
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The time between two messages of the bystander.
const INTERVAL: Duration = Duration::from_millis(20);

#[expect(clippy::disallowed_methods, reason = "a test that measures has a clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// A client that publishes 64 bytes with a confirm and consumes them.
struct TimedBystander<'a> {
    client: Client,
    channel: ClientChannel,
    attack: &'a str,
    /// How long each exchange took.
    waits: Vec<Duration>,
}

impl<'a> TimedBystander<'a> {
    fn new(address: &str, attack: &'a str) -> Self {
        let mut client = Client::connect(&format!("amqp://{address}/%2F")).expect("connects");
        let channel = client.open_channel().expect("a channel");
        client.confirm_select(channel).expect("confirms");
        client.declare_queue(channel, "bystander", &QueueOptions::default()).expect("a queue");
        let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        client.consume(channel, "bystander", &options).expect("consumes");
        TimedBystander { client, channel, attack, waits: Vec::new() }
    }

    /// Publishes a message and consumes it. Returns how long that took.
    fn exchange(&mut self) -> Duration {
        let (client, channel, attack, at) = (&mut self.client, self.channel, self.attack, now());
        client.publish(channel, &Publish::to("", "bystander"), &[7; 64]).expect("published");
        client.wait_confirms(channel, 0).unwrap_or_else(|error| panic!("{attack}: not confirmed: {error}"));
        let delivery = client.next_delivery(PATIENCE).expect("a connection");
        assert_eq!(delivery.expect("a delivery").body(), [7; 64], "{attack}");
        let took = at.elapsed();
        self.waits.push(took);
        took
    }

    /// Every 20 ms until the attack has ended, and once more.
    fn exchange_until(&mut self, ended: &Receiver<()>) {
        let began = now();
        loop {
            let took = self.exchange();
            assert!(began.elapsed() < PATIENCE, "{}: the attack does not end", self.attack);
            if ended.recv_timeout(INTERVAL.saturating_sub(took)) != Err(RecvTimeoutError::Timeout) {
                self.exchange();
                return;
            }
        }
    }
}

/// Past the capture of output by tests, so that every run shows it.
fn tell(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("output");
}

fn print(attack: &str, mut waits: Vec<Duration>) {
    waits.sort();
    let at = |permille: usize| waits[(waits.len() - 1) * permille / 1_000].as_secs_f64() * 1e3;
    let (p50, p99, most, count) = (at(500), at(990), at(1_000), waits.len());
    tell(&format!(
        "{attack}: the bystander waited {p50:.1} ms (p50), {p99:.1} ms (p99), {most:.1} ms at most, of {count} times"
    ));
}

/// So many exchanges of a bystander, one after another, beside an attack that nobody waits for.
pub fn exchange_often(attack: &str, broker: &LimitedBroker, count: usize) {
    let mut bystander = TimedBystander::new(&broker.address, attack);
    (0..count).for_each(|_| _ = bystander.exchange());
    broker.has_kept_its_limit(attack);
    print(attack, bystander.waits);
}

/// Runs an attack beside a bystander, and prints how long he waited.
pub fn beside(name: &str, attack: impl FnOnce(&LimitedBroker)) {
    beside_on(name, has_store(), attack);
}

/// The same, of a broker with a store or without one.
pub fn beside_on(name: &str, has_store: bool, attack: impl FnOnce(&LimitedBroker)) {
    beside_running(name, &LimitedBroker::start_on(name, LIMIT_MIB, has_store), attack);
}

/// The same, of a broker that has run before.
pub fn beside_running(name: &str, broker: &LimitedBroker, attack: impl FnOnce(&LimitedBroker)) {
    let address = broker.address.clone();
    let ((end, ended), (ready, is_ready)) = (channel(), channel());
    let waits = std::thread::scope(|scope| {
        let bystander = scope.spawn(move || {
            let mut bystander = TimedBystander::new(&address, name);
            ready.send(()).expect("the attack waits");
            bystander.exchange_until(&ended);
            bystander.waits
        });
        is_ready.recv().expect("the bystander is connected");
        let at = now();
        attack(broker);
        let took = at.elapsed();
        end.send(()).expect("the bystander waits");
        tell(&format!("{name}: the attack took {} ms", took.as_millis()));
        bystander.join().expect("the bystander is served")
    });
    broker.has_kept_its_limit(name);
    print(name, waits);
}
