//! Dialling: a link to somebody who listens.
//!
//! Enters: an address.  Leaves: a connected link.
//! Owns:   the tries of a name's addresses.
//! Never:  retries an address: when to try again is for the caller to know.

use crate::socket::{SocketLink, set_buffers, set_tcp};
use crate::{Address, DialOptions, Link, Peer};
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

/// Connects; blocks for as long as the options allow for each address of the name.
pub fn dial(address: &Address, options: &DialOptions) -> io::Result<Box<dyn Link>> {
    match address {
        Address::Tcp { host, port } => {
            let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
            for resolved in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&resolved, options.timeout) {
                    Ok(stream) => {
                        set_tcp(&stream, &options.socket)?;
                        let peer = Peer::tcp(resolved, stream.local_addr()?);
                        return Ok(Box::new(SocketLink::new(stream, peer)?));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            set_buffers(&stream, &options.socket)?;
            Ok(Box::new(SocketLink::new(stream, Peer::unix(path))?))
        }
    }
}
