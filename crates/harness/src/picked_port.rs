//! Ports for those who cannot bind port 0 and tell which one they got.
//!
//! A port that is picked free may be taken before it is bound. Whoever can binds port 0 instead ([`crate::ready_line`]); this is
//! for listeners over RDMA alone, whose port many devices share and the connection manager chooses for none of them. Brokers
//! of others that need a port have `tests/free-port`.

use std::net::{Ipv4Addr, TcpListener};

use crate::limits::PICKED_PORTS_MAX;
use nix::errno::Errno;

/// Calls `start` with a port that is free now, and with another one as long as that finds its port taken.
///
/// # Errors
/// Another failure of `start`, or a port that was taken each time.
pub fn on_picked_port<T>(mut start: impl FnMut(u16) -> Result<T, String>) -> Result<T, String> {
    let mut attempt = 1;
    loop {
        let port = free_port()?;
        match start(port) {
            Err(why) if is_taken(&why) && attempt < PICKED_PORTS_MAX => attempt += 1,
            Err(why) if is_taken(&why) => return Err(format!("each of {attempt} ports was taken: {why}")),
            other => return other,
        }
    }
}

/// Whether a broker failed because another program has its port, as the system words it.
pub fn is_taken(why: &str) -> bool {
    why.contains(&std::io::Error::from_raw_os_error(Errno::EADDRINUSE as i32).to_string())
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("no free port: {error}"))?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Binds a port as a broker would, and says why not as it would.
    fn bind(port: u16) -> Result<TcpListener, String> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| format!("--listen: {error}"))
    }

    #[test]
    fn a_port_that_was_taken_meanwhile_is_replaced() {
        let mut thieves = Vec::new();
        let bound = on_picked_port(|port| {
            if thieves.len() < 2 {
                thieves.push(bind(port).expect("it is free"));
            }
            bind(port)
        });
        let (bound, ports) = (bound.expect("the third is free"), thieves.iter().map(TcpListener::local_addr));
        assert!(ports.map(|port| port.expect("bound")).all(|port| port != bound.local_addr().expect("bound")));
    }

    #[test]
    fn other_failures_and_too_many_thieves_are_told() {
        let mut calls = 0;
        let mut fail = |why: &str| {
            calls = 0;
            let told = on_picked_port::<()>(|_| {
                calls += 1;
                Err(why.to_owned())
            });
            (calls, told.expect_err("it failed"))
        };
        assert_eq!(fail("no device"), (1, "no device".to_owned()));
        let (tries, told) = fail("Address already in use (os error 98)");
        assert_eq!((tries, told.contains("each of 8 ports")), (PICKED_PORTS_MAX, true), "{told}");
    }
}
