//! Rsockets: librdmacm's byte streams over RDMA, with calls like those of sockets and descriptors that only they
//! accept.
//!
//! Epoll and mio cannot wait for them. Only [`rpoll`], [`RSocket::connect`], [`RSocket::shutdown_sending`] and dropping
//! a socket block; the last two until the peer's device has acknowledged everything, so a thread with nothing else to
//! do should do that.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use libc::{c_int, c_short, c_void, sockaddr, sockaddr_storage, socklen_t};

use crate::error::{IbError, NoDeviceReason};
use crate::library::{RsocketLibrary, rsockets};
use crate::limits::RPOLL_MS_MAX;
use crate::socket_address::{self, SockAddr};

/// A connected or listening rsocket.
///
/// Several threads may call it at once, as a socket.
pub struct RSocket {
    calls: &'static RsocketLibrary,
    fd: c_int,
}

impl Drop for RSocket {
    fn drop(&mut self) {
        // SAFETY: made below, and closed once. Nobody else has it any more: pollers hold the socket while they poll.
        unsafe { (self.calls.rclose)(self.fd) };
    }
}

impl fmt::Debug for RSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RSocket({})", self.fd)
    }
}

/// The result of a C call, or its error.
fn checked(answer: isize) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

fn check_call(call: &'static str, answer: c_int) -> Result<(), IbError> {
    checked(answer as isize).map(drop).map_err(|error| match error.raw_os_error() {
        // The first call that needs a device reports that there is none.
        Some(libc::ENODEV) if call == "rsocket" => IbError::NoDevice(NoDeviceReason::detect()),
        _ => IbError::CallFailed { call, error },
    })
}

fn address_bytes(address: SocketAddr) -> socklen_t {
    let bytes = if address.is_ipv4() { size_of::<libc::sockaddr_in>() } else { size_of::<libc::sockaddr_in6>() };
    bytes as socklen_t
}

impl RSocket {
    fn new(address: SocketAddr) -> Result<Self, IbError> {
        let calls = rsockets()?;
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: plain numbers.
        let fd = unsafe { (calls.rsocket)(family, libc::SOCK_STREAM, 0) };
        check_call("rsocket", fd)?;
        Ok(Self { calls, fd })
    }

    /// Connects. Blocks: for seconds, if nobody answers.
    ///
    /// # Errors
    /// [`IbError::MissingLibrary`] without the library, [`IbError::NoDevice`], or the operating system's error.
    pub fn connect(to: SocketAddr) -> Result<Self, IbError> {
        let socket = Self::new(to)?;
        let mut raw = SockAddr::new(to);
        // SAFETY: the socket exists, and the address is as long as its kind.
        let answer = unsafe { (socket.calls.rconnect)(socket.fd, raw.pointer(), address_bytes(to)) };
        check_call("rconnect", answer)?;
        Ok(socket)
    }

    /// Listens on an address of a device; at most `backlog` connections are queued.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn listen(at: SocketAddr, backlog: u32) -> Result<Self, IbError> {
        let socket = Self::new(at)?;
        socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        let mut raw = SockAddr::new(at);
        // SAFETY: the socket exists, and the address is as long as its kind.
        let answer = unsafe { (socket.calls.rbind)(socket.fd, raw.pointer(), address_bytes(at)) };
        check_call("rbind", answer)?;
        // SAFETY: the socket exists.
        let answer = unsafe { (socket.calls.rlisten)(socket.fd, c_int::try_from(backlog).unwrap_or(c_int::MAX)) };
        check_call("rlisten", answer)?;
        Ok(socket)
    }

    /// Accepts the next connection, if one is waiting.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn accept(self: &Arc<Self>) -> io::Result<Option<Self>> {
        let mut waiting = [PollEntry::socket(self, PollInterest::READABLE)];
        if rpoll(&mut waiting, Some(0))? == 0 {
            return Ok(None);
        }
        // SAFETY: the socket exists; where a peer's address would go, none is wanted.
        let fd = unsafe { (self.calls.raccept)(self.fd, std::ptr::null_mut(), std::ptr::null_mut()) };
        match checked(fd as isize) {
            Ok(_) => Ok(Some(Self { calls: self.calls, fd })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets `TCP_NODELAY`. Rsockets never delay small sends, and accept the option for compatibility.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn set_nodelay(&self, on: bool) -> Result<(), IbError> {
        self.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, c_int::from(on))
    }

    fn set(&self, level: c_int, option: c_int, value: c_int) -> Result<(), IbError> {
        let start = (&raw const value).cast::<c_void>();
        // SAFETY: the socket exists; the value lives through the call and is as long as it is said to be.
        let answer =
            unsafe { (self.calls.rsetsockopt)(self.fd, level, option, start, size_of::<c_int>() as socklen_t) };
        check_call("rsetsockopt", answer)
    }

    /// Sends a prefix of the parts, at least one byte, and returns its length.
    ///
    /// # Errors
    /// `WouldBlock` if nothing can be sent now, or the operating system's error.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: a structure of numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the socket exists; an `IoSlice` has the layout of C's, and all of them live through the call, which
        // copies what it takes.
        checked(unsafe { (self.calls.rsendmsg)(self.fd, &message, libc::MSG_DONTWAIT) })
    }

    /// Receives into the front of `into`; 0: the peer has ended the stream, or `into` is empty.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived, or the operating system's error.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the socket exists, and the memory is ours to write to.
        checked(unsafe { (self.calls.rrecv)(self.fd, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) })
    }

    /// Ends the sending direction. Blocks until the peer's device has acknowledged everything.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn shutdown_sending(&self) -> io::Result<()> {
        // SAFETY: the socket exists.
        checked(unsafe { (self.calls.rshutdown)(self.fd, libc::SHUT_WR) } as isize).map(drop)
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        self.address(self.calls.rgetsockname)
    }

    /// The peer's address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.address(self.calls.rgetpeername)
    }

    fn address(&self, call: unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int) -> Option<SocketAddr> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut storage: sockaddr_storage = unsafe { mem::zeroed() };
        let mut bytes = size_of::<sockaddr_storage>() as socklen_t;
        // SAFETY: the socket exists, and the place has as much room as is said.
        let answer = unsafe { call(self.fd, (&raw mut storage).cast(), &mut bytes) };
        if answer == 0 { socket_address::read(&storage) } else { None }
    }
}

