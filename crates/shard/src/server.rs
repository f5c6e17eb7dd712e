//! The server: a running broker, from its options to the end of its shards.

use crate::admin_handle::AdminHandle;
use crate::cpu_latency::{CPU_LATENCY_FILE, CpuLatencyRequest, IdleProcessors};
use crate::cpu_latency_guard::CpuLatencyGuard;
use crate::disk_signal::DiskSignal;
use crate::effects::ShardEffects;
use crate::inbox::{InboxMessage, ShardInbox};
use crate::limits::{PORT_MEMORY_DIVISOR, RDMA_SPIN};
use crate::login::ExternalMechanism;
use crate::mailbox::{Mailbox, ShardWaker, WakeTarget};
use crate::memory_pressure::ProcessMemory;
use crate::move_options::MoveOptions;
use crate::password_verifier::PasswordVerifier;
use crate::rdma_options::{RdmaListen, RdmaOptions, RdmaPoll};
use crate::rdma_ports::RdmaPorts;
use crate::shard::Shard;
use crate::shard_options::ShardOptions;
use crate::shared_state::SharedState;
use crate::thread_stats::ThreadStats;
use crate::worker::{BrokerDialler, ShardSpins, ShardWorker};
use broker::{AdminRequest, Broker, BrokerOptions};
use catalog::{AllPolicies, Catalog, CatalogLimits, Definition, Policy, ShardId};
use durability::{OpenStore, ShardStore, StoreBackup, StoreOpenError, StoreOptions};
use link::{Address, ListenOptions, Listener, TlsServer};
use rand::TryRngCore;
use reactor::{Reactor, ReactorOptions, ReactorThreads, Stopper, ThreadWaker, WorkerContext};
use rsocket::RsocketListener;
use session::{Greeting, SessionLimits};
use slab::{Pool, PoolOptions};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant, SystemTime};
use verbs::PortSettings;
use verbs::device::AnyDevice;

/// The options of a broker.
pub struct ServerOptions {
    /// Where clients connect by sockets.
    pub listen: Vec<Address>,
    /// Where clients connect over RDMA, and how.
    pub rdma: RdmaOptions,
    pub listen_options: ListenOptions,
    /// The certificates of TLS addresses.
    pub tls: Option<TlsServer>,
    /// How clients log in with certificates, if they may.
    pub external: Option<ExternalMechanism>,
    pub shards: u16,
    /// Limits of each connection.
    pub session: SessionLimits,
    /// The server properties and SASL mechanisms that the broker announces.
    pub greeting: Greeting,
    /// Limits of the definitions.
    pub catalog: CatalogLimits,
    /// Virtual hosts, users and permissions to start with.
    pub definitions: Vec<Definition>,
    /// Bytes that wait to be sent to one connection at most; one message may go beyond.
    pub output_bytes_max: usize,
    /// Bytes that the broker may hold before it blocks publishers.
    pub memory_bytes_max: u64,
    /// Tells what the process holds, if its allocator counts that; it counts against `memory_bytes_max`.
    pub process_memory: Option<ProcessMemory>,
    /// Bytes that one queue may hold before it blocks its publishers.
    pub queue_bytes_max: u64,
    /// How long a delivery may wait for its acknowledgement, in milliseconds; zero means for ever.
    pub consumer_timeout_ms: u64,
    pub connections_max: u32,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
    /// How long a shard spins at most before it sleeps; it does so while that shortens waits.
    pub spin: Duration,
    /// When connections move to the shard of the queue that they use.
    pub moves: MoveOptions,
    /// How deep idle processors may sleep while messages flow.
    pub idle_processors: IdleProcessors,
    /// How long connections may take to end when the broker stops.
    pub drain_timeout: Duration,
    /// The name that this broker gives other brokers.
    pub cluster_name: Box<str>,
    /// Connects to other brokers; without it there are no such connections.
    pub dialler: Option<Arc<dyn BrokerDialler>>,
    /// Where administrative requests go; without it they get no answer.
    pub requests: Option<SyncSender<AdminRequest>>,
    /// Where durable definitions and messages are; without it everything is kept in memory.
    pub store: Option<StoreOptions>,
}

/// Why a broker did not start.
#[derive(Debug)]
pub enum BrokerStartError {
    /// An address cannot be listened on.
    Listen { address: String, error: io::Error },
    /// The buffers of RDMA ports leave too little of the memory limit for messages.
    Ports {
        /// Bytes of all buffers together.
        bytes: u64,
        memory_bytes_max: u64,
    },
    /// The system takes no bound for the wake-up latency of its processors.
    CpuLatency(io::Error),
    /// Any other error of the system.
    System(io::Error),
    /// A definition of the configuration is refused.
    Definition(catalog::Refusal),
    /// The store cannot be opened.
    Store(StoreOpenError),
}

