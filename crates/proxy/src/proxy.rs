//! A running proxy: its reactor, from the options to the end.

use crate::dialler::{DialOutcome, DialTask, Dialler, SocketTarget};
use crate::limits::{CACHED_BYTES_MAX, CONNECTIONS_MAX, LISTENERS_MAX, THREADS_MAX};
use crate::options::{ProxyOptions, RdmaUpstreamOptions};
use crate::totals::{ProxyTotals, SharedTotals};
use crate::upstream::{RdmaUpstream, Upstream};
use crate::upstream_address::UpstreamAddress;
use crate::worker::{ConnectionTable, ProxyWorker};
use link::{Address, Listener};
use reactor::{Reactor, ReactorOptions, ReactorState, ReactorThreads, Stopper, WorkerContext};
use slab::{Pool, PoolOptions};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Why a proxy did not start.
#[derive(Debug)]
pub enum ProxyStartError {
    /// An address cannot be listened on.
    Listen { address: String, error: io::Error },
    /// The broker's address cannot be reached from here, for example without an RDMA device.
    Upstream(String),
    /// The options contradict one another.
    Options(&'static str),
    /// Any other error of the system.
    System(io::Error),
}

impl std::fmt::Display for ProxyStartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProxyStartError::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            ProxyStartError::Upstream(why) => f.write_str(why),
            ProxyStartError::Options(what) => f.write_str(what),
            ProxyStartError::System(error) => write!(f, "cannot start: {error}"),
        }
    }
}

impl std::error::Error for ProxyStartError {}

impl From<io::Error> for ProxyStartError {
    fn from(error: io::Error) -> Self {
        ProxyStartError::System(error)
    }
}

/// A running proxy.
pub struct Proxy {
    threads: ReactorThreads,
    totals: Arc<SharedTotals>,
    addresses: Vec<String>,
}

impl Proxy {
    /// Starts a proxy: when this returns, clients can connect. The broker is first dialled for the first client.
    ///
    /// # Errors
    /// An address that cannot be listened on; no device for an RDMA address; options out of their limits.
    pub fn start(options: ProxyOptions) -> Result<Proxy, ProxyStartError> {
        check(&options)?;
        let listeners = options.listen.iter().map(|address| bind(address, &options)).collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.local_address().to_string()).collect();
        let state = Arc::new(ReactorState::new(options.threads as u16, options.connections_max as u32));
        let reactor = Reactor::new(Arc::clone(&state))?;
        let totals = Arc::new(SharedTotals::new(state));
        let dialler = start_dialler(&options)?;
        let reactor_options = ReactorOptions { name: "proxy", listeners, drain_timeout: options.drain_timeout };
        let builder = |_| {
            let (options, dialler, totals) = (options.clone(), dialler.clone(), Arc::clone(&totals));
            move |context: WorkerContext<'_, DialOutcome>| build_worker(&options, dialler, totals, context)
        };
        let threads = reactor.start(reactor_options, (0..options.threads).map(builder).collect())?;
        Ok(Proxy { threads, totals, addresses })
    }

    /// Where clients connect; a port that was left to the system is known here.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Stops accepting. Connections have the drain timeout to end.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// A handle that can stop the proxy while another thread waits for its end.
    pub fn stopper(&self) -> Stopper {
        self.threads.stopper()
    }

    /// What the proxy has done so far, and its number of connections.
    pub fn totals(&self) -> (ProxyTotals, usize) {
        self.totals.sum()
    }

    /// Waits for the end. Returns what the proxy has done.
    ///
    /// # Errors
    /// A thread could not wait for its connections; the others have ended, too.
    pub fn join(self) -> io::Result<ProxyTotals> {
        self.threads.join()?;
        Ok(self.totals.sum().0)
    }
}

/// The threads that dial, if connections need them.
fn start_dialler(options: &ProxyOptions) -> io::Result<Option<Dialler>> {
    let task = match &options.to {
        UpstreamAddress::Socket(to) => {
            let target = SocketTarget { to: to.clone(), options: options.dial.clone(), trust: options.trust.clone() };
            Some(DialTask::Connect(target))
        }
        UpstreamAddress::Rdma(_) => {
            options.rdma.as_ref().and_then(|rdma| rdma.tokens.clone()).map(DialTask::FetchToken)
        }
    };
    task.map(Dialler::start).transpose()
}

#[expect(clippy::disallowed_methods, reason = "the moment from which the first totals count")]
fn build_worker(
    options: &ProxyOptions,
    dialler: Option<Dialler>,
    shared: Arc<SharedTotals>,
    context: WorkerContext<'_, DialOutcome>,
) -> Result<ProxyWorker, ProxyStartError> {
    // Message memory belongs to the thread that it serves.
    let pool = Pool::new(PoolOptions { cached_bytes_max: CACHED_BYTES_MAX });
    let upstream = match (dialler, &options.to, &options.rdma) {
        (Some(dialler), UpstreamAddress::Socket(_), _) => Upstream::Sockets(dialler),
        (token_fetcher, UpstreamAddress::Rdma(address), Some(rdma)) => {
            let mut rdma = RdmaUpstream::new(with_port_settings(rdma, options), address.clone(), token_fetcher);
            rdma.open(&pool, context.registry).map_err(ProxyStartError::Upstream)?;
            Upstream::Rdma(Box::new(rdma))
        }
        _ => unreachable!("options are checked before threads start"),
    };
    let stats = options.stats_every.filter(|_| context.thread == 0).map(|every| (every, Instant::now() + every));
    Ok(ProxyWorker {
        thread: context.thread,
        pool,
        inbox: context.inbox,
        upstream,
        shared,
        totals: ProxyTotals::default(),
        dial_timeout: options.dial.timeout,
        stats,
        table: ConnectionTable::default(),
    })
}

/// Sets what follows from the proxy's own options: the receive buffers of a thread's connections, corking, the time-out.
fn with_port_settings(rdma: &RdmaUpstreamOptions, options: &ProxyOptions) -> RdmaUpstreamOptions {
    let mut rdma = rdma.clone();
    let connections = options.connections_max.div_ceil(options.threads);
    let settings = &mut rdma.settings;
    settings.corked = true;
    settings.set_up_max = options.dial.timeout;
    settings.receive_buffers = settings.spare_buffers + connections * usize::from(settings.credits);
    rdma
}

fn check(options: &ProxyOptions) -> Result<(), ProxyStartError> {
    let rules = [
        (!options.listen.is_empty(), "there is no address to listen on"),
        (options.listen.len() <= LISTENERS_MAX, "there are too many addresses to listen on"),
        ((1..=THREADS_MAX).contains(&options.threads), "threads are 1 to 64"),
        ((1..=CONNECTIONS_MAX).contains(&options.connections_max), "connections are 1 to 100000"),
        (
            matches!(options.to, UpstreamAddress::Socket(_)) || options.rdma.is_some(),
            "an RDMA address needs a source of RDMA devices",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(ProxyStartError::Options(what)))
}

fn bind(address: &Address, options: &ProxyOptions) -> Result<Listener, ProxyStartError> {
    let listener = match &options.tls {
        Some(tls) => Listener::bind_tls(address, &options.listen_options, tls),
        None => Listener::bind(address, &options.listen_options),
    };
    listener.map_err(|error| ProxyStartError::Listen { address: address.to_string(), error })
}
