//! The durable store, without its files: what is written to a log, when it is durable, and what is found again.
//!
//! Enters: messages, settlements and definitions; completions of the disk.  Leaves: requests to the disk; what is durable.
//! Owns:   the format of segments, frames and records.
//! Never:  opens a file, starts a thread, reads a clock; knows AMQP.
//!
//! A store has a log for each shard. A log is a row of segments, a segment a row of frames, a frame a row of records. What
//! is appended at about the same time is a group, which is written by one call and then durable. The log is the only
//! evidence: everything else is derived from it. Read `Record`, then `Group`, then `LogWriter`, then `Scan`, and for
//! messages `MessageLog` and `recover`.
#![forbid(unsafe_code)]

mod alike_messages;
mod buffer;
mod damage_survey;
mod footer;
mod frame;
mod group;
mod ids;
mod large_message;
pub mod limits;
mod live_runs;
mod log_event;
mod log_metrics;
mod log_writer;
mod message_log;
mod record;
mod recovery;
mod request;
mod run_map;
mod scan;
mod scrub;
mod segment_header;
mod segment_supply;
mod sync_schedule;
mod uid_map;
mod varint;

pub use buffer::AlignedBuffer;
pub use damage_survey::{DamageSurvey, LostMessages, MessageLoss, survey_damage};
pub use footer::{Footer, FooterEntry, FooterFault, FooterQueue, FooterWriter, MessageRun, SegmentEnd};
pub use frame::{FORMAT, Frame, FrameFault, FrameHeader, FrameKind};
pub use group::{Chain, Group, GroupFull, QueueCursor};
pub use ids::{
    Block, FrameSequence, GroupNumber, LogId, Position, QueueUid, SegmentId, SegmentNumber, StoreTag, Ticket,
};
pub use log_event::LogEvent;
pub use log_metrics::LogMetrics;
pub use log_writer::{LogEnd, LogWriter};
pub use message_log::{
    FetchId, Fetched, FetchedMessage, LogShare, LoggedMessage, MessageDamage, MessageLog, MessageLogEvent,
    MessageLogOptions,
};
pub use record::{FrameQueue, Record, RecordFault, RecordReader, StoredMessage};
pub use recovery::{FoundMessage, FoundPage, LiveTotals, RecoveredLog, RecoverySink, recover};
pub use request::{Completion, DiskError, DiskErrorKind, Request, SealedGroup};
pub use scan::{Damage, OnDamage, RecordVisitor, ScanError, ScanResult, SegmentReader, UnreadableEnd, scan};
pub use scrub::{Scrub, ScrubCounts, ScrubOptions, ScrubbedDamage};
pub use segment_header::{SegmentHeader, SegmentHeaderFault, SegmentStart};
