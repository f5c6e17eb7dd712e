//! Reads a log for what is alive: footers where they are, and the frames of other segments as if they had one.
//!
//! Enters: footers, frames, damage, in the order of the log.  Leaves: entries; footers for segments that have none.

use super::RecoverySink;
use super::live_index::LiveIndex;
use crate::footer::{EncodedFooter, Footer, FooterWriter, SegmentEnd};
use crate::frame::FrameHeader;
use crate::group::Chain;
use crate::ids::{Block, FrameSequence, SegmentId};
use crate::limits::FOUND_FOOTER_BYTES_MAX;
use crate::record::Record;
use crate::scan::{Damage, RecordVisitor};
use crate::segment_header::SegmentStart;

/// Reads a log.
pub(super) struct LogReading<'a, S> {
    pub index: LiveIndex<'a, S>,
    writer: FooterWriter,
    takes_footers: bool,
    /// The segment whose frames are read, and the block behind the last one.
    segment: Option<SegmentId>,
    next_block: u32,
    pub footers: Vec<EncodedFooter>,
    footer_bytes: usize,
}

impl<'a, S: RecoverySink> LogReading<'a, S> {
    pub fn new(chain: &Chain, takes_footers: bool, sink: &'a mut S) -> Self {
        LogReading {
            index: LiveIndex::new(sink),
            writer: FooterWriter::new(chain.store, chain.log),
            takes_footers,
            segment: None,
            next_block: 0,
            footers: Vec::new(),
            footer_bytes: 0,
        }
    }

    fn end_extent(&mut self) {
        let index = &mut self.index;
        self.writer.end_extent_and(|entries| entries.iter().for_each(|entry| index.add(entry)));
        index.end_extent(self.next_block);
    }

    /// The segment whose frames were read ends with the frame before this one.
    pub fn end_segment(&mut self, next: FrameSequence, last_crc: u32) {
        let Some(segment) = self.segment.take() else { return };
        self.end_extent();
        let end = SegmentEnd { next, last_crc, block: Block(self.next_block) };
        let bytes = self.writer.finish(end);
        if let Some(bytes) = bytes.filter(|bytes| self.footer_bytes + bytes.len() <= FOUND_FOOTER_BYTES_MAX) {
            self.footer_bytes += bytes.len();
            self.footers.push(EncodedFooter { segment, bytes });
        }
    }

    fn begin_segment(&mut self, segment: SegmentId, header: &FrameHeader) {
        self.end_segment(header.sequence, header.previous_crc);
        self.segment = Some(segment);
        self.next_block = 1;
        self.index.begin_segment(segment.number);
        let (number, first) = (segment.number, header.sequence);
        self.writer.begin(SegmentStart { number, first, previous_crc: header.previous_crc });
    }
}

impl<S: RecoverySink> RecordVisitor for LogReading<'_, S> {
    fn takes_footers(&self) -> bool {
        self.takes_footers
    }

    fn on_footer(&mut self, footer: &Footer<'_>) {
        self.end_segment(footer.start.first, footer.start.previous_crc);
        self.index.begin_segment(footer.start.number);
        footer.entries().for_each(|entry| self.index.add(&entry));
        self.index.end_extent(footer.end.block.0);
    }

    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader) {
        if self.segment != Some(segment) {
            self.begin_segment(segment, header);
        }
        if block.0 != self.next_block {
            // Something that never counted lies in between. The footer of a log without it cannot say so.
            self.writer.give_up();
            self.end_extent();
        }
        let (index, end) = (&mut self.index, self.next_block);
        self.writer.begin_frame_and(block, |entries| {
            entries.iter().for_each(|entry| index.add(entry));
            index.end_extent(end);
        });
        self.next_block = block.0 + header.blocks();
    }

    fn on_record(&mut self, record: Record<'_>) {
        self.writer.add(&record);
    }

    fn on_damage(&mut self, damage: &Damage) {
        self.end_extent();
        self.writer.give_up();
        self.index.on_damage();
        self.index.sink().on_damage(damage);
    }
}
