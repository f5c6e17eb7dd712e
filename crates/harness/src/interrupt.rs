//! Handles Ctrl-C: SIGINT and SIGTERM set a flag and terminate the child processes, which ends every wait of the controller.
//!
//! The process itself is not terminated: the command returns an error and cleans up on the way out.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The error of an interrupted run.
pub const MESSAGE: &str = "interrupted";

static REQUESTED: AtomicBool = AtomicBool::new(false);
static CHILDREN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Installs the handler of SIGINT and SIGTERM.
pub fn listen() -> Result<(), String> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    std::thread::spawn(move || {
        for _signal in signals.forever() {
            REQUESTED.store(true, Ordering::SeqCst);
            for &pid in children().iter() {
                // A child that has just ended needs no signal.
                let _ended = kill(Pid::from_raw(pid as i32), Signal::SIGTERM);
            }
        }
    });
    Ok(())
}

/// Whether the run was interrupted.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// Interrupts this process, as a signal would.
pub fn request() {
    REQUESTED.store(true, Ordering::SeqCst);
}

/// Registers a child to be terminated on interruption.
pub(crate) fn add_child(pid: u32) {
    children().push(pid);
}

/// Removes a child that has ended.
pub(crate) fn remove_child(pid: u32) {
    children().retain(|&child| child != pid);
}

fn children() -> std::sync::MutexGuard<'static, Vec<u32>> {
    CHILDREN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