impl std::fmt::Display for BrokerStartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BrokerStartError::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            BrokerStartError::Ports { bytes, memory_bytes_max } => {
                let (ports_mib, limit_mib) = (bytes >> 20, memory_bytes_max >> 20);
                write!(
                    f,
                    "RDMA ports take {ports_mib} MiB for receive buffers, more than half of the memory limit of {limit_mib} MiB: "
                )?;
                f.write_str("fewer rdma_receive_buffers, shards or addresses, or a higher memory_limit")
            }
            BrokerStartError::CpuLatency(error) => {
                write!(
                    f,
                    "cannot keep processors from sleeping: {CPU_LATENCY_FILE}: {error} (idle_processors = \"sleep\" leaves them to the system)"
                )
            }
            BrokerStartError::System(error) => write!(f, "cannot start: {error}"),
            BrokerStartError::Definition(refusal) => write!(f, "the configuration is refused: {refusal}"),
            BrokerStartError::Store(error) => write!(f, "cannot open the store: {error}"),
        }
    }
}

impl std::error::Error for BrokerStartError {}

impl From<io::Error> for BrokerStartError {
    fn from(error: io::Error) -> Self {
        BrokerStartError::System(error)
    }
}

impl From<StoreOpenError> for BrokerStartError {
    fn from(error: StoreOpenError) -> Self {
        BrokerStartError::Store(error)
    }
}

impl WakeTarget for ThreadWaker {
    fn wake(&self) {
        ThreadWaker::wake(self);
    }
}

/// A running broker.
pub struct Server {
    threads: ReactorThreads,
    shared: Arc<SharedState>,
    admin: AdminHandle,
    addresses: Vec<String>,
    backup: Option<StoreBackup>,
}

/// The address and the device of each RDMA port of one shard.
type PortDevices = Vec<(String, AnyDevice)>;

/// Distributes the devices of all RDMA addresses over the shards.
fn devices_of_shards(
    listen: Vec<RdmaListen>,
    shards: u16,
) -> Result<impl Iterator<Item = PortDevices>, BrokerStartError> {
    let mut of_shards: Vec<_> = (0..shards).map(|_| Vec::new()).collect();
    for listen in listen {
        if listen.devices.len() != of_shards.len() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it needs an RDMA device for each shard");
            return Err(BrokerStartError::Listen { address: listen.address.to_string(), error });
        }
        let address = RdmaListen::device_address(&listen.address);
        of_shards.iter_mut().zip(listen.devices).for_each(|(shard, device)| shard.push((address.clone(), device)));
    }
    Ok(of_shards.into_iter())
}

fn bind_listeners(options: &ServerOptions) -> Result<Vec<Listener>, BrokerStartError> {
    let bind = |address: &Address| {
        let listener = match (address, &options.tls) {
            (Address::Rsocket { host, port }, _) => {
                RsocketListener::bind_listener(host, *port, &options.listen_options)
            }
            (_, Some(tls)) => Listener::bind_tls(address, &options.listen_options, tls),
            (_, None) => Listener::bind(address, &options.listen_options),
        };
        listener.map_err(|error| BrokerStartError::Listen { address: address.to_string(), error })
    };
    options.listen.iter().map(bind).collect()
}

/// A random seed of the system.
pub(crate) fn seed<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut seed = [0; BYTES];
    rand::rngs::OsRng.try_fill_bytes(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}

/// What all shards are built from.
#[derive(Clone)]
struct CommonParts {
    shared: Arc<SharedState>,
    verifier: Arc<PasswordVerifier>,
    external: Option<ExternalMechanism>,
    latency_request: Option<Arc<CpuLatencyRequest>>,
    dialler: Option<Arc<dyn BrokerDialler>>,
    inboxes: Arc<[ShardInbox]>,
    requests: Option<SyncSender<AdminRequest>>,
    rdma_settings: PortSettings,
    rdma_poll: RdmaPoll,
    output_bytes_max: usize,
    spin: Duration,
    /// Tells this run of the broker from others.
    origin: u64,
}

/// What one shard is built from, on its own thread.
struct ShardBuilder {
    common: CommonParts,
    broker_options: BrokerOptions,
    shard_options: ShardOptions,
    catalog: Catalog,
    mailbox: Mailbox,
    waker: Arc<ShardWaker>,
    devices: PortDevices,
    seed: [u8; 32],
    store: Option<OpenStore>,
}

