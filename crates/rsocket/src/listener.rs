//! A listening rsocket. None of its calls blocks.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ib::{PollInterest, RSocket};
use link::{Acceptor, Address, Link, ListenOptions, Listener};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::RsocketPoller;
use crate::rsocket_link::{RsocketLink, apply_options, as_io};

/// A listening rsocket.
pub struct RsocketListener {
    socket: Arc<RSocket>,
    poller: RsocketPoller,
    registration: Option<(u64, Arc<OwnedFd>)>,
    options: ListenOptions,
}

impl RsocketListener {
    /// Listens on a host and port: an address of an RDMA device of this machine.
    ///
    /// # Errors
    /// The operating system's error; `Unsupported` if the library or a device is missing, with a text that says which.
    pub fn bind(host: &str, port: u16, options: &ListenOptions, watch: &RsocketPoller) -> io::Result<Self> {
        let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for resolved in (host, port).to_socket_addrs()? {
            match RSocket::listen(resolved, options.backlog) {
                Ok(socket) => {
                    let (socket, watch) = (Arc::new(socket), watch.clone());
                    return Ok(Self { socket, poller: watch, registration: None, options: options.clone() });
                }
                Err(error) => last = as_io(error),
            }
        }
        Err(last)
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_address()
    }

    /// The same as a [`Listener`], which a broker takes.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_listener(host: &str, port: u16, options: &ListenOptions) -> io::Result<Listener> {
        let listener = Self::bind(host, port, options, &RsocketPoller::process_wide()?)?;
        let local = listener.local_address().ok_or(ErrorKind::NotConnected)?;
        let address = Address::Rsocket { host: local.ip().to_string(), port: local.port() };
        Ok(Listener::from_acceptor(address, Box::new(listener)))
    }
}

impl Acceptor for RsocketListener {
    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        loop {
            let Some(socket) = self.socket.accept()? else {
                if let Some((number, _)) = self.registration {
                    self.poller.arm(number, PollInterest::READABLE);
                }
                return Ok(None);
            };
            let peer = socket.peer_address();
            let link = apply_options(&socket, &self.options.socket)
                .map_err(as_io)
                .and_then(|()| RsocketLink::new(socket, peer.ok_or(ErrorKind::NotConnected)?, &self.poller));
            if let Ok(link) = link {
                return Ok(Some(Box::new(link)));
            }
            // The peer has closed the connection before it was accepted.
        }
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let (number, edge) = self.poller.add(&self.socket)?;
        registry.register(&mut SourceFd(&edge.as_raw_fd()), token, Interest::READABLE)?;
        self.registration = Some((number, edge));
        Ok(())
    }
}

impl Drop for RsocketListener {
    fn drop(&mut self) {
        if let Some((number, _)) = self.registration.take() {
            self.poller.remove(number);
        }
    }
}
