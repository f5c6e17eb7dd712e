//! The management API of a running broker, on a thread of its own.
//!
//! Enters: requests over HTTP, and of administrators over AMQP; definitions and reports of the shards.  Leaves: answers, metrics.
//! Owns:   the thread that answers, and the one that asks the shards. No shard waits for either.

mod broker_facts;
mod broker_source;
mod catalog_follower;
mod clock;
mod http_listeners;
mod link_end;
mod listed_objects;
mod live_tables;
mod log_totals;
mod management_limits;
mod node_history;
mod parameter_entry;
mod parameter_links;
mod process_resources;
mod rated;
mod report_reader;
mod route_links;
mod runtime_totals;
mod session_worker;
mod shovel_route;
mod upstream_routes;
mod user_session;
mod vhost_traffic;

pub use broker_facts::{ClusterIdentity, broker_facts};
pub use http_listeners::{BoundListeners, bind};

use crate::kept_definitions::KeptDefinitions;
use broker_source::BrokerSource;
use config::BrokerConfig;
use link::TlsServer;
use management::limits::ServerLimits;
use management::{ApiOptions, BrokerFacts, DirectRequests, HttpListener, ServerStopper};
use parameter_links::PARAMETERS;
use report_reader::ReportReader;
use session_worker::SessionWorker;
use shard::{AdminHandle, SharedState};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A broker, as its management API needs it.
pub struct ManagedBroker {
    pub operator: AdminHandle,
    pub shared: Arc<SharedState>,
    pub kept: KeptDefinitions,
    pub facts: BrokerFacts,
    /// What the broker is to others, whatever the cluster is called.
    pub cluster_name: String,
    /// Where it listens, in the notation of links.
    pub addresses: Vec<String>,
    /// What protocols begin with whose listeners have these certificates.
    pub tls: Vec<(&'static str, TlsServer)>,
    pub memory_limit_bytes: u64,
    pub disk_free_limit_bytes: u64,
}

impl ManagedBroker {
    /// Certificates may have been read again.
    fn note_certificates(&mut self) {
        for listener in self.facts.listeners.iter_mut().filter(|of| of.certificate_expires_s.is_some()) {
            let tls = self.tls.iter().find(|(protocol, _)| listener.protocol.starts_with(protocol));
            listener.certificate_expires_s = tls.and_then(|(_, tls)| crate::tls::expires_s(tls));
        }
    }
}

/// The management API of a broker. Its threads start with the broker if it has an address or parameters, and otherwise when an administrator
/// first asks something that it answers. Clones are handles on the same.
#[derive(Clone)]
pub struct BrokerManagement(Arc<Mutex<ManagementState>>);

enum ManagementState {
    /// Nobody has asked, and there is no address.
    Waiting(Box<ManagementParts>),
    Running(ManagementThread),
    /// The system has refused a thread.
    Failed,
    Stopped,
}

/// What the threads are made of.
struct ManagementParts {
    listeners: Vec<HttpListener>,
    options: ApiOptions,
    broker: ManagedBroker,
}

/// The thread that answers.
struct ManagementThread {
    requests: DirectRequests,
    stopper: ServerStopper,
    thread: JoinHandle<()>,
}

impl BrokerManagement {
    /// Starts the API, if it has an address.
    ///
    /// # Errors
    /// The system refuses a thread, or random numbers.
    pub fn start(config: &BrokerConfig, bound: BoundListeners, broker: ManagedBroker) -> io::Result<Self> {
        let options = ApiOptions {
            path_prefix: config.management_path_prefix.clone().unwrap_or_default(),
            hosts: config.management_hosts.clone(),
        };
        // Parameters make links, whoever asks.
        let has_links = !broker.kept.get().section(PARAMETERS).is_empty();
        let is_needed = has_links || !bound.listeners.is_empty();
        let parts = ManagementParts { listeners: bound.listeners, options, broker };
        let state = match is_needed {
            true => ManagementState::Running(ManagementThread::start(parts)?),
            false => ManagementState::Waiting(Box::new(parts)),
        };
        Ok(BrokerManagement(Arc::new(Mutex::new(state))))
    }

    fn state(&self) -> MutexGuard<'_, ManagementState> {
        // Nobody panics with the lock held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where requests of administrators go. The threads start now, if they have not yet. `None`: the broker stops.
    ///
    /// # Errors
    /// The system refuses a thread, or random numbers; or they were refused before.
    pub fn requests(&self) -> io::Result<Option<DirectRequests>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, ManagementState::Failed) {
            ManagementState::Waiting(parts) => {
                let thread = ManagementThread::start(*parts)?;
                tracing::info!("the threads of the management API have started for a request of an administrator");
                *state = ManagementState::Running(thread);
            }
            other => *state = other,
        }
        match &*state {
            ManagementState::Running(thread) => Ok(Some(thread.requests.clone())),
            ManagementState::Failed => Err(io::Error::other("it has failed to start before")),
            ManagementState::Waiting(_) | ManagementState::Stopped => Ok(None),
        }
    }

    /// Finishes the answers that are under way, and ends the threads.
    pub fn stop(&self) {
        let state = std::mem::replace(&mut *self.state(), ManagementState::Stopped);
        if let ManagementState::Running(ManagementThread { stopper, thread, .. }) = state {
            stopper.stop();
            if thread.join().is_err() {
                tracing::error!("the thread of the management API has failed");
            }
        }
    }
}

impl ManagementThread {
    fn start(parts: ManagementParts) -> io::Result<Self> {
        let ManagementParts { listeners, options, broker } = parts;
        let reader = ReportReader::start(broker.operator.clone(), &broker.facts.state_folder)?;
        let sessions = SessionWorker::start(broker.operator.clone())?;
        let source = BrokerSource::new(broker, reader, sessions)?;
        let (stopper, stop) = ServerStopper::channel();
        let (requests, queue) = DirectRequests::channel();
        let serve = move || {
            let served = management::serve(listeners, queue, Box::new(source), options, ServerLimits::default(), stop);
            if let Err(error) = served {
                tracing::error!(%error, "the management API has failed");
            }
        };
        let thread = std::thread::Builder::new().name("management".to_owned()).spawn(serve)?;
        Ok(ManagementThread { requests, stopper, thread })
    }
}
