//! The management API of a running broker, on a thread of its own.
//!
//! Enters: requests over HTTP; definitions and reports of the shards.  Leaves: answers, metrics.
//! Owns:   the thread that answers, and the one that asks the shards. No shard waits for either.

mod broker_facts;
mod broker_source;
mod clock;
mod http_listeners;
mod live_tables;
mod management_limits;
mod node_history;
mod process_resources;
mod rated;
mod report_reader;
mod route_links;
mod runtime_totals;
mod session_worker;
mod user_session;

pub use broker_facts::{ClusterIdentity, broker_facts};
pub use http_listeners::{BoundListeners, bind};

use crate::ineffective_definitions::IneffectiveDefinitions;
use broker_source::BrokerSource;
use config::BrokerConfig;
use link::TlsServer;
use management::limits::ServerLimits;
use management::{ApiOptions, BrokerFacts, ServerStopper};
use report_reader::ReportReader;
use session_worker::SessionWorker;
use shard::{AdminHandle, SharedState};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A broker, as its management API needs it.
pub struct ManagedBroker {
    pub operator: AdminHandle,
    pub shared: Arc<SharedState>,
    pub ineffective: IneffectiveDefinitions,
    pub facts: BrokerFacts,
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

/// The threads of a management API.
pub struct ManagementThread {
    stopper: ServerStopper,
    thread: JoinHandle<()>,
}

impl ManagementThread {
    /// Starts the API, unless it has no address.
    ///
    /// # Errors
    /// The system refuses a thread, or random numbers.
    pub fn start(config: &BrokerConfig, bound: BoundListeners, broker: ManagedBroker) -> io::Result<Option<Self>> {
        if bound.listeners.is_empty() {
            return Ok(None);
        }
        let options = ApiOptions {
            path_prefix: config.management_path_prefix.clone().unwrap_or_default(),
            hosts: config.management_hosts.clone(),
        };
        let reader = ReportReader::start(broker.operator.clone(), &broker.facts.state_folder)?;
        let sessions = SessionWorker::start(broker.operator.clone())?;
        let source = BrokerSource::new(broker, reader, sessions)?;
        let (stopper, stop) = ServerStopper::channel();
        let serve = move || {
            let served = management::serve(bound.listeners, Box::new(source), options, ServerLimits::default(), stop);
            if let Err(error) = served {
                tracing::error!(%error, "the management API has failed");
            }
        };
        let thread = std::thread::Builder::new().name("management".to_owned()).spawn(serve)?;
        Ok(Some(ManagementThread { stopper, thread }))
    }

    /// Finishes the answers that are under way, and ends the threads.
    pub fn stop(self) {
        self.stopper.stop();
        if self.thread.join().is_err() {
            tracing::error!("the thread of the management API has failed");
        }
    }
}
