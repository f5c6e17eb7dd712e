//! Process-wide resources: the limit of open files, random seeds, signals.
//!
//! A thread waits for signals; no handler does any work.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;

/// Exit status after a second signal.
const INTERRUPTED_STATUS: i32 = 1;

/// Raises the limit of open files as far as the system allows. Returns the limit; `None`: unlimited.
pub fn raise_open_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            current
        }
    }
}

/// A seed that no peer can guess.
///
/// # Errors
/// The system has no random numbers.
pub fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    // getrandom(2) returns up to 256 bytes at once.
    assert_eq!(filled, bytes.len());
    Ok(u64::from_ne_bytes(bytes))
}

/// A number that no other store has.
///
/// # Errors
/// The system has no random numbers.
pub fn store_id() -> io::Result<u128> {
    salt().map(u128::from_ne_bytes)
}

/// Random bytes for a password hash.
///
/// # Errors
/// The system has no random numbers.
pub fn salt() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    assert_eq!(filled, bytes.len());
    Ok(bytes)
}

/// The signals of a server, caught from its creation on.
pub struct Signals(signal_hook::iterator::Signals);

impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn catch() -> io::Result<Self> {
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Signals)
    }

    /// Starts the thread that calls `stop` at the first signal, logging `meaning`, and ends the process at the second.
    /// At SIGHUP it calls `reload`, unless the server is stopping.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn watch(
        mut self,
        meaning: &'static str,
        stop: impl Fn() + Send + 'static,
        mut reload: impl FnMut() + Send + 'static,
    ) -> io::Result<()> {
        let watch = move || {
            let mut stopping = false;
            for signal in self.0.forever() {
                if signal == SIGHUP {
                    if !stopping {
                        tracing::info!("SIGHUP: reloading files");
                        reload();
                    }
                    continue;
                }
                let signal = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
                if stopping {
                    tracing::warn!(signal, "ending at once");
                    crate::log::flush();
                    std::process::exit(INTERRUPTED_STATUS);
                }
                tracing::info!(signal, "stopping: {meaning}");
                stopping = true;
                stop();
            }
        };
        // The thread lives as long as the process.
        std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map(drop)
    }
}
