//! The thread that owns the controller on rank 0, so that ranks are served while the command is busy.
//!
//! The command's thread sends it closures and waits for their results.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::membership::RankMembership;
use super::rank_controller::RankController;
use super::rank_options::RankOptions;

type ControllerRequest = Box<dyn FnOnce(&mut RankController) + Send>;

/// How long the thread waits for a request before it polls its connection.
const IDLE_INTERVAL: Duration = Duration::from_millis(200);

struct ControllerThread {
    requests: Sender<ControllerRequest>,
    thread: JoinHandle<Result<(), String>>,
}

static CONTROLLER: Mutex<Option<ControllerThread>> = Mutex::new(None);

/// Starts the thread and gathers the ranks.
///
/// # Errors
/// As [`Controller::gather`].
pub fn open(membership: RankMembership, url: &str, options: RankOptions) -> Result<(), String> {
    let (requests, receiver) = channel::<ControllerRequest>();
    let (ready_sender, ready) = channel();
    let url = url.to_owned();
    let thread = std::thread::spawn(move || {
        let mut controller = match RankController::gather(membership, &url, options.agent, options.roles.as_ref()) {
            Ok(controller) => controller,
            Err(why) => {
                // `open` waits for this result.
                let _listens = ready_sender.send(Err(why));
                return Ok(());
            }
        };
        let _listens = ready_sender.send(Ok(()));
        loop {
            match receiver.recv_timeout(IDLE_INTERVAL) {
                Ok(request) => request(&mut controller),
                Err(RecvTimeoutError::Timeout) => controller.process_pending(),
                Err(RecvTimeoutError::Disconnected) => return controller.close(),
            }
        }
    });
    ready.recv().unwrap_or_else(|_| Err("the thread that gathers the ranks failed".to_owned()))?;
    *controller_thread() = Some(ControllerThread { requests, thread });
    Ok(())
}

/// Ends the run on all ranks with an exit status, and the thread.
///
/// # Errors
/// As [`Controller::end`].
pub fn close(status: u8) -> Result<(), String> {
    let ended = ask(move |controller| controller.end(status));
    let Some(ControllerThread { requests, thread }) = controller_thread().take() else { return ended };
    drop(requests);
    let closed = thread.join().unwrap_or_else(|_| Err("the controller's thread failed".to_owned()));
    ended.and(closed)
}

/// Whether this run has worker ranks.
pub fn has_ranks() -> bool {
    controller_thread().is_some()
}

/// Runs a closure on the controller's thread and waits for its result.
///
/// # Errors
/// The closure's own error, or that the thread has ended.
pub fn ask<T: Send + 'static>(
    question: impl FnOnce(&mut RankController) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    const NOBODY: &str = "the conversation with the ranks has ended";
    let requests = controller_thread().as_ref().map(|thread| thread.requests.clone()).ok_or(NOBODY)?;
    let (answer, answered) = channel();
    // If the caller's thread has ended, nobody needs the result.
    requests.send(Box::new(move |controller| drop(answer.send(question(controller))))).map_err(|_| NOBODY)?;
    answered.recv().map_err(|_| NOBODY)?
}

fn controller_thread() -> MutexGuard<'static, Option<ControllerThread>> {
    CONTROLLER.lock().unwrap_or_else(PoisonError::into_inner)
}
