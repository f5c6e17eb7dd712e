//! Limits of the market's programs: bounds of every count, size and wait. Defaults that a user may change are beside their options.

use std::time::Duration;

/// Most placements of a market tried in turns.
pub const PLACES_MAX: usize = 8;
/// How long a program of a market waits for messages before it checks for its end.
pub const MARKET_LOOK: Duration = Duration::from_millis(100);
/// How long a reporter that is to end waits for further messages.
pub const MARKET_SILENCE: Duration = Duration::from_millis(300);
/// Most orders of one market.
pub const MARKET_ORDERS_MAX: u64 = 1_000_000_000;
/// Highest rate of orders per second.
pub const MARKET_RATE_MAX: f64 = 10_000_000.0;
/// Unsent bytes of a gateway above which further orders wait for the link, and are late.
pub const MARKET_UNSENT_BYTES_MAX: usize = 1 << 20;
/// Most unconfirmed orders of a gateway, or answers of an engine.
pub const MARKET_UNCONFIRMED_MAX: u64 = 20_000;
/// Prefetch count of an engine.
pub const MARKET_PREFETCH: u16 = 20_000;
/// How long a gateway that has sent everything waits for the next answer before missing ones count as lost.
pub const MARKET_ANSWER_WAIT: Duration = Duration::from_secs(15);
/// How long an engine tries to become the exclusive consumer of a queue whose former consumer was killed.
pub const MARKET_TAKE_OVER_WAIT: Duration = Duration::from_secs(10);
/// Gaps in the orders of gateways that an engine reports individually; all are counted.
pub const MARKET_GAPS_TOLD: u64 = 16;
/// Interval between these attempts.
pub const MARKET_TAKE_OVER_LOOK: Duration = Duration::from_millis(20);
/// How long an engine or a reporter may take to end.
pub const MARKET_END_WAIT: Duration = Duration::from_secs(30);
