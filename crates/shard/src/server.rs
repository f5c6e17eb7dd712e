//! A broker as a running thing: its threads, its listeners, its end.
//!
//! Enters: options.  Leaves: a running broker that can be stopped.
//! Owns:   the threads.
//! Never:  handles a message.

use crate::desk::Desk;
use crate::handshake::External;
use crate::household::Household;
use crate::latency::{CPU_LATENCY_FILE, IdleProcessors};
use crate::limits::{LOOK_UP, PORTS_PART_MIN, RDMA_LOOK};
use crate::mail::{Bell, Doorbell, Mail};
use crate::operator::Operator;
use crate::ports::Ports;
use crate::proofs::Prover;
use crate::rdma::{RdmaListen, RdmaOptions};
use crate::reactor::{BELL, Dialler, Front, NEWS, PORTS, Reactor};
use crate::shard::{Shard, ShardOptions};
use crate::spin::Spin;
use crate::vigil::Vigil;
use broker::{Broker, BrokerOptions, AdminRequest};
use catalog::{Catalog, Definition, Limits, ShardId};
use link::{Address, ListenOptions, Listener, TlsServer};
use mio::{Poll, Waker};
use rand::TryRngCore;
use rsocket::RsocketListener;
use session::{Greeting, SessionLimits};
use slab::{Pool, PoolOptions};
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use verbs::device::AnyDevice;

/// Everything a broker must be told.
pub struct ServerOptions {
    /// Where clients connect by sockets.
    pub listen: Vec<Address>,
    /// Where clients connect over RDMA, and how.
    pub rdma: RdmaOptions,
    /// How it listens.
    pub listen_options: ListenOptions,
    /// The certificates of addresses with TLS.
    pub tls: Option<TlsServer>,
    /// How clients log in by certificates, if they may.
    pub external: Option<External>,
    /// Threads.
    pub shards: u16,
    /// What a connection may use.
    pub session: SessionLimits,
    /// What the broker says about itself, and the SASL mechanisms it offers.
    pub greeting: Greeting,
    /// What the definitions may grow to.
    pub catalog: Limits,
    /// Virtual hosts, users and permissions to begin with.
    pub definitions: Vec<Definition>,
    /// Bytes that wait to be sent to one connection, at most (but for one message more).
    pub output_bytes_max: usize,
    /// Bytes that the broker may hold before it holds publishers back.
    pub memory_bytes_max: u64,
    /// Bytes that one queue may hold before it holds its publishers back.
    pub queue_bytes_max: u64,
    /// How long a delivery may wait for its acknowledgement, in milliseconds; zero: for ever.
    pub consumer_timeout_ms: u64,
    /// Connections.
    pub connections_max: u32,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How long a shard spins at most before it sleeps; it does so while that pays.
    pub spin: Duration,
    /// How soon idle processors are to wake while messages flow.
    pub idle_processors: IdleProcessors,
    /// How long connections may take to end when the broker stops.
    pub drain_timeout: Duration,
    /// What this broker calls itself to others.
    pub cluster_name: Box<str>,
    /// Who makes connections to other brokers; without it there are none.
    pub dialler: Option<Arc<dyn Dialler>>,
    /// Where administrative requests go; without it there is nobody who answers them.
    pub requests: Option<SyncSender<AdminRequest>>,
}

/// Why a broker did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Listen {
        /// Which.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The buffers of RDMA ports leave too little of the memory limit for messages.
    Ports {
        /// What they take in all.
        bytes: u64,
        /// The limit.
        memory_bytes_max: u64,
    },
    /// Processors cannot be kept from sleeping.
    Latency(io::Error),
    /// The system refuses something else.
    System(io::Error),
    /// A definition of the configuration is refused.
    Definition(catalog::Refusal),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            StartError::Ports { bytes, memory_bytes_max } => {
                let (ports_mib, limit_mib) = (bytes >> 20, memory_bytes_max >> 20);
                write!(
                    f,
                    "RDMA ports take {ports_mib} MiB for receive buffers, more than half of the memory limit of {limit_mib} MiB: "
                )?;
                f.write_str("fewer rdma_receive_buffers, shards or addresses, or a higher memory_limit")
            }
            StartError::Latency(error) => {
                write!(
                    f,
                    "cannot keep processors from sleeping: {CPU_LATENCY_FILE}: {error} (idle_processors = \"sleep\" leaves them to the system)"
                )
            }
            StartError::System(error) => write!(f, "cannot start: {error}"),
            StartError::Definition(refusal) => write!(f, "the configuration is refused: {refusal}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::System(error)
    }
}

/// A running broker.
pub struct Server {
    stopper: Stopper,
    operator: Operator,
    threads: Vec<JoinHandle<io::Result<()>>>,
    addresses: Vec<String>,
}

/// Stops a broker, from any thread.
#[derive(Clone)]
pub struct Stopper {
    household: Arc<Household>,
    bells: Vec<Arc<Doorbell>>,
}

