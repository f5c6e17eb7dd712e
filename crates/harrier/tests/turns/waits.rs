//! The bystander's waits while an attack goes on.

use crate::broker::LimitedBroker;
use crate::bystander::Bystander;
use crate::{LIMIT_MIB, PATIENCE};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two messages of the bystander.
const INTERVAL: Duration = Duration::from_millis(20);

#[expect(clippy::disallowed_methods, reason = "a test that measures has a clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Runs an attack beside a bystander, and prints how long he waited.
pub fn beside(name: &str, attack: impl FnOnce(&LimitedBroker) + Send) {
    let broker = LimitedBroker::start(name, LIMIT_MIB);
    let mut bystander = Bystander::new(&broker);
    bystander.exchange(name);
    let ended = AtomicBool::new(false);
    let mut waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let (mut waits, began) = (Vec::new(), now());
            loop {
                // One more after the attack has ended, so that all of its work is done or divided.
                let is_last = ended.load(Ordering::Acquire);
                let at = now();
                bystander.exchange(name);
                waits.push(at.elapsed());
                if is_last {
                    return waits;
                }
                assert!(began.elapsed() < PATIENCE, "{name}: the attack does not end");
                std::thread::sleep(INTERVAL.saturating_sub(at.elapsed()));
            }
        });
        let at = now();
        attack(&broker);
        let took = at.elapsed();
        ended.store(true, Ordering::Release);
        let waits = waits.join().expect("the bystander is served");
        println!("{name}: the attack took {} ms", took.as_millis());
        waits
    });
    waits.sort();
    let at = |permille: usize| waits[(waits.len() - 1) * permille / 1_000].as_secs_f64() * 1e3;
    println!(
        "{name}: the bystander waited {:.1} ms (p50), {:.1} ms (p99), {:.1} ms at most, of {} times",
        at(500),
        at(990),
        at(1_000),
        waits.len()
    );
}
