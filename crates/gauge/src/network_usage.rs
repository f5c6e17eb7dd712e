//! Network usage over an interval: packets, bytes and retransmits of TCP sockets.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::listener::socket_inodes;
use crate::process_snapshot::process;
use crate::socket_diag::{self, SocketCounters, SocketInfo};

/// Network traffic in an interval, over all sockets of the roles.
///
/// A client's socket counts both directions, so the sum over all clients is the whole traffic with the broker, and the
/// broker's own sockets must not be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// TCP segments.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Of these, the ones sent; the others were received.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
}

impl NetworkUsage {
    /// Adds the sockets of another role.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.bytes_sent += other.bytes_sent;
        self.retransmits += other.retransmits;
    }

    /// The sum for two roles, each of which may have no counters.
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(mut sum), Some(other)) => {
                sum.add(&other);
                Some(sum)
            }
            (one, other) => one.or(other),
        }
    }

    pub fn bytes_received(&self) -> u64 {
        self.bytes.saturating_sub(self.bytes_sent)
    }

    /// Mean bytes per packet, if there was one.
    pub fn packet_bytes(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.bytes as f64 / self.packets as f64)
    }

    /// Mean time between packets in microseconds, if there was one.
    pub fn packet_gap_us(&self, elapsed_s: f64) -> Option<f64> {
        (self.packets > 0).then(|| elapsed_s * 1e6 / self.packets as f64)
    }
}

/// The sockets to count.
#[derive(Clone, Debug)]
enum SocketOwner {
    Processes(Vec<u32>),
    /// The sockets connected to this port of a broker.
    ClientsOf(u16),
}

/// Measures TCP sockets from its start to its stop. Sockets closed in between are not counted.
#[derive(Debug)]
pub struct NetworkMeter {
    whose: SocketOwner,
    before: Option<SocketReadings>,
}

/// Counters by inode and ports of the socket.
type SocketReadings = BTreeMap<(u64, u16, u16), SocketCounters>;

impl NetworkMeter {
    /// Measures the TCP sockets of this process.
    pub fn of_self() -> Self {
        Self::of(&[std::process::id()])
    }

    /// Measures the TCP sockets of these processes in the same network namespace.
    pub fn of(pids: &[u32]) -> Self {
        Self::begin(SocketOwner::Processes(pids.to_vec()))
    }

    /// Measures all connections of this network namespace to a broker's port.
    pub fn of_clients(port: u16) -> Self {
        Self::begin(SocketOwner::ClientsOf(port))
    }

    fn begin(whose: SocketOwner) -> Self {
        let before = read(&whose);
        Self { whose, before }
    }

    /// Ends the measurement; `None` if there was no such socket (Unix sockets have no packets) or the kernel does not tell.
    pub fn stop(self) -> Option<NetworkUsage> {
        let (before, after) = (self.before?, read(&self.whose)?);
        (!(before.is_empty() && after.is_empty())).then(|| difference(&before, &after))
    }
}

/// Observed TCP options of the accepted sockets of a port: `congestion_control`, `send_buffer_bytes` and
/// `receive_buffer_bytes` (current values), each only if all sockets agree.
pub fn observed_socket_options(port: u16) -> BTreeMap<String, String> {
    let sockets = socket_diag::sockets().unwrap_or_default();
    let accepted: Vec<&SocketInfo> =
        sockets.iter().filter(|socket| socket.local_port == port && !socket.listens && socket.inode != 0).collect();
    let mut found = BTreeMap::new();
    let mut note = |name: &str, of: &dyn Fn(&SocketInfo) -> Option<String>| {
        let values: BTreeSet<Option<String>> = accepted.iter().map(|socket| of(socket)).collect();
        if let (1, Some(Some(value))) = (values.len(), values.first()) {
            found.insert(name.to_owned(), value.clone());
        }
    };
    note("congestion_control", &|socket| socket.congestion.clone());
    note("receive_buffer_bytes", &|socket| socket.buffer_bytes.map(|(receive, _)| receive.to_string()));
    note("send_buffer_bytes", &|socket| socket.buffer_bytes.map(|(_, send)| send.to_string()));
    found
}

