//! What becomes of what was appended to a log, and of its disk.

use crate::ids::GroupNumber;
use crate::request::DiskError;

/// What a log's owner must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogEvent {
    /// This group and those before it are durable.
    Durable(GroupNumber),
    /// No segment can be made: what is written fills the last one.
    NoSpace(DiskError),
    /// There is space again.
    Space,
    /// The footer of a segment could not be written: the next start reads the segment.
    NoFooter(DiskError),
    /// The log cannot be written any more.
    Failed(DiskError),
}
