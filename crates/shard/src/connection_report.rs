//! What a shard tells of a connection.

use crate::connection::{Connection, ConnectionPhase};
use crate::connection_traffic::ConnectionTraffic;
use crate::sessions::Sessions;
use broker::{ConnectionSlot, SessionReport};
use catalog::{QueueId, SessionId, UserId, VhostId};
use link::{Certificate, Link, PeerAddress, RdmaUsage, TlsParameters};
use session::Tuning;

/// The state of a connection, in RabbitMQ's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionState {
    /// It has not opened a virtual host yet.
    Starting,
    Running,
    /// It will be blocked with its next publish.
    Blocking,
    /// Its publishes are not accepted.
    Blocked,
    /// It waits a moment for the consumers of what it publishes.
    Flow,
    Closing,
}

impl ConnectionState {
    pub const fn name(self) -> &'static str {
        match self {
            ConnectionState::Starting => "starting",
            ConnectionState::Running => "running",
            ConnectionState::Blocking => "blocking",
            ConnectionState::Blocked => "blocked",
            ConnectionState::Flow => "flow",
            ConnectionState::Closing => "closing",
        }
    }
}

/// A connection of the shard.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// It tells the connections that use a slot one after another apart.
    pub id: SessionId,
    /// `PEER -> LOCAL`; a peer without an address of its own is told apart by the id.
    pub name: Box<str>,
    pub peer_address: Box<str>,
    pub local_address: Box<str>,
    /// `tcp`, `tls`, `unix`, `rdma`, `rsocket`.
    pub transport: &'static str,
    pub user: Option<UserId>,
    /// The one that it has opened, also while it is being closed.
    pub vhost: Option<VhostId>,
    /// The SASL mechanism by which the client has logged in.
    pub mechanism: Box<str>,
    /// What the client says about itself: a table in wire form, empty if it was too long to be kept.
    pub client_properties: Box<[u8]>,
    /// What TLS has agreed on, over TLS.
    pub tls: Option<Box<TlsReport>>,
    pub tuning: Option<Tuning>,
    /// When it was made, in microseconds since 1970.
    pub connected_us: u64,
    pub state: ConnectionState,
    /// Why it does not move, in words.
    pub hold: Option<&'static str>,
    /// The queue that it waits for.
    pub held_by: Option<QueueId>,
    pub channels: u64,
    pub traffic: ConnectionTraffic,
    /// What it took of the shard's thread, in microseconds: an estimate from samples.
    pub worked_us: u64,
    /// How long its commands were held back before, in microseconds, and since when they are now, since 1970.
    pub held_us: u64,
    pub held_since_us: Option<u64>,
    /// Credits and rendezvous, over RDMA.
    pub rdma: Option<RdmaUsage>,
    /// Bytes that wait to be sent.
    pub send_pending_bytes: u64,
    /// It is a link to another broker, made by either side.
    pub is_link: bool,
}

/// The TLS of a connection.
#[derive(Clone, Debug)]
pub struct TlsReport {
    pub parameters: TlsParameters,
    /// The certificate that the peer has shown.
    pub certificate: Option<CertificateReport>,
}

/// Whom a certificate names, and when it is valid.
#[derive(Clone, Debug)]
pub struct CertificateReport {
    pub subject: String,
    pub issuer: String,
    /// Its first and last second, since 1970.
    pub validity_s: (i64, i64),
}

impl TlsReport {
    fn of(link: &dyn Link) -> Option<Box<Self>> {
        let parameters = link.tls_parameters()?;
        Some(Box::new(TlsReport { parameters, certificate: link.certificate().and_then(CertificateReport::of) }))
    }
}

impl CertificateReport {
    fn of(certificate: &Certificate) -> Option<Self> {
        Some(CertificateReport {
            subject: certificate.distinguished_name()?,
            issuer: certificate.issuer()?,
            validity_s: certificate.validity_s()?,
        })
    }
}

impl ConnectionReport {
    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let texts = [&self.name, &self.peer_address, &self.local_address, &self.mechanism].map(|text| text.len());
        let certificate = self.tls.iter().flat_map(|tls| &tls.certificate);
        let tls: usize = certificate.map(|of| of.subject.len() + of.issuer.len() + size_of::<TlsReport>()).sum();
        size_of::<Self>() + texts.iter().sum::<usize>() + self.client_properties.len() + tls
    }
}

/// The name of a connection.
pub(crate) fn connection_name(peer: &PeerAddress, id: SessionId) -> Box<str> {
    let PeerAddress { address, local_address, .. } = peer;
    if address != local_address {
        return format!("{address} -> {local_address}").into();
    }
    format!("{address}#{}.{}.{} -> {local_address}", id.shard.0, id.slot.number(), id.serial).into()
}

