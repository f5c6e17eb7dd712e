//! Raises the soft limit on open files before a run starts, or reports how many descriptors are missing.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors that a process needs in addition to its connections.
const OTHERS: u64 = 64;

/// Raises the limit for this many connections per process; a started broker needs one descriptor more for each client.
///
/// # Errors
/// The limit cannot be raised that far.
pub fn raise_for(connections: usize) -> Result<(), String> {
    let needed = needed(connections);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("open files: {error}"))?;
    if soft >= needed {
        return Ok(());
    }
    if hard < needed {
        return Err(too_few(connections, needed, hard));
    }
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(|error| format!("open files: {error}"))
}

/// Raises the limit as far as it may be raised; returns how many files may be open then.
///
/// # Errors
/// The limit can be neither read nor raised.
pub fn raise_to_hard_limit() -> Result<u64, String> {
    let (_soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| format!("open files: {error}"))?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| format!("open files: {error}"))?;
    Ok(hard)
}

/// Consumers and the publishers' own connections can end up in one process: the broker.
fn needed(connections: usize) -> u64 {
    2 * connections as u64 + OTHERS
}

fn too_few(connections: usize, needed: u64, hard: u64) -> String {
    format!(
        "too few file descriptors: {connections} connections need {needed} open files a process, the hard limit is {hard}; \
         raise it (ulimit -Hn, LimitNOFILE) or measure fewer"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_connections_fit_and_too_many_say_how_many_are_needed() {
        assert_eq!(raise_for(4), Ok(()));
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        if hard < u64::MAX >> 2 {
            let why = raise_for(hard as usize).expect_err("more than there can be");
            assert!(why.starts_with("too few file descriptors:") && why.contains(&hard.to_string()), "{why}");
        }
        assert_eq!(needed(32), 128);
    }
}
