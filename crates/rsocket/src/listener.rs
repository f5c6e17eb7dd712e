//! Listeners: where links come from.
//!
//! Enters: an address of an RDMA device.  Leaves: accepted links.
//! Owns:   the listening rsocket.
//! Never:  blocks.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ib::{RSocket, Wants};
use link::{Accept, Address, Link, ListenOptions, Listener};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::Watch;
use crate::link_end::{RsocketLink, as_io, set};

/// A listening rsocket.
pub struct RsocketListener {
    socket: Arc<RSocket>,
    watch: Watch,
    watched: Option<(u64, Arc<OwnedFd>)>,
    options: ListenOptions,
}

impl RsocketListener {
    /// Listens on a host and port: an address of an RDMA device of this machine's.
    ///
    /// # Errors
    /// What the system says; `Unsupported` without the library or a device, in words that say which.
    pub fn bind(host: &str, port: u16, options: &ListenOptions, watch: &Watch) -> io::Result<Self> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for resolved in (host, port).to_socket_addrs()? {
            match RSocket::listen(resolved, options.backlog) {
                Ok(socket) => {
                    let (socket, watch) = (Arc::new(socket), watch.clone());
                    return Ok(Self { socket, watch, watched: None, options: options.clone() });
                }
                Err(error) => last = as_io(error),
            }
        }
        Err(last)
    }

    /// Where it listens.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_address()
    }

    /// The same as a listener of a broker's, on the address that it was given.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bound(host: &str, port: u16, options: &ListenOptions) -> io::Result<Listener> {
        let listener = Self::bind(host, port, options, &Watch::of_process()?)?;
        let local = listener.local_address().ok_or(ErrorKind::NotConnected)?;
        let address = Address::Rsocket { host: local.ip().to_string(), port: local.port() };
        Ok(Listener::of(address, Box::new(listener)))
    }
}

impl Accept for RsocketListener {
    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        loop {
            let Some(socket) = self.socket.accept()? else {
                if let Some((number, _)) = self.watched {
                    self.watch.want(number, Wants::READABLE);
                }
                return Ok(None);
            };
            let peer = socket.peer_address();
            let link = set(&socket, &self.options.socket)
                .map_err(as_io)
                .and_then(|()| RsocketLink::new(socket, peer.ok_or(ErrorKind::NotConnected)?, &self.watch));
            if let Ok(link) = link {
                return Ok(Some(Box::new(link)));
            }
            // It was gone before it was accepted: that is its own affair.
        }
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let (number, edge) = self.watch.add(&self.socket)?;
        registry.register(&mut SourceFd(&edge.as_raw_fd()), token, Interest::READABLE)?;
        self.watched = Some((number, edge));
        Ok(())
    }
}

impl Drop for RsocketListener {
    fn drop(&mut self) {
        if let Some((number, _)) = self.watched.take() {
            self.watch.remove(number);
        }
    }
}