impl ShardBuilder {
    fn build(self, context: WorkerContext<'_, InboxMessage>) -> Result<ShardWorker, BrokerStartError> {
        let (common, epoch) = (self.common, self.shard_options.epoch);
        let shared = Arc::clone(&common.shared);
        let mut ports = RdmaPorts::new(common.rdma_poll, common.rdma_settings, self.shard_options.shard, shared);
        for (address, device) in self.devices {
            let opened = ports.open(device, &address, context.registry);
            opened.map_err(|error| BrokerStartError::Listen { address, error })?;
        }
        // Message memory belongs to the thread that it serves.
        let pool = Pool::new(PoolOptions::default());
        let mut effects = ShardEffects::new(pool, self.mailbox, common.output_bytes_max, self.seed);
        if let Some(requests) = common.requests {
            effects.send_requests_to(requests);
        }
        let mut broker = Broker::new(self.broker_options, self.catalog);
        broker.set_origin(common.origin);
        let mut shard = Shard::new(self.shard_options, broker, effects, Arc::clone(&common.shared));
        shard.set_password_verifier(common.verifier, Arc::clone(&self.waker));
        if let Some(external) = common.external {
            shard.accept_certificates(external);
        }
        let mut disk_signal = None;
        if let Some(store) = self.store {
            let signal = Arc::clone(disk_signal.insert(DiskSignal::new(Arc::clone(&self.waker))));
            let (id, threshold) = (shard.id(), shard.paging_threshold());
            let wake = move || signal.callback();
            let found = store.open_log(id, threshold, wake, |source| shard.recover_messages(source, epoch))?;
            let ShardStore { messages, journal } = found;
            shard.set_store(messages);
            journal.into_iter().for_each(|journal| shard.set_journal(journal));
        }
        Ok(ShardWorker {
            shard,
            waker: self.waker,
            shared: common.shared,
            spins: ShardSpins::new(common.spin, common.spin.max(RDMA_SPIN)),
            latency_guard: CpuLatencyGuard::new(common.latency_request),
            dialler: common.dialler,
            inbox: context.inbox,
            inboxes: common.inboxes,
            ports,
            disk_signal,
            waiting_operators: VecDeque::new(),
            held_changes: VecDeque::new(),
            stats: ThreadStats::default(),
        })
    }
}

