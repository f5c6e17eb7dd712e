//! A proxy as a running thing: its threads, its listeners, its end.
//!
//! Enters: options.  Leaves: a running proxy that can be stopped.
//! Owns:   the threads.
//! Never:  carries a byte itself.

use crate::dialler::{Dialler, Door, Errand, Way};
use crate::limits::{CACHED_BYTES_MAX, CONNECTIONS_MAX, LISTENERS_MAX, THREADS_MAX};
use crate::options::{ProxyOptions, Rdma};
use crate::reactor::{Arrival, DEVICE, Front, Reactor, Shared, Table, WAKER};
use crate::road::{PortRoad, Road};
use crate::{Target, Totals};
use link::{Address, Listener};
use mio::{Poll, Waker};
use slab::{Pool, PoolOptions};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Why a proxy did not start.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be listened on.
    Listen {
        /// Which.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// There is no way to the broker's address from here: no device for it, above all.
    Road(String),
    /// The options contradict one another.
    Options(&'static str),
    /// The system refuses something else.
    System(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            StartError::Road(why) => f.write_str(why),
            StartError::Options(what) => f.write_str(what),
            StartError::System(error) => write!(f, "cannot start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError::System(error)
    }
}

/// A running proxy.
pub struct Proxy {
    stopper: Stopper,
    threads: Vec<JoinHandle<io::Result<()>>>,
    addresses: Vec<String>,
}

/// Stops a proxy, from any thread.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
    wakers: Vec<Arc<Waker>>,
}

impl Stopper {
    /// Begins the end: nobody is accepted any more, and connections have their time to end. Once is enough.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        for waker in &self.wakers {
            if let Err(error) = waker.wake() {
                tracing::error!(%error, "cannot wake a thread");
            }
        }
    }
}

/// Held by a thread: a proxy that lacks one has lost its connections, so its end is everybody's.
struct Watch {
    thread: usize,
    stopper: Stopper,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.stopper.shared.stopping.load(Ordering::Acquire) {
            tracing::error!(thread = self.thread, "a thread ended by itself; the proxy stops");
            self.stopper.stop();
        }
    }
}

/// What a thread is started with.
struct Seat {
    id: usize,
    poll: Poll,
    door: Door,
    incoming: Receiver<Arrival>,
    front: Option<Front>,
    shared: Arc<Shared>,
    /// Where it says that it has begun, or why it cannot.
    begun: Sender<Result<(), String>>,
}