/// The readiness that a poll waits for, or reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollInterest {
    /// Bytes to receive, a connection to accept, or the end.
    pub readable: bool,
    /// Bytes can be sent, or the end.
    pub writable: bool,
}

impl PollInterest {
    /// Readable only.
    pub const READABLE: Self = Self { readable: true, writable: false };

    pub fn is_any(self) -> bool {
        self.readable || self.writable
    }
}

/// One entry of a poll: an rsocket, which it keeps open meanwhile, or any other descriptor.
#[derive(Debug)]
pub struct PollEntry<'d> {
    fd: c_int,
    interest: PollInterest,
    ready: PollInterest,
    _socket: Option<Arc<RSocket>>,
    _other: Option<BorrowedFd<'d>>,
}

impl<'d> PollEntry<'d> {
    pub fn socket(socket: &Arc<RSocket>, wants: PollInterest) -> Self {
        Self {
            fd: socket.fd,
            interest: wants,
            ready: PollInterest::default(),
            _socket: Some(socket.clone()),
            _other: None,
        }
    }

    /// The readability of a descriptor that is not an rsocket.
    pub fn other(descriptor: BorrowedFd<'d>) -> Self {
        let fd = descriptor.as_raw_fd();
        Self {
            fd,
            interest: PollInterest::READABLE,
            ready: PollInterest::default(),
            _socket: None,
            _other: Some(descriptor),
        }
    }

    /// The readiness that the poll has found.
    pub fn ready(&self) -> PollInterest {
        self.ready
    }

    pub fn into_socket(self) -> Option<Arc<RSocket>> {
        self._socket
    }
}

/// Blocks until one of the entries is ready or the time-out has passed; `None`: no time-out. Returns the number of
/// ready entries.
///
/// # Errors
/// The operating system's error. After a signal it returns 0.
pub fn rpoll(entries: &mut [PollEntry<'_>], timeout_ms: Option<u32>) -> io::Result<usize> {
    let calls = rsockets().map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error.to_string()))?;
    let events = |wants: PollInterest| {
        let readable = if wants.readable { libc::POLLIN } else { 0 };
        readable | if wants.writable { libc::POLLOUT } else { 0 }
    };
    let mut raw: Vec<libc::pollfd> =
        entries.iter().map(|entry| libc::pollfd { fd: entry.fd, events: events(entry.interest), revents: 0 }).collect();
    let timeout = timeout_ms.map_or(-1, |ms| ms.min(RPOLL_MS_MAX) as c_int);
    // SAFETY: as many entries as are said, which live through the call. Sockets of ours are held by the entries, so
    // that none is closed meanwhile.
    let answer = unsafe { (calls.rpoll)(raw.as_mut_ptr(), raw.len() as libc::nfds_t, timeout) };
    let count = match checked(answer as isize) {
        Ok(count) => count,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        Err(error) => return Err(error),
    };
    const OVER: c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    for (entry, raw) in entries.iter_mut().zip(raw) {
        let is = if count == 0 { 0 } else { raw.revents };
        entry.ready =
            PollInterest { readable: is & (libc::POLLIN | OVER) != 0, writable: is & (libc::POLLOUT | OVER) != 0 };
    }
    Ok(count)
}