impl Server {
    /// Starts a broker: when this returns, clients can connect.
    #[expect(
        clippy::disallowed_methods,
        reason = "the epoch of all shards is taken once, and samples of work are timed"
    )]
    pub fn start(options: ServerOptions) -> Result<Server, BrokerStartError> {
        let latency_request = options.idle_processors.latency_request().map_err(BrokerStartError::CpuLatency)?;
        let listeners = bind_listeners(&options)?;
        let mut addresses: Vec<_> = listeners.iter().map(|listener| listener.local_address().to_string()).collect();
        let RdmaOptions { listen: rdma_listen, settings: rdma_settings, poll: rdma_poll, frame_bytes_max } =
            options.rdma;
        addresses.extend(rdma_listen.iter().map(|listen| listen.address.to_string()));
        let ports = rdma_listen.len() as u64 * u64::from(options.shards);
        let ports_bytes = ports * rdma_settings.port_bytes();
        if ports_bytes > options.memory_bytes_max / PORT_MEMORY_DIVISOR {
            let memory_bytes_max = options.memory_bytes_max;
            return Err(BrokerStartError::Ports { bytes: ports_bytes, memory_bytes_max });
        }
        let mut devices = devices_of_shards(rdma_listen, options.shards)?;
        let shared = SharedState::new(options.shards, options.memory_bytes_max, options.connections_max);
        let mut shared = shared.with_port_bytes(ports_bytes).with_moves(options.moves);
        if let Some(process) = options.process_memory {
            shared = shared.with_process(process);
        }
        if ports > 0 {
            shared = shared.with_tokens(rdma_settings.token_max);
        }
        let shared = Arc::new(shared);
        let reactor = Reactor::new(Arc::clone(shared.reactor()))?;
        let wakers = reactor.inboxes().iter().map(|inbox| ShardWaker::new(Box::new(inbox.waker().clone())));
        let wakers: Vec<_> = wakers.collect();
        let admin = AdminHandle::new(reactor.inboxes().to_vec());
        let greeting = Arc::new(options.greeting);
        let store = options.store.map(|store| OpenStore::open(store, options.shards)).transpose()?;
        let epoch = Instant::now();
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let epoch_unix_us = since_1970.map_or(0, |since| since.as_micros() as u64);
        let common = CommonParts {
            shared: Arc::clone(&shared),
            verifier: PasswordVerifier::new(),
            external: options.external,
            latency_request: latency_request.map(Arc::new),
            dialler: options.dialler,
            inboxes: reactor.inboxes().into(),
            requests: options.requests,
            rdma_settings,
            rdma_poll,
            output_bytes_max: options.output_bytes_max,
            spin: options.spin,
            origin: u64::from_ne_bytes(seed()?),
        };
        // Over what was defined before, only what is configured is defined.
        let over = store.as_ref().and_then(|store| store.definitions_over());
        let definitions = over.map_or(&*options.definitions, |definitions| definitions);
        let mut builders = Vec::new();
        for (id, (mailbox, waker)) in (0..options.shards).zip(Mailbox::connect(&wakers).into_iter().zip(wakers)) {
            let mut catalog = Catalog::new(options.catalog.clone());
            if let Some(store) = &store {
                store.restore(&mut catalog)?;
            }
            for definition in definitions {
                let executed = match definition {
                    Definition::SetPolicies { policies, operator_policies } if over.is_some() => {
                        catalog.execute(&policies_over(&catalog, policies, operator_policies))
                    }
                    definition => catalog.execute(definition),
                };
                executed.map_err(BrokerStartError::Definition)?;
            }
            let shard = ShardId(id);
            let broker_options = BrokerOptions {
                shard,
                shards: options.shards,
                queue_bytes_max: options.queue_bytes_max,
                // Its time is that of the wall.
                epoch_unix_s: 0,
                work_per_turn: broker::limits::WORK_PER_TURN,
                consumer_timeout_ms: options.consumer_timeout_ms,
            };
            let shard_options = ShardOptions {
                shard,
                session: options.session,
                rdma_frame_bytes_max: frame_bytes_max,
                greeting: Arc::clone(&greeting),
                login_timeout: options.login_timeout,
                epoch,
                epoch_unix_us,
                clock: Instant::now,
                cluster_name: options.cluster_name.clone(),
            };
            let (common, devices, seed) = (common.clone(), devices.next().unwrap_or_default(), seed()?);
            let store = store.clone();
            let builder =
                ShardBuilder { common, broker_options, shard_options, catalog, mailbox, waker, devices, seed, store };
            builders.push(|context: WorkerContext<'_, InboxMessage>| builder.build(context));
        }
        let began = Instant::now();
        let reactor_options = ReactorOptions { name: "shard", listeners, drain_timeout: options.drain_timeout };
        let threads = reactor.start(reactor_options, builders)?;
        if let Some(store) = &store {
            store.log_recovery(began.elapsed());
        }
        let backup = store.map(|store| store.backup());
        Ok(Server { threads, shared, admin, addresses, backup })
    }

    /// Where clients connect; a port that was left to the system is known here.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Starts the shutdown: connections are closed, and clients have the drain timeout to leave.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// A handle that can stop the broker while another thread waits for its end.
    pub fn stopper(&self) -> Stopper {
        self.threads.stopper()
    }

    /// A handle by which another thread reads and changes definitions and answers requests.
    pub fn admin(&self) -> AdminHandle {
        self.admin.clone()
    }

    /// Whether every shard still runs.
    pub fn is_running(&self) -> bool {
        self.threads.is_running()
    }

    /// What copies the store while the broker runs, if there is one.
    pub fn backup(&self) -> Option<StoreBackup> {
        self.backup.clone()
    }

    /// The counts that the shards share.
    pub fn shared(&self) -> Arc<SharedState> {
        Arc::clone(&self.shared)
    }

    /// Waits for the end. A shard that fails, or its disk, stops the others, and the error is returned once they have ended.
    pub fn join(self) -> io::Result<()> {
        self.threads.join()?;
        match self.shared.disk_failure() {
            None => Ok(()),
            Some(text) => Err(io::Error::other(text.to_owned())),
        }
    }
}

/// The policies of a catalog with these put over those of their names: what was set while the broker ran stays.
fn policies_over(catalog: &Catalog, policies: &[Policy], operator_policies: &[Policy]) -> Definition {
    let mut all = AllPolicies::of(catalog);
    policies.iter().for_each(|policy| _ = all.put(false, policy.clone()));
    operator_policies.iter().for_each(|policy| _ = all.put(true, policy.clone()));
    all.definition()
}