impl Proxy {
    /// Starts a proxy: when this returns, clients can connect. Whether the broker is there is seen when one does.
    ///
    /// # Errors
    /// An address that cannot be listened on; no device for an RDMA address; options out of their limits.
    pub fn start(options: ProxyOptions) -> Result<Proxy, StartError> {
        check(&options)?;
        let listeners = options.listen.iter().map(|address| bind(address, &options)).collect::<Result<Vec<_>, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.local_address().to_string()).collect();
        let shared = Arc::new(Shared {
            stopping: AtomicBool::new(false),
            boards: (0..options.threads).map(|_| Default::default()).collect(),
            connections_max: options.connections_max,
        });
        let (mut polls, mut doors, mut incoming) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.threads {
            let poll = Poll::new()?;
            let (sender, receiver) = channel();
            doors.push(Door { sender, waker: Arc::new(Waker::new(poll.registry(), WAKER)?) });
            polls.push(poll);
            incoming.push(receiver);
        }
        let stopper =
            Stopper { shared: Arc::clone(&shared), wakers: doors.iter().map(|door| door.waker.clone()).collect() };
        let dialler = match &options.to {
            Target::Socket(to) => {
                let way = Way { to: to.clone(), options: options.dial.clone(), trust: options.trust.clone() };
                Some(Dialler::start(Errand::Link(way))?)
            }
            Target::Rdma(_) => {
                let passes = options.rdma.as_ref().and_then(|rdma| rdma.passes.clone());
                passes.map(|passes| Dialler::start(Errand::Pass(passes))).transpose()?
            }
        };
        let (begun, outcomes) = channel();
        let mut front = Some(Front { listeners: listeners.into(), doors: doors.clone() });
        let mut threads = Vec::new();
        for (id, ((poll, door), incoming)) in polls.into_iter().zip(doors).zip(incoming).enumerate() {
            let (shared, begun) = (Arc::clone(&shared), begun.clone());
            let seat = Seat { id, poll, door, incoming, front: front.take(), shared, begun };
            let (options, dialler) = (options.clone(), dialler.clone());
            let watch = Watch { thread: id, stopper: stopper.clone() };
            let thread = std::thread::Builder::new().name(format!("proxy-{id}")).spawn(move || {
                let _watch = watch;
                seat.serve(&options, dialler)
            })?;
            threads.push(thread);
        }
        drop(begun);
        let proxy = Proxy { stopper, threads, addresses };
        // A thread that could not even say so has panicked, and `join` passes that on.
        let failed = outcomes.iter().take(options.threads).find_map(Result::err);
        match failed {
            None => Ok(proxy),
            Some(why) => {
                proxy.stop();
                proxy.join()?;
                Err(StartError::Road(why))
            }
        }
    }

    /// Where clients connect; a port that was left to the system is known here.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Begins the end: nobody is accepted any more, and connections have their time to end.
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// A handle that can stop the proxy while another thread waits for its end.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// What it has done, and how many connections there are.
    pub fn totals(&self) -> (Totals, usize) {
        self.stopper.shared.totals()
    }

    /// Waits for the end. Answers what the proxy has done.
    ///
    /// # Errors
    /// A thread could not wait for its connections; the others have ended then, too.
    pub fn join(self) -> io::Result<Totals> {
        for thread in self.threads {
            match thread.join() {
                Ok(outcome) => outcome?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(self.stopper.shared.totals().0)
    }
}

impl Seat {
    #[expect(clippy::disallowed_methods, reason = "the moment from which the first totals count")]
    fn serve(self, options: &ProxyOptions, dialler: Option<Dialler>) -> io::Result<()> {
        // Message memory belongs to the thread that it serves.
        let pool = Pool::new(PoolOptions { cached_bytes_max: CACHED_BYTES_MAX });
        let road = match (dialler, &options.to, &options.rdma) {
            (Some(dialler), Target::Socket(_), _) => Road::Sockets(dialler),
            (passes, Target::Rdma(address), Some(rdma)) => {
                let mut road = PortRoad::new(settled(rdma, options), address.clone(), DEVICE, passes);
                if let Err(why) = road.open(&pool, self.poll.registry()) {
                    // Whoever has stopped listening has failed already.
                    let _heard = self.begun.send(Err(why));
                    self.shared.stopping.store(true, Ordering::Release);
                    return Ok(());
                }
                Road::Port(Box::new(road))
            }
            _ => unreachable!("options are checked before threads begin"),
        };
        let _heard = self.begun.send(Ok(()));
        let stats = options.stats_every.filter(|_| self.id == 0).map(|every| (every, Instant::now() + every));
        let reactor = Reactor {
            id: self.id,
            poll: self.poll,
            pool,
            front: self.front,
            incoming: self.incoming,
            door: self.door,
            road,
            shared: self.shared,
            totals: Totals::default(),
            dial_timeout: options.dial.timeout,
            drain_timeout: options.drain_timeout,
            stats,
            table: Table::default(),
        };
        reactor.run()
    }
}

/// What a proxy knows better than whoever set the port up: how many connections there may be, and that it has rounds.
fn settled(rdma: &Rdma, options: &ProxyOptions) -> Rdma {
    let mut rdma = rdma.clone();
    let connections = options.connections_max.div_ceil(options.threads);
    let settings = &mut rdma.settings;
    settings.corked = true;
    settings.set_up_max = options.dial.timeout;
    settings.receive_buffers = settings.spare_buffers + connections * usize::from(settings.credits);
    rdma
}

fn check(options: &ProxyOptions) -> Result<(), StartError> {
    let rules = [
        (!options.listen.is_empty(), "there is nowhere to listen"),
        (options.listen.len() <= LISTENERS_MAX, "there are too many places to listen at"),
        ((1..=THREADS_MAX).contains(&options.threads), "threads are 1 to 64"),
        ((1..=CONNECTIONS_MAX).contains(&options.connections_max), "connections are 1 to 100000"),
        (
            matches!(options.to, Target::Socket(_)) || options.rdma.is_some(),
            "an RDMA address needs a source of RDMA devices",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(StartError::Options(what)))
}

fn bind(address: &Address, options: &ProxyOptions) -> Result<Listener, StartError> {
    let listener = match &options.tls {
        Some(tls) => Listener::bind_tls(address, &options.listen_options, tls),
        None => Listener::bind(address, &options.listen_options),
    };
    listener.map_err(|error| StartError::Listen { address: address.to_string(), error })
}
