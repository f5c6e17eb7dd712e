//! `harrier market tail`: prints the messages of a market in words, or decodes bytes.
//!
//! It consumes copies from a queue of its own that is bound with every routing key of the market.

use client::{Client, ClientChannel, ConsumeOptions, QueueOptions, Table};
use market::{MarketMessage, MarketSample};
use report::stdout::put;

use super::market_address::{MarketAddress, ORDERS, REJECTS, STATISTICS};
use super::market_options::TRADING;
use super::programs::{MARKET, market_address};
use crate::limits::MARKET_LOOK;
use harness::arguments::{OptionSpec, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::interrupt;
use market::limits::GATEWAYS_MAX;
use wire::Escaped;

const OWN: &[OptionSpec] = &[
    option("count", None, "N", "end after N messages (default: at Ctrl-C or SIGTERM)"),
    option("hex", None, "BYTES", "decode these bytes, as in 10000120000a000000, and end"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Prints every message of a market in words, after its routing key. It consumes from its own queue on the market's exchange, so
that no program misses a message.";

const EXAMPLES: &[(&str, &str)] =
    &[("tail --url amqp://broker", "all messages"), ("tail --hex 10000120000a000000", "decodes nine bytes")];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    let gateways: Vec<OptionSpec> = TRADING.iter().filter(|option| option.name == "gateways").copied().collect();
    CommandSpec::new("harrier market tail [OPTIONS]", ABOUT, &[MARKET, &gateways, OWN], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, or a broker that fails.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    if let Some(digits) = given.text("hex") {
        return Ok(put(&format!("{}\n", describe(&bytes(digits)?)))?);
    }
    let gateways = given.number("gateways", 1, 1, GATEWAYS_MAX as u64)? as u16;
    let count = given.number("count", u64::MAX, 1, u64::MAX)?;
    follow(&market_address(&given, gateways)?, count)
}

fn bytes(digits: &str) -> Result<Vec<u8>, UsageError> {
    let wrong = || UsageError(format!("--hex is an even number of hexadecimal digits, not '{digits}'"));
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(wrong());
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong())).collect()
}

/// A message in words.
fn describe(body: &[u8]) -> String {
    match (MarketMessage::decode(body), MarketSample::decode(body)) {
        (Ok(message), _) => message.to_string(),
        (Err(_), Ok(sample)) => sample.to_string(),
        (Err(malformed), Err(_)) => format!("not a message ({}): {} bytes", malformed.reason, body.len()),
    }
}

/// What is shown of a delivery. The queue is bound by known keys, but who publishes may add such a one in `CC` to any other.
fn line(routing_key: &[u8], body: &[u8]) -> String {
    format!("{} {}\n", Escaped(String::from_utf8_lossy(routing_key)), describe(body))
}

fn follow(address: &MarketAddress, count: u64) -> Result<(), CommandFailure> {
    let (mut client, _channel) = listen(address).map_err(|error| error.to_string())?;
    let mut left = count;
    while left > 0 && !interrupt::requested() {
        let Some(delivery) = client.next_delivery(MARKET_LOOK).map_err(|error| error.to_string())? else { continue };
        put(&line(delivery.routing_key, delivery.body()))?;
        left -= 1;
    }
    Ok(client.close().map_err(|error| error.to_string())?)
}

fn listen(address: &MarketAddress) -> client::Result<(Client, ClientChannel)> {
    let (mut client, channel) = address.connect("tail", client::limits::FLUSH_BYTES)?;
    let queue = client.declare_queue(channel, "", &QueueOptions { exclusive: true, ..QueueOptions::default() })?.name;
    let keys = [ORDERS, STATISTICS, REJECTS].map(str::to_owned).into_iter();
    for key in keys.chain((0..address.gateways).map(MarketAddress::trades)) {
        client.bind_queue(channel, &queue, &address.name, &key, &Table::new())?;
    }
    client.consume(channel, &queue, &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    // This line tells a waiting program that the queue is bound.
    cli::print_error(&format!("harrier market: tail: listening to '{}'", address.name));
    Ok((client, channel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_said_in_words() {
        let of = |digits: &str| bytes(digits).map_or_else(|wrong| wrong.0, |bytes| describe(&bytes));
        assert_eq!(of("10000120000a000000"), "order gateway=0 sequence=0 buy symbol=1 price=8192 lots=10");
        assert_eq!(of("10"), "not a message (wrong length): 1 bytes");
        assert_eq!(of("1"), "--hex is an even number of hexadecimal digits, not '1'");
        assert_eq!(of("zz"), "--hex is an even number of hexadecimal digits, not 'zz'");
    }

    #[test]
    fn a_key_that_a_publisher_chose_neither_moves_the_cursor_nor_forges_a_line() {
        let shown = line(b"\x1b]0;owned\x07\norders order", &[0x10]);
        assert_eq!(shown, "\\u001b]0;owned\\u0007\\norders order not a message (wrong length): 1 bytes\n");
    }
}
