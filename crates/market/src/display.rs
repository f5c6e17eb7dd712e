//! Prints messages for people, one line each.

use crate::messages::MarketMessage;
use crate::sample::{MarketSample, NAMES, SampleSource};
use crate::terms::{OrderSide, Ticks};
use std::fmt;

impl fmt::Display for OrderSide {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            OrderSide::Buy => "buy",
            OrderSide::Sell => "sell",
        })
    }
}

/// A price that may be absent.
struct OptionalPrice(Option<Ticks>);

impl fmt::Display for OptionalPrice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(price) => write!(to, "{price}"),
            None => to.write_str("none"),
        }
    }
}

impl fmt::Display for MarketMessage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MarketMessage::Order(order) => write!(
                to,
                "order gateway={} sequence={} {} symbol={} price={} lots={}",
                order.gateway,
                order.sequence.bits(),
                order.side,
                order.symbol.0,
                order.price,
                order.lots
            ),
            MarketMessage::Trade(trade) => write!(
                to,
                "trade number={} symbol={} price={} lots={} {} taker={}:{} maker={}:{}{}",
                trade.number.bits(),
                trade.symbol.0,
                trade.price,
                trade.lots,
                trade.side,
                trade.taker,
                trade.taker_sequence.bits(),
                trade.maker,
                trade.maker_sequence.bits(),
                if trade.answers { " answers" } else { "" }
            ),
            MarketMessage::Confirmation(of) => write!(
                to,
                "confirmation gateway={} number={} sequence={}",
                of.gateway,
                of.number.bits(),
                of.sequence.bits()
            ),
            MarketMessage::Quote(quote) => write!(
                to,
                "quote symbol={} number={} bid={} ask={}",
                quote.symbol.0,
                quote.number,
                OptionalPrice(quote.bid),
                OptionalPrice(quote.ask)
            ),
            MarketMessage::Reject(of) if of.reason.names_an_order() => write!(
                to,
                "reject gateway={} number={} sequence={} reason='{}'",
                of.gateway,
                of.number.bits(),
                of.sequence.bits(),
                of.reason
            ),
            MarketMessage::Reject(of) => write!(to, "reject reason='{}'", of.reason),
            MarketMessage::End(end) => {
                write!(to, "end gateway={} count={} checksum={:016x}", end.gateway, end.count, end.checksum)
            }
        }
    }
}

impl fmt::Display for MarketSample {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            SampleSource::Gateway(gateway) => write!(to, "sample gateway={gateway}")?,
            SampleSource::Engine => to.write_str("sample engine")?,
        }
        let completions: u64 = self.completions.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count));
        write!(to, " number={}", self.number)?;
        for (name, value) in NAMES.iter().zip(self.numbers()) {
            write!(to, " {name}={value}")?;
        }
        write!(to, " completions={completions}")
    }
}
