//! Segments in files: a thread for each log does what is asked, one request after another.

use crate::Disk;
use crate::disk_metrics::DiskMetrics;
use crate::error::disk_error;
use crate::folder::{SegmentFolder, SyncMode};
use crate::limits::REQUESTS_MAX;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;
use store::limits::BLOCK_BYTES;
use store::{Block, Completion, DiskError, DiskErrorKind, Request, SealedGroup, SegmentId, SegmentReader};

/// Is called by the disk's thread when there is a completion.
pub type Wake = Box<dyn Fn() + Send>;

/// A completion, and how long a write took.
struct TimedCompletion {
    completion: Completion,
    write_us: Option<u64>,
}

/// A disk of files.
pub struct FileDisk {
    folder: SegmentFolder,
    /// `None` once the disk is being dropped.
    requests: Option<SyncSender<Request>>,
    completions: Receiver<TimedCompletion>,
    /// Requests for which the thread has no capacity yet.
    waiting: VecDeque<Request>,
    under_way: usize,
    metrics: DiskMetrics,
    thread: Option<JoinHandle<()>>,
}

impl FileDisk {
    /// Starts the thread of a log.
    pub fn start(folder: SegmentFolder, name: &str, wake: Wake) -> Result<FileDisk, DiskError> {
        let (requests, to_do) = sync_channel(REQUESTS_MAX);
        let (done, completions) = sync_channel(REQUESTS_MAX);
        let thread_folder = folder.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || FileThread { folder: thread_folder, open: None }.run(&to_do, &done, &wake))
            .map_err(|error| DiskError {
                kind: DiskErrorKind::Failed,
                text: format!("cannot start the thread {name}: {error}"),
            })?;
        let requests = Some(requests);
        Ok(FileDisk {
            folder,
            requests,
            completions,
            waiting: VecDeque::new(),
            under_way: 0,
            metrics: DiskMetrics::default(),
            thread: Some(thread),
        })
    }

    fn send_waiting(&mut self) {
        let Some(requests) = &self.requests else { return };
        // As many as there may be completions: the thread never waits for its owner.
        while self.under_way < REQUESTS_MAX
            && let Some(request) = self.waiting.pop_front()
        {
            match requests.try_send(request) {
                Ok(()) => self.under_way += 1,
                Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) => {
                    self.waiting.push_front(request);
                    return;
                }
            }
        }
    }
}

impl Disk for FileDisk {
    fn submit(&mut self, request: Request) {
        self.waiting.push_back(request);
        self.send_waiting();
    }

    fn poll(&mut self) -> Option<Completion> {
        match self.completions.try_recv() {
            Ok(TimedCompletion { completion, write_us }) => {
                self.metrics.count(&completion, self.folder.sync_mode());
                write_us.into_iter().for_each(|write_us| self.metrics.write_times.record(write_us));
                self.under_way -= 1;
                self.send_waiting();
                Some(completion)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the disk's thread ends only when the disk is dropped"),
        }
    }

    fn under_way(&self) -> usize {
        self.under_way + self.waiting.len()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.folder.free_bytes()
    }

    fn metrics(&self) -> DiskMetrics {
        self.metrics.clone()
    }
}

impl Drop for FileDisk {
    /// What was submitted is done first.
    fn drop(&mut self) {
        while self.under_way() > 0 && self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            match self.completions.recv() {
                Ok(_) => self.under_way -= 1,
                Err(_) => break,
            }
            self.send_waiting();
        }
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; a second one here would hide it.
            let _panicked = thread.join();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the disk takes is known to its thread alone")]
fn now() -> Instant {
    Instant::now()
}

/// What the thread has.
struct FileThread {
    folder: SegmentFolder,
    /// The segment that was written last.
    open: Option<(SegmentId, File)>,
}

impl FileThread {
    fn run(mut self, requests: &Receiver<Request>, done: &SyncSender<TimedCompletion>, wake: &Wake) {
        while let Ok(request) = requests.recv() {
            let completion = self.carry_out(request);
            if done.send(completion).is_err() {
                return;
            }
            wake();
        }
    }

    fn carry_out(&mut self, request: Request) -> TimedCompletion {
        let gate = self.folder.gate().clone();
        // Reads change nothing.
        let _passage = (!matches!(request, Request::Read { .. })).then(|| gate.enter());
        let mut write_us = None;
        let completion = match request {
            Request::Make { segment, blocks, from } => {
                let result = self.folder.make(segment, blocks, from);
                Completion::Made { segment, result }
            }
            Request::Write { segment, block, group } => {
                let began = now();
                let result = self.write(segment, block, &group);
                write_us = Some((now() - began).as_micros() as u64);
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
        };
        TimedCompletion { completion, write_us }
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
