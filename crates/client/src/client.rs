//! The client: one connection, opened, used and closed on one thread.
//!
//! Enters: an address and options.  Leaves: an open connection, or the server's reason why not.
//! Owns:   the link, both halves of the session, the receive buffer, the memory for bodies.

use std::collections::VecDeque;
use std::time::Instant;

use link::{Address, CertificateFiles, DialOptions, Link, TlsClient};
use session::heartbeat::Heartbeat;
use session::{Capabilities, DeliveryTemplate, Inbound, Outbound, SessionLimits, Tuning, sasl};
use slab::{BlockMut, Pool, PoolOptions};
use wire::{ChannelNumber, Table, TableRef, Value};

use crate::buffer::ReceiveBuffer;
use crate::buffered_delivery::BufferedDelivery;
use crate::channel::ClientChannel;
use crate::clock::now;
use crate::error::{ClientError, Result};
use crate::message::{ReceivedMessage, Returned};
use crate::options::ConnectOptions;
use crate::output::{ClientOutput, short};
use crate::rdma;
use crate::state::{Cancelled, Reply, SessionState};
use crate::url::{RDMA, TlsFiles, Url};

/// A connection to a broker. It belongs to one thread; open one for each thread that needs one.
///
/// Nothing happens in the background: the client reads, answers heartbeats and notices closes while one of its calls
/// runs. A program that is idle for long calls `keep_alive` at least once in half a heartbeat.
pub struct Client {
    pub(crate) link: Box<dyn Link>,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(crate) pool: Pool,
    pub(crate) buffer: ReceiveBuffer,
    /// What the next delivery probably looks like.
    pub(crate) repeat: DeliveryTemplate,
    pub(crate) state: SessionState,
    pub(crate) options: ConnectOptions,
    pub(crate) tuning: Tuning,
    /// Deliveries that came while something else was awaited.
    pub(crate) aside: VecDeque<ReceivedMessage>,
    pub(crate) aside_bytes: usize,
    /// The delivery that `next_delivery` shows. In a box, since it is out of here while it is written to.
    pub(crate) parked: Option<Box<BufferedDelivery>>,
    pub(crate) shown: Option<ReceivedMessage>,
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) last_received: Instant,
    pub(crate) last_sent: Instant,
    /// Whether bytes came or went since the times above were taken.
    pub(crate) received_since: bool,
    pub(crate) sent_since: bool,
    /// Whether the link had no more when it was read last.
    pub(crate) drained: bool,
    /// Whether a blocked sender has read bytes that no events were taken from yet.
    pub(crate) unlooked: bool,
    /// Whether the server's side of the link has ended.
    pub(crate) ended: bool,
    fell_back: Option<String>,
    /// From so many bytes on the link is lent memory for what comes; `usize::MAX`: never.
    pub(crate) lend_from_bytes: usize,
    /// Bytes of large bodies that were copied on their way in, as counted so far.
    pub(crate) copied_bytes: u64,
    /// Whether calls return once they have asked: within `begin`.
    pub(crate) answers_later: bool,
    /// What `begin` asked and has no answer yet: on which channel, and what the answer may be.
    pub(crate) pending_answer: Option<(ChannelNumber, Vec<&'static str>)>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.link.peer().address)
    }
}