impl Stopper {
    /// Begins the end: clients are told, and have their time to leave. Once is enough.
    pub fn stop(&self) {
        self.household.stop();
        for bell in &self.bells {
            bell.wake();
        }
    }
}

/// Held by a shard's thread: a broker with a shard missing would wait for it forever, so its end is everybody's.
struct Watch {
    shard: u16,
    stopper: Stopper,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.stopper.household.is_stopping() {
            tracing::error!(shard = self.shard, "a shard ended by itself; the broker stops");
            self.stopper.household.shard_gone(self.shard);
            self.stopper.stop();
        }
    }
}

struct WakerBell(Waker);

impl Bell for WakerBell {
    fn ring(&self) {
        if let Err(error) = self.0.wake() {
            tracing::error!(%error, "cannot wake a shard");
        }
    }
}

/// What each shard listens with: an address and a device, of each address over RDMA.
fn devices_of_shards(
    listen: Vec<RdmaListen>,
    shards: u16,
) -> Result<impl Iterator<Item = Vec<(String, AnyDevice)>>, StartError> {
    let mut of_shards: Vec<_> = (0..shards).map(|_| Vec::new()).collect();
    for listen in listen {
        if listen.devices.len() != of_shards.len() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it needs an RDMA device for each shard");
            return Err(StartError::Listen { address: listen.address.to_string(), error });
        }
        let address = RdmaListen::place_of(&listen.address);
        of_shards.iter_mut().zip(listen.devices).for_each(|(shard, device)| shard.push((address.clone(), device)));
    }
    Ok(of_shards.into_iter())
}

