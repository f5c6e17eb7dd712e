//! The watch: the most memory that the broker was ever seen with.
//!
//! Enters: a process.  Leaves: the highest of its resident memory.
//! Owns:   a thread that looks every few milliseconds.
//! Never:  outlives what it watches unnoticed.

use crate::Outcome;
use crate::program::{Program, resident_bytes};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(5);

/// A watch on a process.
pub struct Watch {
    end: Sender<()>,
    thread: JoinHandle<Result<u64, String>>,
}

impl Watch {
    /// Begins.
    pub fn start(program: &Program) -> Self {
        let process = program.id();
        let (end, ending) = channel();
        let thread = thread::spawn(move || {
            let mut most = 0;
            loop {
                most = most.max(resident_bytes(process).map_err(|error| error.to_string())?);
                if ending.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                    return Ok(most);
                }
            }
        });
        Watch { end, thread }
    }

    /// Ends; the highest in bytes.
    pub fn finish(self) -> Outcome<u64> {
        drop(self.end);
        Ok(self.thread.join().map_err(|_| "the watch has panicked")??)
    }
}