impl Sessions {
    /// The connection in a slot, if there is one.
    pub fn connection_report(&mut self, slot: ConnectionSlot) -> Option<ConnectionReport> {
        let session = self.broker.observer().session(slot);
        let is_alarmed = self.broker.is_alarmed();
        let is_link = self.broker.is_link(slot);
        let connection = self.connections.get(slot)?;
        let output = self.effects.outputs.get(slot);
        let user = match connection.phase {
            ConnectionPhase::Open { user, .. } | ConnectionPhase::LoggedIn { user } => Some(user),
            ConnectionPhase::Greeting | ConnectionPhase::Closing | ConnectionPhase::Leaving => None,
        };
        let (state, hold) = state_of(connection, session.as_ref(), is_alarmed);
        let is_full = output.is_some_and(|output| output.blocked) && self.effects.is_full(slot);
        let peer = connection.link.peer();
        let id = SessionId { shard: self.options.shard, slot, serial: connection.serial };
        let (held, held_since) = connection.time.held();
        Some(ConnectionReport {
            id,
            name: connection_name(peer, connection.first_id.unwrap_or(id)),
            peer_address: peer.address.clone(),
            local_address: peer.local_address.clone(),
            transport: connection.link.capabilities().name,
            user,
            vhost: connection.vhost,
            mechanism: connection.mechanism.clone(),
            client_properties: connection.client_properties.clone(),
            tls: TlsReport::of(&*connection.link),
            tuning: connection.tuning,
            connected_us: self.options.time_us(connection.connected_at),
            state,
            hold: if is_full { Some("its output is full: the client does not read") } else { hold },
            held_by: session.as_ref().and_then(|session| session.blocked_by.or(session.throttled_by)),
            channels: session.map_or(0, |session| session.channels),
            traffic: connection.traffic,
            worked_us: connection.time.worked.as_micros() as u64,
            held_us: held.as_micros() as u64,
            held_since_us: held_since.map(|since| self.options.time_us(since)),
            rdma: connection.link.rdma_usage(),
            send_pending_bytes: output.map_or(0, |output| output.out.bytes() as u64),
            is_link: is_link || connection.federation_link.is_some(),
        })
    }
}

fn state_of(
    connection: &Connection,
    session: Option<&SessionReport>,
    is_alarmed: bool,
) -> (ConnectionState, Option<&'static str>) {
    match connection.phase {
        ConnectionPhase::Greeting if connection.is_verifying_password => {
            return (ConnectionState::Starting, Some("its password is being verified"));
        }
        ConnectionPhase::Greeting | ConnectionPhase::LoggedIn { .. } => return (ConnectionState::Starting, None),
        ConnectionPhase::Closing | ConnectionPhase::Leaving => return (ConnectionState::Closing, None),
        ConnectionPhase::Open { .. } => {}
    }
    let Some(session) = session else { return (ConnectionState::Starting, None) };
    if let Some(reason) = session.blocked_reason {
        return (ConnectionState::Blocked, Some(reason));
    }
    if session.throttled_by.is_some() {
        return (ConnectionState::Flow, Some("the consumers of a queue that it publishes to are behind"));
    }
    let hold = match session {
        SessionReport { awaits_answer: true, .. } => Some("a command waits for another shard or for the disk"),
        SessionReport { has_deferred: true, .. } => Some("a command is carried out in turns"),
        _ => None,
    };
    let state = if is_alarmed { ConnectionState::Blocking } else { ConnectionState::Running };
    (state, hold)
}

#[cfg(test)]
mod tests {
    use super::{ConnectionState, connection_name};
    use crate::login::LoginService;
    use crate::test_sessions::{LoginClient, sessions};
    use broker::ConnectionSlot;
    use catalog::{SessionId, ShardId};
    use link::PeerAddress;
    use std::path::Path;

    #[test]
    fn peers_without_an_address_of_their_own_have_names_of_their_own() {
        let id = |serial| SessionId { shard: ShardId(1), slot: ConnectionSlot::new(2), serial };
        let [peer, local] = ["10.0.0.1:4", "10.0.0.2:5672"].map(|text| text.parse().expect("an address"));
        let tcp = connection_name(&PeerAddress::tcp(peer, local), id(3));
        assert_eq!(&*tcp, "10.0.0.1:4 -> 10.0.0.2:5672");
        let unix = PeerAddress::unix(Path::new("/run/h"));
        assert_eq!(&*connection_name(&unix, id(3)), "unix:/run/h#1.2.3 -> unix:/run/h");
        assert_ne!(connection_name(&unix, id(3)), connection_name(&unix, id(4)));
    }

    #[test]
    fn a_connection_is_told_with_its_user_and_its_state() {
        let mut sessions = sessions();
        let now = sessions.options.epoch;
        let mut client = LoginClient::connect(&mut sessions, None);
        let starting = sessions.connection_report(client.slot).expect("it is there");
        assert_eq!((starting.state, starting.user, starting.channels), (ConnectionState::Starting, None, 0));
        let request = client.start(&mut sessions, "PLAIN", b"\0guest\0guest");
        LoginService::default().log_in(&mut sessions, client.slot, request, now);
        client.open(&mut sessions);
        sessions.open_vhost(client.slot, b"/", now);
        sessions.open_channel(client.slot, wire::ChannelNumber(1), now);
        let open = sessions.connection_report(client.slot).expect("it is there");
        assert_eq!((open.state, open.hold, open.channels), (ConnectionState::Running, None, 1));
        assert_eq!((&*open.mechanism, open.id.serial), ("PLAIN", starting.id.serial));
        let name = open.user.map(|user| sessions.broker.catalog().user_name(user).to_owned());
        assert_eq!(name.as_deref(), Some("guest"));
        assert!(open.send_pending_bytes > 0 && open.bytes() > size_of_val(&open));
        sessions.close_after_flush(client.slot, now);
        let closing = sessions.connection_report(client.slot).expect("it is there");
        assert_eq!((closing.state, closing.channels, closing.user), (ConnectionState::Closing, 0, None));
        assert_eq!(closing.vhost, open.vhost, "its traffic counts there to its end");
        sessions.connections.get_mut(client.slot).expect("it is there").traffic.count_received(9);
        sessions.remove(client.slot);
        assert!(sessions.connection_report(client.slot).is_none());
        sessions.connections.closed_traffic.start();
        let (vhost, traffic) = sessions.connections.closed_traffic.next_report().expect("it is counted");
        assert_eq!((Some(vhost), traffic.received_bytes), (open.vhost, closing.traffic.received_bytes + 9));
    }
}