impl Server {
    /// Starts a broker: when this returns, clients can connect.
    #[expect(clippy::disallowed_methods, reason = "the moment from which all shards count is taken once")]
    pub fn start(options: ServerOptions) -> Result<Server, StartError> {
        let latency = options.idle_processors.latency().map_err(StartError::Latency)?.map(Arc::new);
        let mut listeners = Vec::new();
        for address in &options.listen {
            let listener = match (address, &options.tls) {
                (Address::Rsocket { host, port }, _) => RsocketListener::bound(host, *port, &options.listen_options),
                (_, Some(tls)) => Listener::bind_tls(address, &options.listen_options, tls),
                (_, None) => Listener::bind(address, &options.listen_options),
            };
            listeners.push(listener.map_err(|error| StartError::Listen { address: address.to_string(), error })?);
        }
        let mut addresses: Vec<_> = listeners.iter().map(|listener| listener.local_address().to_string()).collect();
        let RdmaOptions { listen: over_rdma, settings: rdma_settings, poll: rdma_poll, frame_bytes_max } = options.rdma;
        addresses.extend(over_rdma.iter().map(|listen| listen.address.to_string()));
        let ports = over_rdma.len() as u64 * u64::from(options.shards);
        let ports_bytes = ports * rdma_settings.port_bytes();
        if ports_bytes > options.memory_bytes_max / PORTS_PART_MIN {
            let memory_bytes_max = options.memory_bytes_max;
            return Err(StartError::Ports { bytes: ports_bytes, memory_bytes_max });
        }
        let mut devices = devices_of_shards(over_rdma, options.shards)?;
        let household = Household::new(options.shards, options.memory_bytes_max, options.connections_max);
        let mut household = household.with_ports(ports_bytes);
        if ports > 0 {
            household = household.give_tokens(rdma_settings.token_max);
        }
        let household = Arc::new(household);
        let polls = (0..options.shards).map(|_| Poll::new()).collect::<io::Result<Vec<_>>>()?;
        let bells = polls.iter().map(|poll| Ok(Doorbell::new(Box::new(WakerBell(Waker::new(poll.registry(), BELL)?)))));
        let bells = bells.collect::<io::Result<Vec<_>>>()?;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..options.shards).map(|_| mpsc::channel()).unzip();
        let doors: Vec<_> = senders.into_iter().zip(bells.iter().cloned()).collect();
        let operator = Operator::new(doors.clone());
        let mut front = Some(Front { listeners: listeners.into(), shards: doors.clone() });
        let greeting = Arc::new(options.greeting);
        let epoch = Instant::now();
        let epoch_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let prover = Prover::new();
        let mut origin = [0; 8];
        rand::rngs::OsRng.try_fill_bytes(&mut origin).map_err(io::Error::other)?;
        let origin = u64::from_ne_bytes(origin);
        let mut threads = Vec::new();
        let (listens, listening) = mpsc::channel();
        let per_shard = polls.into_iter().zip(receivers).zip(Mail::connect(&bells)).zip(&bells);
        for (id, (((poll, incoming), mail), bell)) in (0..options.shards).zip(per_shard) {
            let mut catalog = Catalog::new(options.catalog.clone());
            for definition in &options.definitions {
                catalog.execute(definition).map_err(StartError::Definition)?;
            }
            let shard = ShardId(id);
            let broker_options = BrokerOptions {
                shard,
                shards: options.shards,
                queue_bytes_max: options.queue_bytes_max,
                epoch_unix_s,
                consumer_timeout_ms: options.consumer_timeout_ms,
            };
            let shard_options = ShardOptions {
                shard,
                session: options.session,
                rdma_frame_bytes_max: frame_bytes_max,
                greeting: Arc::clone(&greeting),
                login_timeout: options.login_timeout,
                epoch,
                cluster_name: options.cluster_name.clone(),
            };
            let (dialler, door) = (options.dialler.clone(), doors[usize::from(id)].clone());
            let watch =
                Watch { shard: id, stopper: Stopper { household: Arc::clone(&household), bells: bells.clone() } };
            let (household, bell, front) = (Arc::clone(&household), Arc::clone(bell), front.take());
            let (output_bytes_max, spin, drain_timeout) =
                (options.output_bytes_max, options.spin, options.drain_timeout);
            let (external, prover) = (options.external.clone(), Arc::clone(&prover));
            let requests = options.requests.clone();
            let (devices, rdma_settings) = (devices.next().unwrap_or_default(), rdma_settings.clone());
            let ports_spin = spin.max(RDMA_LOOK);
            let listens = listens.clone();
            let vigil = Vigil::new(latency.clone());
            let mut seed = [0; 32];
            rand::rngs::OsRng.try_fill_bytes(&mut seed).map_err(io::Error::other)?;
            let thread = std::thread::Builder::new().name(format!("shard-{id}")).spawn(move || {
                let _watch = watch;
                let mut ports = Ports::new(rdma_poll, rdma_settings, (PORTS, NEWS));
                for (address, device) in devices {
                    if let Err(error) = ports.open(device, &address, &household) {
                        household.stop();
                        // Whoever starts the broker waits for this.
                        let _heard = listens.send(Err(StartError::Listen { address, error }));
                        return Ok(());
                    }
                }
                let _heard = listens.send(Ok(()));
                drop(listens);
                // Message memory belongs to the thread that it serves.
                let mut desk = Desk::new(Pool::new(PoolOptions::default()), mail, output_bytes_max, seed);
                if let Some(requests) = requests {
                    desk.send_requests_to(requests);
                }
                let mut broker = Broker::new(broker_options, catalog);
                broker.set_origin(origin);
                let mut shard = Shard::new(shard_options, broker, desk, Arc::clone(&household));
                shard.prove_with(prover, Arc::clone(&bell));
                if let Some(external) = external {
                    shard.accept_certificates(external);
                }
                let (spin, ports_spin) = (Spin::new(spin), Spin::new(ports_spin));
                let rounds_without_poll = 0;
                Reactor {
                    shard,
                    id,
                    poll,
                    front,
                    incoming,
                    bell,
                    household,
                    spin,
                    ports_spin,
                    vigil,
                    drain_timeout,
                    dialler,
                    door,
                    ports,
                    rounds_without_poll,
                }
                .run()
            })?;
            threads.push(thread);
        }
        drop(listens);
        let server = Server { stopper: Stopper { household, bells }, operator, threads, addresses };
        // Sockets listen already; ports belong to the threads of their shards.
        match if ports > 0 { listening.iter().find_map(Result::err) } else { None } {
            None => Ok(server),
            Some(error) => {
                server.stop();
                server.join()?;
                Err(error)
            }
        }
    }

    /// Where clients connect; a port that was left to the system is known here.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Begins the end: clients are told, and have their time to leave.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// A handle that can stop the broker while another thread waits for its end.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// A handle by which another thread can look at definitions and change them, and answer requests.
    pub fn operator(&self) -> Operator {
        self.operator.clone()
    }

    /// Whether every shard still runs.
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// The counts that the shards share, to look at.
    pub fn household(&self) -> Arc<Household> {
        Arc::clone(&self.stopper.household)
    }

    /// Waits for the end. A shard that fails stops the others, and its error is returned once they have ended.
    pub fn join(self) -> io::Result<()> {
        for thread in self.threads {
            match thread.join() {
                Ok(outcome) => outcome?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    }

    /// The longest that a shard takes to notice that it should stop.
    pub const NOTICE: Duration = LOOK_UP;
}

#[cfg(test)]
mod tests {
    use super::{Stopper, Watch};
    use crate::household::Household;
    use std::sync::Arc;

    #[test]
    fn a_shard_that_ends_by_itself_ends_the_broker() {
        let household = Arc::new(Household::new(2, 1, 10));
        assert_eq!([household.place_connection(), household.place_connection()], [Some(0), Some(1)]);
        let watch = Watch { shard: 1, stopper: Stopper { household: Arc::clone(&household), bells: vec![] } };
        let other = Watch { shard: 0, stopper: watch.stopper.clone() };
        drop(watch);
        assert!(household.is_stopping());
        assert_eq!(household.connections(), 1, "nobody waits for the connections of the shard that is gone");
        drop(other);
        assert_eq!(household.connections(), 1, "one that ends because it should takes nothing back");
    }
}
