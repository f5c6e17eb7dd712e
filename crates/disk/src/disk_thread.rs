//! A thread of a disk of files, and the requests that it has: it carries them out one after another.
//!
//! Enters: requests.  Leaves: their completions.
//! Owns:   the requests for which the thread has no capacity yet.

use crate::limits::REQUESTS_MAX;
use crate::request_order::RequestNumber;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use store::{Completion, DiskError, DiskErrorKind, Request};

/// Is called by the threads of a disk when there is a completion.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// What was done, and how long it took.
pub(crate) struct CarriedOut {
    pub completion: Completion,
    pub took_us: u64,
}

/// The owner's end of a thread.
pub(crate) struct DiskThread {
    /// `None` once the disk is being dropped.
    requests: Option<SyncSender<(RequestNumber, Request)>>,
    completions: Receiver<(RequestNumber, CarriedOut)>,
    waiting: VecDeque<(RequestNumber, Request)>,
    under_way: usize,
    thread: Option<JoinHandle<()>>,
}

impl DiskThread {
    pub fn start(
        name: String,
        wake: Arc<Wake>,
        mut carry_out: impl FnMut(Request) -> CarriedOut + Send + 'static,
    ) -> Result<DiskThread, DiskError> {
        let (requests, to_do) = sync_channel::<(RequestNumber, Request)>(REQUESTS_MAX);
        let (done, completions) = sync_channel(REQUESTS_MAX);
        let run = move || {
            while let Ok((number, request)) = to_do.recv() {
                if done.send((number, carry_out(request))).is_err() {
                    return;
                }
                wake();
            }
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(run).map_err(|error| DiskError {
            kind: DiskErrorKind::Failed,
            text: format!("cannot start the thread {name}: {error}"),
        })?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(DiskThread { requests, completions, waiting: VecDeque::new(), under_way: 0, thread })
    }

    pub fn submit(&mut self, number: RequestNumber, request: Request) {
        self.waiting.push_back((number, request));
        self.send_waiting();
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

    /// What it has done, if there is something.
    pub fn poll(&mut self) -> Option<(RequestNumber, CarriedOut)> {
        match self.completions.try_recv() {
            Ok(done) => {
                self.on_done();
                Some(done)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("a disk's thread ends only when the disk is dropped"),
        }
    }

    /// Waits until it has done something. `None` if it has nothing to do, or has ended.
    pub fn wait(&mut self) -> Option<RequestNumber> {
        if self.under_way == 0 {
            return None;
        }
        let (number, _) = self.completions.recv().ok()?;
        self.on_done();
        Some(number)
    }

    fn on_done(&mut self) {
        self.under_way -= 1;
        self.send_waiting();
    }
}

impl Drop for DiskThread {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; a second one here would hide it.
            let _panicked = thread.join();
        }
    }
}