impl Client {
    /// Connects with the usual options.
    ///
    /// # Errors
    /// A wrong address, no connection, or the server's refusal (`Error::ConnectionClosed` with its code and text).
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(&Url::parse(url)?, ConnectOptions::default())
    }

    /// Connects.
    ///
    /// # Errors
    /// As `connect`.
    pub fn connect_with(url: &Url, options: ConnectOptions) -> Result<Self> {
        if url.address.starts_with(RDMA) {
            return Self::connect_rdma(url, options);
        }
        let link = dial_sockets(url, &options)?;
        Self::over(link, url, options)
    }

    /// Connects over RDMA, or by TCP where that will do and RDMA cannot be had.
    fn connect_rdma(url: &Url, options: ConnectOptions) -> Result<Self> {
        let place = url.address.strip_prefix(RDMA).unwrap_or(&url.address);
        let Some(login) = url.login() else {
            return match options.rdma.dial(place, None, options.answer_wait) {
                Ok(link) => Self::over(link, url, options),
                Err(error) => {
                    let Some(tcp) = url.by_tcp().filter(|_| url.fallback_to_tcp) else { return Err(error.into()) };
                    let mut client = Self::connect_with(&tcp, options)?;
                    client.fell_back = Some(error.to_string());
                    Ok(client)
                }
            };
        };
        let mut client = Self::connect_with(&login, options.clone())?;
        let token = rdma::token_of(client.server_properties());
        let outcome = match token {
            Some(token) => options.rdma.dial(place, Some(token), options.answer_wait).map_err(ClientError::from),
            None => Err(ClientError::NotAnnounced { what: "RDMA" }),
        };
        match outcome {
            Ok(link) => {
                // The token says who this is. What it was given over has done its work.
                let known = Url { external: true, ..url.clone() };
                let over_rdma = Self::over(link, &known, options)?;
                client.close()?;
                Ok(over_rdma)
            }
            Err(error) if url.fallback_to_tcp => {
                client.fell_back = Some(error.to_string());
                Ok(client)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a connection over a link that is connected already, such as a simulated one.
    ///
    /// # Errors
    /// As `connect`.
    pub fn over(link: Box<dyn Link>, url: &Url, options: ConnectOptions) -> Result<Self> {
        let is_lent_memory = link.capabilities().lend_threshold_bytes < usize::MAX;
        let limits = SessionLimits {
            channel_max: options.channel_max,
            frame_bytes_max: options.frame_bytes_max,
            body_frame_bytes_max: if is_lent_memory { options.rdma.frame_bytes_max } else { 0 },
            heartbeat_s: options.heartbeat_s,
            message_bytes_max: session::limits::BODY_BYTES_MAX,
            owner_answers_close: false,
            passes_over_contents: false,
            owner_opens_channels: false,
        };
        let start = now();
        let mut client = Self {
            link,
            inbound: Inbound::client(&limits),
            outbound: Outbound::new(),
            pool: Pool::new(PoolOptions::default()),
            buffer: ReceiveBuffer::new(),
            repeat: DeliveryTemplate::default(),
            state: SessionState::default(),
            options,
            tuning: Tuning { channel_max: 0, frame_bytes_max: limits.frame_bytes_max, heartbeat_s: 0 },
            aside: VecDeque::new(),
            aside_bytes: 0,
            parked: Some(Box::default()),
            shown: None,
            heartbeat: None,
            last_received: start,
            last_sent: start,
            received_since: false,
            sent_since: false,
            drained: true,
            unlooked: false,
            ended: false,
            fell_back: None,
            lend_from_bytes: usize::MAX,
            copied_bytes: 0,
            answers_later: false,
            pending_answer: None,
        };
        client.hand_shake(url, &limits)?;
        // Only now is it known what suits a link on which both ends have a say.
        client.lend_from_bytes = client.link.capabilities().lend_threshold_bytes;
        if client.lend_from_bytes < usize::MAX {
            client.inbound.lend_from(client.lend_from_bytes);
            client.outbound.set_part_bytes_min(client.lend_from_bytes);
        }
        Ok(client)
    }

    fn hand_shake(&mut self, url: &Url, limits: &SessionLimits) -> Result<()> {
        let (mechanism, awaited) = match url.external {
            true => ("EXTERNAL", "the mechanism EXTERNAL"),
            false => ("PLAIN", "the mechanism PLAIN"),
        };
        self.outbound.protocol_header(&self.pool);
        match self.answer(ChannelNumber::CONNECTION, "connection.start")? {
            Reply::Started { mechanisms }
                if mechanisms.split(|&byte| byte == b' ').any(|name| name == mechanism.as_bytes()) => {}
            _ => return Err(ClientError::Unexpected { awaited, came: "a greeting without it" }),
        }
        let properties = self.client_properties(url.wants_token())?.to_bytes();
        // Without a name of its own the client is whom its certificate names.
        let response = if url.external { vec![] } else { sasl::plain_response(&url.user, &url.password) };
        self.inbound.log_in(mechanism, &response, TableRef::new(&properties), &mut self.outbound, &self.pool);
        let Reply::Tune(proposed) = self.answer(ChannelNumber::CONNECTION, "connection.tune")? else {
            return Err(ClientError::Unexpected { awaited: "connection.tune", came: "connection.secure" });
        };
        self.tuning = self.inbound.tune(&proposed, limits, &mut self.outbound, &self.pool);
        self.heartbeat = Heartbeat::new(self.tuning.heartbeat_s);
        self.inbound.open(short(&url.vhost)?, &mut self.outbound, &self.pool);
        self.answer(ChannelNumber::CONNECTION, "connection.open-ok")?;
        Ok(())
    }

    fn client_properties(&self, wants_token: bool) -> Result<Table> {
        let text = |text: &str| Value::LongStr(text.as_bytes().into());
        let capabilities = Capabilities::AUTHENTICATION_FAILURE_CLOSE
            .with(Capabilities::CONNECTION_BLOCKED)
            .with(Capabilities::CONSUMER_CANCEL_NOTIFY)
            .with(Capabilities::BASIC_NACK)
            .with(Capabilities::PUBLISHER_CONFIRMS)
            .with(Capabilities::EXCHANGE_EXCHANGE_BINDINGS)
            .with(match (wants_token, self.options.carries_others) {
                (true, true) => Capabilities::RDMA_CARRIER,
                (true, false) => Capabilities::RDMA_TOKEN,
                (false, _) => Capabilities::default(),
            });
        let mut properties = Table::new()
            .with("product", text("Harrier client"))?
            .with("version", text(env!("CARGO_PKG_VERSION")))?
            .with("platform", text("Rust"))?
            .with("capabilities", Value::Table(capabilities.to_table()))?;
        if let Some(name) = &self.options.name {
            properties = properties.with("connection_name", text(name))?;
        }
        Ok(properties)
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// `Error::NoChannelLeft`, or the connection's end.
    pub fn open_channel(&mut self) -> Result<ClientChannel> {
        let number = self.inbound.open_channel(&mut self.outbound, &self.pool).ok_or(ClientError::NoChannelLeft)?;
        self.answer(number, "channel.open-ok")?;
        Ok(self.state.channels.opened(number))
    }

    /// Closes a channel; what was delivered on it and not acknowledged is requeued.
    ///
    /// # Errors
    /// A channel that is not open, or the connection's end.
    pub fn close_channel(&mut self, channel: ClientChannel) -> Result<()> {
        self.state.channels.open(channel)?;
        self.inbound.close_channel(channel.number, 200, "Goodbye", &mut self.outbound, &self.pool);
        self.state.channels.gone(channel);
        self.answer(channel.number, "channel.close-ok")?;
        Ok(())
    }

    /// Ends the connection in order: everything written is sent first.
    ///
    /// # Errors
    /// What kept it from ending in order; the connection is gone all the same.
    pub fn close(self) -> Result<()> {
        self.close_with(200, "Goodbye")
    }

    /// Ends the connection in order, and tells the server why.
    ///
    /// # Errors
    /// As `close`, and a text of more than 255 bytes.
    pub fn close_with(mut self, code: u16, text: &str) -> Result<()> {
        self.ask_to_close_with(code, text)?;
        self.link.close_sending();
        Ok(())
    }

    /// Asks the server to end the connection, for a program that takes the answer later (`begin`) and then drops the client.
    ///
    /// # Errors
    /// As `close`.
    pub fn ask_to_close(&mut self) -> Result<()> {
        self.ask_to_close_with(200, "Goodbye")
    }

    /// As `ask_to_close`, with a reply code and text.
    ///
    /// # Errors
    /// As `close_with`.
    fn ask_to_close_with(&mut self, code: u16, text: &str) -> Result<()> {
        short(text)?;
        self.inbound.close(code, text, &mut self.outbound, &self.pool);
        self.answer(ChannelNumber::CONNECTION, "connection.close-ok").map(drop)
    }

    /// What was agreed on: channels, frame size, heartbeat.
    pub fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// The kind of link it has: `tcp`, `tls`, `unix`, `rdma`.
    pub fn transport(&self) -> &'static str {
        self.link.capabilities().name
    }

    /// Why it is connected by TCP although its address wants RDMA, if so. Programs should say so.
    pub fn used_fallback(&self) -> Option<&str> {
        self.fell_back.as_deref()
    }

    /// Why the server does not read from publishers now, if so (`connection.blocked`).
    pub fn blocked(&self) -> Option<&str> {
        self.state.blocked.as_deref()
    }

    /// The oldest returned message not asked for yet. At most `limits::RETURNED_MAX` are kept.
    pub fn take_returned(&mut self) -> Option<Returned> {
        self.state.returned.pop_front()
    }

    /// How many messages came back since the start.
    pub fn returned_count(&self) -> u64 {
        self.state.returned_count
    }

    /// The next consumer that the server ended and that was not asked for yet.
    pub fn take_cancelled(&mut self) -> Option<Cancelled> {
        self.state.cancelled.pop_front()
    }

    /// Memory for a body of `bytes` to be filled and published without a copy: `publish_shared(…, &block.freeze())`.
    /// It holds whatever was in it before.
    ///
    /// # Panics
    /// Over `slab::BLOCK_BYTES_MAX`.
    pub fn block(&self, bytes: usize) -> BlockMut {
        self.pool.block(bytes)
    }

    /// Bytes of large bodies that were received and copied on the way into memory of their own; over a link that can do
    /// without it stays zero.
    pub fn copied_bytes(&mut self) -> u64 {
        self.copied_bytes += self.inbound.take_copied_bytes();
        self.copied_bytes
    }

    /// Reports the link's readiness to `registry`, for programs that poll many clients; edges are followed by
    /// `dispatch(Duration::ZERO, …)` until it says `drained`.
    ///
    /// # Errors
    /// What the system says.
    pub fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> std::io::Result<()> {
        self.link.register(registry, token)
    }

    pub(crate) fn output(&mut self) -> ClientOutput<'_> {
        ClientOutput { outbound: &mut self.outbound, pool: &self.pool, channels: &mut self.state.channels }
    }
}

/// A link over sockets.
pub(crate) fn dial_sockets(url: &Url, options: &ConnectOptions) -> Result<Box<dyn Link>> {
    let address: Address =
        url.address.parse().map_err(|error| ClientError::Url { why: format!("'{}': {error}", url.address) })?;
    let dial = DialOptions { timeout: options.answer_wait, socket: url.socket_over(&options.socket) };
    Ok(match &address {
        Address::Tls { .. } => link::dial_tls(&address, &dial, &tls_client(&url.tls)?)?,
        Address::Rsocket { host, port } => {
            Box::new(rsocket::dial(host, *port, &dial.socket, &rsocket::RsocketPoller::process_wide()?)?)
        }
        Address::Tcp { .. } | Address::Unix(_) | Address::Rdma { .. } => link::dial(&address, &dial)?,
    })
}

fn tls_client(files: &TlsFiles) -> Result<TlsClient> {
    let TlsFiles { ca, certificate, key, server_name } = files;
    let own = certificate.clone().zip(key.clone()).map(|(certificate, key)| CertificateFiles { certificate, key });
    TlsClient::new(ca.as_deref(), own.as_ref(), server_name.as_deref())
        .map_err(|error| ClientError::Url { why: error.to_string() })
}
