//! The kernel's list of TCP sockets with their counters (`sock_diag(7)`), for the current network namespace.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};

use crate::limits::DIAG_ANSWER_BYTES;

/// A TCP socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketInfo {
    /// The inode, as in `/proc/PID/fd`; zero for a socket that no process holds any more.
    pub inode: u64,
    pub local_port: u16,
    pub remote_port: u16,
    /// Whether it is listening.
    pub listens: bool,
    /// Its counters; `None` if the kernel does not tell.
    pub counts: Option<SocketCounters>,
    /// Its congestion control.
    pub congestion: Option<String>,
    /// Current `SO_RCVBUF` and `SO_SNDBUF` (twice the requested values; the system may change them).
    pub buffer_bytes: Option<(u32, u32)>,
}

/// Counters of `struct tcp_info` since the connection was established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketCounters {
    pub segments_sent: u64,
    pub segments_received: u64,
    /// Bytes of payload sent, retransmissions included.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub retransmits: u64,
    /// From a segment to its acknowledgement, smoothed (`tcpi_rtt`).
    pub round_trip: Duration,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_ONE: u16 = 0x001;
const REQUEST_ALL: u16 = 0x001 | 0x300;
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
const STATE_LISTEN: u8 = 10;
const ATTRIBUTE_INFO: u16 = 2;
const ATTRIBUTE_CONGESTION: u16 = 4;
const ATTRIBUTE_MEMORY: u16 = 7;
const HEADER_BYTES: usize = 16;
const SOCKET_BYTES: usize = 72;

/// Lists all TCP sockets of this network namespace.
///
/// # Errors
/// A kernel without `sock_diag` for TCP, or a sandbox that forbids it.
pub(crate) fn sockets() -> io::Result<Vec<SocketInfo>> {
    let mut kernel = open(SockFlag::empty())?;
    let mut found = Vec::new();
    for family in [INET, INET6] {
        kernel.write_all(&request(family, REQUEST_ALL, &[]))?;
        let mut answer = vec![0; DIAG_ANSWER_BYTES];
        loop {
            let bytes = kernel.read(&mut answer)?;
            if parse_messages(&answer[..bytes], &mut found)? {
                break;
            }
        }
    }
    Ok(found)
}

/// The round trip of a TCP connection of this network namespace, as the kernel of its one end has measured it.
///
/// Returns `None` if there is no such connection.
///
/// # Errors
/// A kernel without `sock_diag` for TCP, or a sandbox that forbids it.
pub fn tcp_round_trip(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Duration>> {
    // The kernel has answered when it was asked: whoever asks has no time to wait for it.
    let mut kernel = open(SockFlag::SOCK_NONBLOCK)?;
    let family = if local.is_ipv4() { INET } else { INET6 };
    kernel.write_all(&request(family, REQUEST_ONE, &addresses(local, remote)))?;
    let mut answer = vec![0; DIAG_ANSWER_BYTES];
    let bytes = kernel.read(&mut answer)?;
    let mut found = Vec::new();
    match parse_messages(&answer[..bytes], &mut found) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        parsed => parsed?,
    };
    // Where there is no such connection the kernel finds who listens for it.
    let connection = found.iter().find(|socket| !socket.listens);
    Ok(connection.and_then(|socket| socket.counts).map(|counts| counts.round_trip))
}

fn open(how: SockFlag) -> io::Result<File> {
    let protocol = SockProtocol::NetlinkSockDiag;
    let descriptor = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC | how, protocol)?;
    Ok(File::from(descriptor))
}

/// The beginning of `struct inet_diag_sockid`: both ports, then both addresses with room for sixteen bytes each.
fn addresses(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(36);
    [local, remote].iter().for_each(|end| bytes.extend(end.port().to_be_bytes()));
    for (end, address) in [(20, local.ip()), (36, remote.ip())] {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
        bytes.resize(end, 0);
    }
    bytes
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: every state, with these attributes; of which socket, unless all are meant.
fn request(family: u8, flags: u16, socket: &[u8]) -> Vec<u8> {
    const LENGTH: u32 = (HEADER_BYTES + 56) as u32;
    let wanted =
        [ATTRIBUTE_INFO, ATTRIBUTE_CONGESTION, ATTRIBUTE_MEMORY].iter().fold(0_u8, |set, bit| set | 1 << (bit - 1));
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, TCP, wanted, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(socket);
    // Of any interface, and with no cookie; one of zeros would be compared.
    bytes.resize(LENGTH as usize - 8, 0);
    bytes.resize(LENGTH as usize, u8::MAX);
    bytes
}

/// Parses the sockets of one answer; returns whether it was the last.
fn parse_messages(mut answer: &[u8], found: &mut Vec<SocketInfo>) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "an answer about sockets is cut");
    while !answer.is_empty() {
        let length = u32_at(answer, 0).ok_or_else(cut)? as usize;
        if length < HEADER_BYTES || length > answer.len() {
            return Err(cut());
        }
        let (message, rest) = answer.split_at(length);
        match u16_at(message, 4).ok_or_else(cut)? {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = u32_at(message, HEADER_BYTES).ok_or_else(cut)? as i32;
                return Err(io::Error::from_raw_os_error(-code));
            }
            SOCK_DIAG_BY_FAMILY => found.extend(read(&message[HEADER_BYTES..])),
            _ => {}
        }
        answer = rest.get(padding(length)..).unwrap_or_default();
    }
    Ok(false)
}

