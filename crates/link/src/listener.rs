//! Listeners: sockets that accept links. None of their calls blocks.

use crate::socket::{SocketLink, set_buffers, set_tcp};
use crate::unix_path::{self, UnixPath};
use crate::{Address, Link, ListenOptions, PeerAddress, TlsServer};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// A listener that another crate implements for its own links.
pub trait Acceptor: Send {
    /// Accepts the next connection, if one is waiting.
    ///
    /// # Errors
    /// The operating system's error.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>>;

    /// Reports waiting connections to `registry` under `token`; edge-triggered: accept until there are none.
    ///
    /// # Errors
    /// The operating system's error.
    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()>;
}

enum ListenerKind {
    Tcp(TcpListener),
    Tls(TcpListener, TlsServer),
    Unix(UnixListener, UnixPath),
    Other(Box<dyn Acceptor>),
}

/// A listening socket.
pub struct Listener {
    kind: ListenerKind,
    address: Address,
}

impl Listener {
    /// Listens on an address. The file of a Unix socket is replaced if nobody listens on it any more; if somebody does,
    /// that is an error.
    pub fn bind(address: &Address, options: &ListenOptions) -> io::Result<Listener> {
        match address {
            Address::Tls { .. } => Err(io::Error::new(ErrorKind::InvalidInput, "TLS needs a certificate")),
            Address::Rdma { .. } => Err(io::Error::new(ErrorKind::Unsupported, crate::address::NEEDS_RDMA_DEVICE)),
            Address::Tcp { host, port } => {
                let listener = bind_name(host, *port, options)?;
                let local = listener.local_addr()?;
                let address = Address::Tcp { host: local.ip().to_string(), port: local.port() };
                Ok(Listener { kind: ListenerKind::Tcp(listener), address })
            }
            Address::Rsocket { .. } => {
                Err(io::Error::new(ErrorKind::Unsupported, "the crate rsocket listens on this address"))
            }
            Address::Unix(path) => {
                let socket = unix_path::socket()?;
                set_buffers(&socket, &options.socket)?;
                let place = UnixPath::bind(&socket, path)?;
                rustix::net::listen(&socket, backlog(options))?;
                Ok(Listener { kind: ListenerKind::Unix(UnixListener::from(socket), place), address: address.clone() })
            }
        }
    }

    /// A listener that another crate has made for the address.
    pub fn from_acceptor(address: Address, accept: Box<dyn Acceptor>) -> Listener {
        Listener { kind: ListenerKind::Other(accept), address }
    }

    /// Listens on an address, with TLS where the address has it.
    pub fn bind_tls(address: &Address, options: &ListenOptions, tls: &TlsServer) -> io::Result<Listener> {
        let Address::Tls { host, port } = address else { return Listener::bind(address, options) };
        let listener = bind_name(host, *port, options)?;
        let local = listener.local_addr()?;
        let address = Address::Tls { host: local.ip().to_string(), port: local.port() };
        Ok(Listener { kind: ListenerKind::Tls(listener, tls.clone()), address })
    }

    /// The address it listens on, with the port that the system chose.
    pub fn local_address(&self) -> &Address {
        &self.address
    }

    /// Accepts the next connection, if one is waiting.
    pub fn accept(&mut self) -> io::Result<Option<Box<dyn Link>>> {
        loop {
            let outcome = match &mut self.kind {
                ListenerKind::Other(accept) => return accept.accept(),
                ListenerKind::Tcp(listener) => listener.accept().and_then(|(stream, peer)| {
                    let link = SocketLink::new(stream, PeerAddress::tcp(peer, listener.local_addr()?))?;
                    Ok(Box::new(link) as Box<dyn Link>)
                }),
                ListenerKind::Tls(listener, tls) => listener.accept().and_then(|(stream, peer)| {
                    let socket = SocketLink::new(stream, PeerAddress::tcp(peer, listener.local_addr()?))?;
                    Ok(Box::new(tls.secure(socket)?) as Box<dyn Link>)
                }),
                ListenerKind::Unix(listener, place) => listener.accept().and_then(|(stream, _)| {
                    let link = SocketLink::new(stream, PeerAddress::unix(place.path()))?;
                    Ok(Box::new(link) as Box<dyn Link>)
                }),
            };
            return match outcome {
                Ok(link) => Ok(Some(link)),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => Ok(None),
                    // The client has closed the connection before it was accepted (accept(2)).
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset => continue,
                    _ => Err(error),
                },
            };
        }
    }

    /// Reports waiting connections to `registry` under `token`; edge-triggered: accept until there are none.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let descriptor = match &mut self.kind {
            ListenerKind::Other(accept) => return accept.register(registry, token),
            ListenerKind::Tcp(listener) | ListenerKind::Tls(listener, _) => listener.as_raw_fd(),
            ListenerKind::Unix(listener, _) => listener.as_raw_fd(),
        };
        registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE)
    }
}

fn bind_name(host: &str, port: u16, options: &ListenOptions) -> io::Result<TcpListener> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in (host, port).to_socket_addrs()? {
        match bind_tcp(resolved, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    if options.share_port {
        rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
    }
    if address.is_ipv6() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Accepted sockets inherit the options of the listener.
    set_tcp(&socket, &options.socket)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog(options))?;
    Ok(TcpListener::from(socket))
}

fn backlog(options: &ListenOptions) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketOptions;
    use rustix::net::sockopt;

    #[test]
    fn accepted_sockets_have_the_options_of_the_listener() {
        for tcp_nodelay in [None, Some(true), Some(false)] {
            let socket = SocketOptions {
                tcp_nodelay,
                tcp_congestion: Some("reno".to_owned()),
                send_buffer_bytes: Some(20_000),
                receive_buffer_bytes: Some(30_000),
            };
            let options = ListenOptions { socket, ..ListenOptions::default() };
            let listener = bind_tcp("127.0.0.1:0".parse().expect("an address"), &options).expect("binds");
            listener.set_nonblocking(false).expect("it may block");
            let _client = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
            let (accepted, _) = listener.accept().expect("a client waits");
            assert_eq!(sockopt::tcp_nodelay(&accepted), Ok(tcp_nodelay != Some(false)));
            assert_eq!(sockopt::tcp_congestion(&accepted).as_deref(), Ok("reno"));
            // Linux doubles what is asked for, to make room for its own overhead (socket(7)).
            assert_eq!(sockopt::socket_send_buffer_size(&accepted), Ok(40_000));
            assert_eq!(sockopt::socket_recv_buffer_size(&accepted), Ok(60_000));
        }
    }

    #[test]
    fn an_unknown_congestion_control_is_refused() {
        let socket = SocketOptions { tcp_congestion: Some("none such".to_owned()), ..SocketOptions::default() };
        let options = ListenOptions { socket, ..ListenOptions::default() };
        let refused = bind_tcp("127.0.0.1:0".parse().expect("an address"), &options).expect_err("there is none");
        assert_eq!(refused.kind(), ErrorKind::NotFound);
    }
}