fn read(whose: &SocketOwner) -> Option<SocketReadings> {
    let chosen: Box<dyn Fn(&SocketInfo) -> bool> = match whose {
        SocketOwner::Processes(pids) => {
            let inodes: BTreeSet<u64> = pids
                .iter()
                .filter_map(|&pid| process(pid))
                .flat_map(|process| socket_inodes(&process).collect::<Vec<_>>())
                .collect();
            Box::new(move |socket| inodes.contains(&socket.inode))
        }
        SocketOwner::ClientsOf(port) => {
            let port = *port;
            Box::new(move |socket| socket.remote_port == port)
        }
    };
    let sockets = socket_diag::sockets().ok()?;
    let chosen = sockets.into_iter().filter(|socket| !socket.listens && socket.inode != 0 && chosen(socket));
    chosen.map(|socket| Some(((socket.inode, socket.local_port, socket.remote_port), socket.counts?))).collect()
}

fn difference(before: &SocketReadings, after: &SocketReadings) -> NetworkUsage {
    let mut sum = NetworkUsage::default();
    for (socket, now) in after {
        // A new socket started at zero.
        let then = before.get(socket).copied().unwrap_or_default();
        let sent = wrapped(now.segments_sent, then.segments_sent);
        let received = wrapped(now.segments_received, then.segments_received);
        sum.packets += sent + received;
        let bytes_sent = now.bytes_sent.saturating_sub(then.bytes_sent);
        sum.bytes += bytes_sent + now.bytes_received.saturating_sub(then.bytes_received);
        sum.bytes_sent += bytes_sent;
        sum.retransmits += now.retransmits.saturating_sub(then.retransmits);
    }
    sum
}

/// The kernel counts a connection's segments in 32 bits, which wrap in a long run.
fn wrapped(now: u64, then: u64) -> u64 {
    u64::from((now as u32).wrapping_sub(then as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn connected() -> (TcpStream, TcpStream, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let client = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
        let (server, _) = listener.accept().expect("a client waits");
        (client, server, port)
    }

    fn exchange(client: &mut TcpStream, server: &mut TcpStream, request: usize, answer: usize) {
        client.write_all(&vec![1; request]).expect("the server reads");
        server.read_exact(&mut vec![0; request]).expect("all of it comes");
        server.write_all(&vec![2; answer]).expect("the client reads");
        client.read_exact(&mut vec![0; answer]).expect("all of it comes");
    }

    #[test]
    fn the_clients_of_a_port_count_both_ways() {
        let (mut client, mut server, port) = connected();
        exchange(&mut client, &mut server, 500, 500);
        let meter = NetworkMeter::of_clients(port);
        exchange(&mut client, &mut server, 1_000, 3_000);
        let network = meter.stop().expect("the kernel lists sockets");
        assert_eq!(network.bytes, 4_000, "only what came after the start, and each byte once");
        assert_eq!((network.bytes_sent, network.bytes_received()), (1_000, 3_000));
        assert!(network.packets >= 2 && network.packets < 100, "{network:?}");
        assert_eq!(network.packet_bytes(), Some(4_000.0 / network.packets as f64));
        assert_eq!(network.packet_gap_us(1.0), Some(1e6 / network.packets as f64));
        assert_eq!(NetworkMeter::of_clients(1).stop(), None, "nobody is connected there");
    }

    #[test]
    fn own_sockets_are_found_by_their_descriptors() {
        let meter = NetworkMeter::of_self();
        let (mut client, mut server, _) = connected();
        exchange(&mut client, &mut server, 1_000, 3_000);
        let network = meter.stop().expect("the kernel lists sockets");
        // Both ends belong to this process, and other tests have sockets too.
        assert!(network.bytes >= 8_000, "{network:?}");
    }

    #[test]
    fn options_of_accepted_sockets_are_found() {
        let (_client, server, port) = connected();
        let found = observed_socket_options(port);
        let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").expect("the system says");
        assert_eq!(found.get("congestion_control").map(String::as_str), Some(system.trim()));
        assert!(found.contains_key("send_buffer_bytes"), "{found:?}");
        drop(server);
        assert_eq!(observed_socket_options(1), BTreeMap::new());
    }

    #[test]
    fn counters_go_round_and_sockets_come_and_go() {
        assert_eq!(wrapped(5, u64::from(u32::MAX) - 4), 10);
        let counts = |segments_sent| SocketCounters {
            segments_sent,
            bytes_sent: 10 * segments_sent,
            ..SocketCounters::default()
        };
        let before = BTreeMap::from([((1, 1, 1), counts(5)), ((2, 2, 2), counts(100))]);
        let after = BTreeMap::from([((1, 1, 1), counts(7)), ((3, 3, 3), counts(4))]);
        assert_eq!(difference(&before, &after), NetworkUsage { packets: 6, bytes: 60, bytes_sent: 60, retransmits: 0 });
    }
}
