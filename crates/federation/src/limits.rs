//! The limits of federation, each with its name and its reason.
//!
//! Leaves: constants.
//! Owns:   the numbers that bound links, routes, hops and waits.
//! Never:  a limit without a unit in its name.

use std::time::Duration;

/// Links of one broker.
pub const LINKS_MAX: usize = 1024;
/// Routes of one link: each has a channel of its own.
pub const ROUTES_MAX: usize = 255;
/// Messages that are under way on a route unless more or fewer are asked for (`--credit`). RabbitMQ's plugin has the same.
pub const CREDIT_DEFAULT: u16 = 1000;
/// One acknowledgement says of so large a part of the credit, one in so many, that it is safe, where many messages come ...
pub const ACKS_PER_CREDIT: u16 = 2;
/// ... and waits so long for it at most. Who comes less often is acknowledged at once.
pub const ACK_WAIT: Duration = Duration::from_millis(1);
/// Brokers that a message goes through, unless more or fewer are asked for.
pub const HOPS_DEFAULT: u16 = 16;
/// The first wait after a connection was lost ...
pub const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// ... which doubles up to this one.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// A durable route of a broker that has just begun takes nothing before so long: those below dial again within
/// `BACK_OFF_MAX` and ask for what they want, and what arrived earlier would go to nobody.
pub const RETURN_WAIT: Duration = Duration::from_secs(6);
const _: () = assert!(RETURN_WAIT.as_millis() > BACK_OFF_MAX.as_millis());
/// The wait after a refused login, which nobody mends in a second.
pub const REFUSED_WAIT: Duration = Duration::from_secs(30);
/// Bytes of properties up to which the next message is compared with the last one.
pub const REPEAT_BYTES_MAX: usize = 512;
/// Bindings that are asked for at once, if the connection's output takes as many; the last of them is answered.
pub const BINDINGS_AT_ONCE: usize = 1000;
/// How long the queue of a route lives at the source without anybody who takes from it, unless the route is durable.
pub const QUEUE_EXPIRES: Duration = Duration::from_secs(60);
/// How often the source is asked what waits for a route.
pub const LAG_INTERVAL: Duration = Duration::from_secs(5);
/// Brokers in the path of a want (`x-bound-from`): what has come further, or says so, goes no further. RabbitMQ's hops
/// are 16 bits, but nobody grants so many.
pub const PATH_BROKERS_MAX: usize = 255;
/// Paths by which a source is asked for one want: one, and others around brokers that are on it.
pub const PATHS_PASSED_MAX: usize = 4;
/// Stamps in the window of a broker: messages that it knows again. They take 34 bytes each, 2.2 MiB in all; at
/// 100,000 messages a second by forced routes one path may lag two thirds of a second behind the other.
pub const WINDOW_STAMPS_MAX: usize = 65_536;
