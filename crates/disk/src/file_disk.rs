//! Segments in files: for each log a thread that writes groups and reads, and another one that makes and removes files.
//!
//! A segment in the making is written through, and its name made durable, while groups go on: none of that holds them back.

use crate::Disk;
use crate::disk_metrics::DiskMetrics;
use crate::disk_thread::{CarriedOut, DiskThread, Wake};
use crate::error::disk_error;
use crate::folder::{SegmentFolder, SyncMode};
use crate::request_order::{RequestNumber, RequestOrder};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;
use store::limits::BLOCK_BYTES;
use store::{Block, Completion, DiskError, Request, SealedGroup, SegmentId, SegmentReader};

/// A disk of files.
pub struct FileDisk {
    folder: SegmentFolder,
    order: RequestOrder,
    /// Writes groups, and reads.
    blocks: DiskThread,
    /// Makes, renames and removes files.
    files: DiskThread,
    metrics: DiskMetrics,
}

impl FileDisk {
    /// Starts the threads of a log.
    pub fn start(folder: SegmentFolder, name: &str, wake: Wake) -> Result<FileDisk, DiskError> {
        let wake = Arc::new(wake);
        let start = |name: String| {
            let mut worker = FileWorker { folder: folder.clone(), open: None };
            DiskThread::start(name, Arc::clone(&wake), move |request| worker.carry_out(request))
        };
        let (blocks, files) = (start(name.to_owned())?, start(format!("files-{name}"))?);
        Ok(FileDisk { folder, order: RequestOrder::default(), blocks, files, metrics: DiskMetrics::default() })
    }

    fn send(&mut self, number: RequestNumber, request: Request) {
        let thread = match request {
            Request::Write { .. } | Request::Sync { .. } | Request::Read { .. } => &mut self.blocks,
            Request::Make { .. } | Request::Remove { .. } | Request::WriteFooter { .. } => &mut self.files,
        };
        thread.submit(number, request);
    }

    fn finish(&mut self, number: RequestNumber) {
        self.order.finish(number);
        while let Some((number, request)) = self.order.next_released() {
            self.send(number, request);
        }
    }
}

impl Disk for FileDisk {
    fn submit(&mut self, request: Request) {
        if let Some((number, request)) = self.order.submit(request) {
            self.send(number, request);
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        let done = self.blocks.poll().or_else(|| self.files.poll());
        let (number, CarriedOut { completion, took_us }) = done?;
        self.metrics.count(&completion, took_us, self.folder.sync_mode());
        self.finish(number);
        Some(completion)
    }

    fn under_way(&self) -> usize {
        self.order.unfinished()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.folder.free_bytes()
    }

    fn metrics(&self) -> DiskMetrics {
        self.metrics
    }
}

impl Drop for FileDisk {
    /// What was submitted is done first, unless a thread has ended that it needs.
    fn drop(&mut self) {
        while let Some(number) = self.blocks.wait().or_else(|| self.files.wait()) {
            self.finish(number);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the disk takes is known to its thread alone")]
fn now() -> Instant {
    Instant::now()
}

/// Carries out requests, in a thread.
struct FileWorker {
    folder: SegmentFolder,
    /// The segment that was written last.
    open: Option<(SegmentId, File)>,
}

impl FileWorker {
    fn carry_out(&mut self, request: Request) -> CarriedOut {
        let gate = self.folder.gate().clone();
        // Reads change nothing, and a segment that is made only passes when it gets its name.
        let is_change = !matches!(request, Request::Read { .. } | Request::Make { .. });
        let _passage = is_change.then(|| gate.enter());
        let began = now();
        let completion = match request {
            Request::Make { segment, blocks, from } => {
                let result = self.folder.make(segment, blocks, from);
                Completion::Made { segment, result }
            }
            Request::Write { segment, block, group } => {
                let result = self.write(segment, block, &group);
                Completion::Written { segment, group, result }
            }
            Request::Sync { segment } => Completion::Synced { segment, result: self.sync_open() },
            Request::Read { segment, block, mut buffer, is_direct } => {
                let result = match is_direct {
                    true => self.folder.read_direct(segment, block, &mut buffer),
                    false => self.folder.read(segment, block, &mut buffer),
                };
                Completion::Read { segment, block, buffer, result }
            }
            Request::Remove { segment } => {
                let result = self.folder.remove(segment);
                Completion::Removed { segment, result }
            }
            Request::WriteFooter { segment, bytes } => {
                let result = self.folder.write_footer(segment, &bytes);
                Completion::FooterWritten { segment, result }
            }
        };
        CarriedOut { completion, took_us: (now() - began).as_micros() as u64 }
    }

    fn write(&mut self, segment: SegmentId, block: Block, group: &SealedGroup) -> Result<(), DiskError> {
        if self.open.as_ref().is_some_and(|(open, _)| *open != segment) {
            // A segment that begins proves that the one before it had ended.
            self.sync_open()?;
        }
        let file = match &self.open {
            Some((open, file)) if *open == segment => file,
            _ => &self.open.insert((segment, self.folder.open_for_writing(segment)?)).1,
        };
        let begin = u64::from(block.0) * BLOCK_BYTES as u64;
        let written = file.write_all_at(group.bytes(), begin);
        let written = written.map_err(|error| {
            // What the system keeps of a failed write goes with the descriptor.
            self.open = None;
            disk_error(&format!("write block {} of", block.0), &self.folder.segment_path(segment), error)
        });
        if written.is_ok() {
            self.folder.set_written(segment, begin + group.bytes().len() as u64);
        }
        written
    }

    /// Makes durable what was written to the segment that was written last. Those before it are.
    fn sync_open(&mut self) -> Result<(), DiskError> {
        let Some((segment, file)) = self.open.as_ref().filter(|_| self.folder.sync_mode() == SyncMode::OnRequest)
        else {
            return Ok(());
        };
        let error = match file.sync_data() {
            Ok(()) => return Ok(()),
            Err(error) => disk_error("sync", &self.folder.segment_path(*segment), error),
        };
        self.open = None;
        Err(error)
    }
}
