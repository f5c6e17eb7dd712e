//! Connecting to a listener, by each address of a name in turn. Retrying is up to the caller.

use crate::socket::{SocketLink, set_buffers, set_tcp};
use crate::{Address, DialOptions, Link, PeerAddress, TlsClient};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Connects, blocking up to the options' time-out for each address of the name. For a TLS address it trusts the
/// system's certificates and shows none of its own.
pub fn dial(address: &Address, options: &DialOptions) -> io::Result<Box<dyn Link>> {
    match address {
        Address::Tls { .. } => {
            let tls = TlsClient::new(None, None, None);
            dial_tls(address, options, &tls.map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?)
        }
        Address::Rdma { .. } => Err(io::Error::new(ErrorKind::Unsupported, crate::address::NEEDS_RDMA_DEVICE)),
        Address::Tcp { host, port } => Ok(Box::new(connect(host, *port, options)?)),
        Address::Rsocket { .. } => {
            Err(io::Error::new(ErrorKind::Unsupported, "the crate rsocket connects to this address"))
        }
        Address::Unix(path) => {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            set_buffers(&socket, &options.socket)?;
            // With a full backlog the connect waits as long as the send time-out (unix(7)); zero would mean without
            // limit.
            let timeout = options.timeout.max(Duration::from_millis(1));
            sockopt::set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
            let place = SocketAddrUnix::new(path.as_path())?;
            loop {
                match rustix::net::connect(&socket, &place) {
                    Ok(()) => break,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        return Err(io::Error::new(ErrorKind::TimedOut, "the listener does not accept"));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(Box::new(SocketLink::new(UnixStream::from(socket), PeerAddress::unix(path))?))
        }
    }
}

/// Connects, with TLS if it is a TLS address; the handshake may take as long as connecting.
pub fn dial_tls(address: &Address, options: &DialOptions, tls: &TlsClient) -> io::Result<Box<dyn Link>> {
    let Address::Tls { host, port } = address else { return dial(address, options) };
    let socket = connect(host, *port, options)?;
    Ok(Box::new(tls.secure(socket, host, options.timeout)?))
}

fn connect(host: &str, port: u16, options: &DialOptions) -> io::Result<SocketLink<TcpStream>> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, options.timeout) {
            Ok(stream) => {
                set_tcp(&stream, &options.socket)?;
                let peer = PeerAddress::tcp(resolved, stream.local_addr()?);
                return SocketLink::new(stream, peer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
