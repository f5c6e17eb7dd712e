//! The limits of federation, each with its unit in its name and its reason.

use std::time::Duration;

/// Links of one broker.
pub const LINKS_MAX: usize = 1024;
/// Routes of one link: each has a channel of its own.
pub const ROUTES_MAX: usize = 255;
/// Queues of removed routes that a link deletes when it connects again.
pub(crate) const LEFT_QUEUES_MAX: usize = 1024;
/// Default of a route's credit (`--credit`), in messages. RabbitMQ's plugin has the same.
pub const CREDIT_DEFAULT: u16 = 1000;
/// Under load, this many acknowledgements cover a route's credit ...
pub(crate) const ACKS_PER_CREDIT: u16 = 2;
/// ... and one waits this long at most. Messages that arrive less often are acknowledged at once.
pub(crate) const ACK_WAIT: Duration = Duration::from_millis(1);
/// Default of how many brokers a message may pass.
pub const HOPS_DEFAULT: u16 = 16;
/// The wait after the first failed connection ...
pub const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// ... which doubles up to this one.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// How long a durable route takes nothing after a restart. Brokers downstream dial again within `BACK_OFF_MAX` and request their
/// bindings; messages that arrived earlier would match none.
pub const RETURN_WAIT: Duration = Duration::from_secs(6);
const _: () = assert!(RETURN_WAIT.as_millis() > BACK_OFF_MAX.as_millis());
/// The longest wait after a refused login, which nobody repairs within a second.
pub const REFUSED_WAIT: Duration = Duration::from_secs(30);
/// Properties up to this size are compared with those of the previous message.
pub(crate) const REPEAT_BYTES_MAX: usize = 512;
/// Bindings requested in one round, if the connection's output has capacity; one answer ends the round.
pub(crate) const BINDINGS_AT_ONCE: usize = 1000;
/// How long the queue of a route exists at the source without a consumer, unless the route is durable.
pub const QUEUE_EXPIRES: Duration = Duration::from_secs(60);
/// How often the source is asked how many messages wait for a route.
pub const LAG_INTERVAL: Duration = Duration::from_secs(5);
/// Brokers in the path of a binding (`x-bound-from`): longer paths are not propagated. RabbitMQ's hop counts have 16 bits, but
/// nobody configures so many.
pub(crate) const PATH_BROKERS_MAX: usize = 255;
/// Paths by which one binding is requested of a source: the best one, and others around the brokers on it.
pub(crate) const PATHS_PASSED_MAX: usize = 4;
/// Paths of an interest among which a route chooses, beside this broker's own. Further ones wait until half of these have gone. To
/// compare as many of the greatest length takes some 2 ms, by estimate.
pub(crate) const ORIGINS_MAX: usize = 256;
/// Brokers of paths that are compared, and interests that are looked at, in a round of requests: some 2 ms, by estimate.
pub(crate) const CHOICE_WORK_MAX: u64 = 65_536;
/// Stamps in the duplicate window of a broker. They take 34 bytes each, 2.2 MiB in all; at 100,000 messages a second over forced
/// routes, one path may lag two thirds of a second behind the other.
pub const WINDOW_STAMPS_MAX: usize = 65_536;
/// Connections that the destination closes one after the other, each while one and the same pushed message was all that was in
/// flight, before that message is given up. An error of another cause seldom meets the same message so often.
pub const CLOSED_CONNECTIONS_MAX: u32 = 3;
