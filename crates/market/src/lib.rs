//! A stock exchange without I/O: messages of gateways and of the matching engine, order books, and random orders.
//!
//! A gateway takes orders from [`OrderFlow`], numbers and remembers them with [`OutstandingOrders`] and sends the bytes
//! of [`MarketMessage::encode`]. The engine passes each message to [`MatchingEngine::process`], writes it into its
//! journal if [`InputOutcome::is_journaled`] is true, and only then sends the resulting messages.
//! [`MatchingEngine::replay`] rebuilds the same engine from the journal.
#![forbid(unsafe_code)]

mod checksum;
mod display;
mod gateway_ledger;
pub mod limits;
mod matching_engine;
mod messages;
pub mod order_book;
mod order_flow;
mod order_id;
mod outstanding_orders;
mod price_set;
mod resting_orders;
mod sample;
mod sequence;
mod terms;

pub use checksum::{OrdersChecksum, TradesChecksum};
pub use gateway_ledger::SequenceGap;
pub use matching_engine::{
    EngineCounts, EngineRules, InputOutcome, JournalError, MatchingEngine, MessageSink, Recipient,
};
pub use messages::{
    EncodedMessage, EndOfStream, MalformedMessage, MarketMessage, NewOrder, ORDER_BYTES, OrderConfirmation,
    OrderReject, Quote, Trade,
};
pub use order_flow::{OrderFlow, OrderFlowRules};
pub use order_id::OrderId;
pub use outstanding_orders::{GatewayEvent, OutstandingOrders};
pub use sample::{MarketSample, SampleSource};
pub use sequence::ShortSequence;
pub use terms::{GatewayId, Lots, Matching, OrderSide, RejectReason, Symbol, Ticks};
