//! Compares the footers of a log with its segments.
//!
//! Enters: the frames of a scan.  Leaves: how many footers are right, and what is wrong with others.
//!
//! A footer that is missing or wrong loses nothing: the broker reads the segment instead when it starts.

use super::stopped_store::StoredLog;
use store::{
    Block, Chain, Footer, FooterFault, FooterWriter, FrameHeader, FrameSequence, Record, SegmentEnd, SegmentId,
    SegmentStart,
};

/// Compares one footer after another.
pub struct FooterCheck<'a> {
    log: &'a StoredLog,
    writer: FooterWriter,
    segment: Option<SegmentId>,
    next_block: u32,
    /// Footers that are as their segments are.
    pub right: u64,
    /// What is wrong with the others.
    pub wrong: Vec<String>,
}

impl<'a> FooterCheck<'a> {
    pub fn new(log: &'a StoredLog) -> Self {
        let Chain { store, log: id, .. } = *log.start();
        let writer = FooterWriter::new(store, id);
        FooterCheck { log, writer, segment: None, next_block: 0, right: 0, wrong: Vec::new() }
    }

    /// A frame begins.
    pub fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader) {
        if self.segment != Some(segment) {
            self.end_segment(header.sequence, header.previous_crc);
            self.segment = Some(segment);
            let (number, first) = (segment.number, header.sequence);
            self.writer.begin(SegmentStart { number, first, previous_crc: header.previous_crc });
        }
        self.writer.begin_frame(block);
        self.next_block = block.0 + header.blocks();
    }

    /// A record of that frame.
    pub fn on_record(&mut self, record: &Record<'_>) {
        self.writer.add(record);
    }

    /// Frames of the segment are missing: that is said already, and what its footer should be is not known.
    pub fn on_damage(&mut self) {
        self.writer.give_up();
    }

    /// The segment ends with the frame before this one.
    pub fn end_segment(&mut self, next: FrameSequence, last_crc: u32) {
        let Some(segment) = self.segment.take() else { return };
        let expected = self.writer.finish(SegmentEnd { next, last_crc, block: Block(self.next_block) });
        let found = match self.log.footer(segment) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(error) => return self.wrong.push(error.text),
        };
        let why = match Footer::read(&found) {
            Err(FooterFault::UnknownFormat(format)) => {
                format!("the footer has format {format}, which this version cannot read")
            }
            Err(FooterFault::Damaged | FooterFault::BadEntries) => "the footer is damaged".to_owned(),
            Ok(_) => match expected {
                Some(expected) if expected != found => "the footer is not that of its segment".to_owned(),
                Some(_) => return self.right += 1,
                None => return,
            },
        };
        let path = self.log.footer_path(segment);
        self.wrong.push(format!("{}: {why}; the broker reads the segment when it starts", path.display()));
    }
}