/// `struct inet_diag_msg` and its attributes.
fn read(message: &[u8]) -> Option<SocketInfo> {
    let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    let mut socket = SocketInfo {
        listens: *message.get(1)? == STATE_LISTEN,
        local_port: port(4)?,
        remote_port: port(6)?,
        inode: u64::from(u32_at(message, 68)?),
        ..SocketInfo::default()
    };
    let mut attributes = message.get(SOCKET_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let Some(value) = attributes.get(4..length) else { break };
        match kind {
            ATTRIBUTE_INFO => socket.counts = counts(value),
            ATTRIBUTE_CONGESTION => {
                let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
                socket.congestion = Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty());
            }
            // `SK_MEMINFO_RCVBUF` is the second word, `SK_MEMINFO_SNDBUF` the fourth.
            ATTRIBUTE_MEMORY => socket.buffer_bytes = u32_at(value, 4).zip(u32_at(value, 12)),
            _ => {}
        }
        attributes = attributes.get(length + padding(length)..).unwrap_or_default();
    }
    Some(socket)
}

/// From `struct tcp_info`; newer kernels append fields to it.
fn counts(info: &[u8]) -> Option<SocketCounters> {
    Some(SocketCounters {
        round_trip: Duration::from_micros(u64::from(u32_at(info, 68)?)),
        retransmits: u64::from(u32_at(info, 100)?),
        bytes_received: u64_at(info, 128)?,
        segments_sent: u64::from(u32_at(info, 136)?),
        segments_received: u64::from(u32_at(info, 140)?),
        bytes_sent: u64_at(info, 200)?,
    })
}

/// Padding up to a multiple of four.
fn padding(length: usize) -> usize {
    length.wrapping_neg() % 4
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn answers_that_are_cut_are_errors() {
        let mut found = Vec::new();
        let mut done = Vec::new();
        done.extend(20_u32.to_ne_bytes());
        done.extend(NLMSG_DONE.to_ne_bytes());
        done.resize(20, 0);
        assert!(parse_messages(&done, &mut found).expect("a whole answer"));
        for length in 1..20 {
            assert!(parse_messages(&done[..length], &mut found).is_err(), "{length}");
        }
        // A message with length zero would otherwise loop for ever.
        done[..4].fill(0);
        assert!(parse_messages(&done, &mut found).is_err());
        assert!(found.is_empty());
    }

    #[test]
    fn the_kernel_may_refuse() {
        let mut refusal = Vec::new();
        refusal.extend(36_u32.to_ne_bytes());
        refusal.extend(NLMSG_ERROR.to_ne_bytes());
        refusal.resize(16, 0);
        refusal.extend((-2_i32).to_ne_bytes());
        refusal.resize(36, 0);
        let error = parse_messages(&refusal, &mut Vec::new()).expect_err("it refused");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_round_trip_of_a_connection_is_found_by_its_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("SKIPPED: {address}: this machine has no such address");
                continue;
            };
            let local = listener.local_addr().expect("bound");
            let mut client = TcpStream::connect(local).expect("somebody listens");
            let (mut server, remote) = listener.accept().expect("somebody has connected");
            server.write_all(b"ping").expect("open");
            client.read_exact(&mut [0; 4]).expect("sent");
            let found = tcp_round_trip(local, remote).expect("the kernel tells");
            assert!(found.is_some_and(|time| time > Duration::ZERO), "{found:?}");
            let nobody = SocketAddr::new(remote.ip(), remote.port() ^ 1);
            assert_eq!(tcp_round_trip(local, nobody).expect("the kernel tells"), None);
        }
    }

    #[test]
    fn an_older_kernel_tells_less() {
        assert_eq!(counts(&[0; 192]), None);
        assert!(counts(&[0; 232]).is_some());
    }
}
