//! `harrier broker`: runs a broker, from its configuration to its end.

use crate::admin_server::{AdminServer, FederationAdmin};
use crate::default_folder::default_folder;
use crate::dialler::Dialler;
use crate::kept_definitions::{self, KeptDefinitions};
use crate::management::{BrokerManagement, ClusterIdentity, ManagedBroker};
use crate::options::options;
use crate::own_process::OwnProcess;
use crate::process::{Signals, raise_open_files, seed};
use crate::reload::Reload;
use crate::state_folder::BrokerIdentity;
use crate::stated_definitions::StatedDefinitions;
use crate::{greeting, log, plan_file, service_manager, tls};
use cli::{USAGE_STATUS, print, print_error};
use config::{BrokerConfig, BrokerInvocation, ConfigError, Machine, Origin, StoreSync};
use definitions::KeptSections;
use sd_notify::NotifyState;
use secrets::secret_file;
use shard::{BrokerStartError, CopiedBytes, Server};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::time::Instant;

/// Files that a broker opens beside its connections: polls, listeners, standard streams. A conservative estimate.
const OTHER_FILES: u64 = 256;

/// Runs `harrier broker`.
#[expect(clippy::disallowed_methods, reason = "a program may tell how long its start took")]
pub fn main(words: &[OsString]) -> ExitCode {
    let began = Instant::now();
    let outcome = match BrokerConfig::load(words.iter().cloned(), std::env::vars_os()) {
        Ok(BrokerInvocation::Help) => return print(&config::help()),
        Ok(BrokerInvocation::Print(config)) => return print(&config.to_toml()),
        Ok(BrokerInvocation::Run(config)) => run(words, *config, began),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            for line in failure.text.lines() {
                print_error(&format!("harrier broker: {line}"));
            }
            failure.status
        }
    }
}

/// Why a broker did not start or did not end well.
struct RunFailure {
    text: String,
    status: ExitCode,
}

impl From<ConfigError> for RunFailure {
    fn from(error: ConfigError) -> Self {
        let status = if error.is_usage() { ExitCode::from(USAGE_STATUS) } else { ExitCode::FAILURE };
        RunFailure { text: error.to_string(), status }
    }
}

impl From<BrokerStartError> for RunFailure {
    fn from(error: BrokerStartError) -> Self {
        RunFailure { text: error.to_string(), status: ExitCode::FAILURE }
    }
}

impl From<std::io::Error> for RunFailure {
    fn from(error: std::io::Error) -> Self {
        RunFailure { text: error.to_string(), status: ExitCode::FAILURE }
    }
}

/// Warnings of files of a broker with passwords, their hashes, or private keys that others than their owner can read.
fn readable_secrets(config: &BrokerConfig) -> impl Iterator<Item = String> + '_ {
    let has_users = config.users.iter().any(|user| user.origin != Origin::Default);
    let file = config.file.iter().filter(move |_| has_users).map(|path| path.to_path_buf());
    let definitions = config.definitions.iter().map(PathBuf::from);
    let of_links = [plan_file::FILE, kept_definitions::FILE];
    let state = config.state_folder().into_iter();
    let kept = state.flat_map(move |folder| of_links.map(|name| Path::new(folder).join(name)));
    let keys = config.tls_keys.iter().chain(&config.management_tls_keys);
    file.chain(definitions)
        .chain(kept)
        .filter_map(secret_file::warning)
        .chain(keys.filter_map(secret_file::key_warning))
}

/// A state folder that cannot be used: no error of usage.
fn unusable_folder(config: &BrokerConfig, is_default: bool, why: String) -> RunFailure {
    let choice = if is_default { " (--state chooses another folder, or none)" } else { "" };
    RunFailure { text: format!("{}{choice}", config.fault("state", why)), status: ExitCode::FAILURE }
}

/// Says where the broker's state is, and what a confirm means there.
fn log_folder(config: &BrokerConfig, is_default: bool) {
    let Some(folder) = config.state_folder() else {
        return tracing::info!("there is no state folder: everything is in memory, and ends with the broker");
    };
    let (store_sync, store_group_us, segment_bytes) = (config.store_sync, config.store_group_us, config.segment_bytes);
    tracing::info!(
        folder,
        is_default,
        %store_sync,
        store_group_us,
        segment_bytes,
        "the state folder keeps what is durable"
    );
    match store_sync {
        StoreSync::Always => {}
        StoreSync::Later { .. } => tracing::info!(%store_sync, "a power failure loses what was confirmed in this time"),
        StoreSync::Never => tracing::info!("a crash of the broker loses what was confirmed last"),
    }
}

fn run(words: &[OsString], mut config: BrokerConfig, began: Instant) -> Result<(), RunFailure> {
    let machine = Machine::here();
    let has_default_folder = config.state.is_none();
    if has_default_folder {
        let folder = default_folder().map_err(|why| config.fault("state", why))?;
        config.state = Some(folder.to_string_lossy().into_owned());
    }
    let state = BrokerIdentity::open(config.state_folder(), config.cluster_name.as_deref());
    let state = state.map_err(|(setting, why)| match setting {
        "state" => unusable_folder(&config, has_default_folder, why),
        setting => config.fault(setting, why).into(),
    })?;
    let cluster_name = state.cluster_name.clone();
    let store =
        state.folder.as_ref().map(|folder| crate::options::store(&config, config.shard_count(&machine), folder));
    let store = store.transpose().map_err(|why| unusable_folder(&config, has_default_folder, why))?;
    if let Some(store) = store.as_ref().filter(|_| config.shards == 0) {
        // Messages stay in their logs, wherever the folder is moved to.
        config.shards = store.logs;
    }
    let (mut options, begun, stated_names) = options(&config, &machine, seed()?, &cluster_name, store)?;
    let _log = log::begin(config.log_level, config.log_format);
    log_folder(&config, has_default_folder);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let unusable = |why: String| unusable_folder(&config, has_default_folder, why);
    if let (Some(folder), Some(store)) = (&state.folder, &mut options.store) {
        crate::resharding::reshard(folder, store, options.shards, &options.catalog).map_err(unusable)?;
    }
    let kept = KeptDefinitions::open(state.folder.clone()).map_err(unusable)?;
    let federation = FederationAdmin::of(state).map_err(unusable)?;
    let mut kept_of_file = KeptSections::default();
    if let Some(path) = &config.definitions
        && let Ok(file) = crate::initial_definitions::read(path)
    {
        file.warnings.iter().for_each(|odd| tracing::warn!("{path}: {odd}"));
        kept_of_file = file.kept();
        kept.change(|kept| kept.with(&kept_of_file)).map_err(unusable)?;
    }
    let stated = StatedDefinitions::default();
    stated.set(stated_names, &kept_of_file);
    let folders = options.store.iter().flat_map(|store| [&store.definitions_folder, &store.log_folder]);
    let readable = readable_secrets(&config).chain(folders.filter_map(|folder| secret_file::store_warning(folder)));
    readable.for_each(|warning| tracing::warn!("{warning}"));
    crate::policies::ineffective_policies(&config).iter().for_each(|odd| tracing::warn!("{odd}"));
    let open_files_max = raise_open_files();
    let connections_max = u64::from(options.connections_max);
    // The default suits machines of all sizes; a configured number that cannot be reached is worth a warning.
    let asked = *config.origin("connections_max") != Origin::Default;
    if asked && open_files_max.is_some_and(|files| files < connections_max + OTHER_FILES) {
        tracing::warn!(connections_max, open_files_max, "the system allows too few open files for so many connections");
    }
    let (shards, memory_limit_bytes) = (options.shards, options.memory_bytes_max);
    let bound = crate::management::bind(&config)?;
    // From here on signals are caught, and acted on once the broker runs.
    let signals = Signals::catch()?;
    let tls = options.tls.clone();
    let management_tls = bound.tls.clone();
    tls.iter().chain(&management_tls).for_each(|tls| tls::log_expiry_warnings(&tls.certificates()));
    let (limits, configuration) = (options.catalog.clone(), config.file.clone());
    let store_id = options.store.as_ref().map(|store| store.id);
    let disk_free_limit_bytes = options.store.as_ref().map_or(0, |store| store.disk_free_limit);
    let (asked, requests) = shard::request_channel();
    options.requests = Some(asked);
    let own_process = OwnProcess::default();
    options.dialler = Some(Arc::new(Dialler(own_process.clone())));
    let server = Server::start(options)?;
    own_process.begin(server.admin());
    let federation = federation.with_addresses(server.addresses());
    let identity = ClusterIdentity { cluster_name: &cluster_name, store_id, shards };
    let facts = crate::management::broker_facts(&config, &machine, &identity, server.addresses(), tls.as_ref(), &bound);
    let managed = ManagedBroker {
        operator: server.admin(),
        shared: server.shared(),
        kept: kept.clone(),
        facts,
        cluster_name: cluster_name.clone(),
        addresses: server.addresses().to_vec(),
        tls: [("amqp", &tls), ("https", &management_tls)]
            .into_iter()
            .filter_map(|(protocol, tls)| Some((protocol, tls.clone()?)))
            .collect(),
        memory_limit_bytes,
        disk_free_limit_bytes,
    };
    let management_addresses = bound.addresses();
    let management = BrokerManagement::start(&config, bound, managed)?;
    let admin_server = AdminServer::new(server.admin(), kept.clone(), federation, management.clone());
    admin_server.with_store(server.backup()).with_stated(stated.clone()).serve(requests)?;
    let mut reload =
        Reload::new(words.to_vec(), config, limits, shards, (begun, kept, kept_of_file, stated), server.admin());
    // On a thread of its own: it waits for the disk, and the broker may be told to stop meanwhile.
    let (hangup, hangups) = sync_channel(1);
    let run_reloads = move || {
        for () in hangups {
            tls.iter().chain(&management_tls).for_each(tls::reload);
            reload.run();
        }
    };
    std::thread::Builder::new().name("reloads".to_owned()).spawn(run_reloads)?;
    let at_hangup = move || match hangup.try_send(()) {
        // One that waits reads the files as they are then.
        Ok(()) | Err(TrySendError::Full(())) => {}
        Err(TrySendError::Disconnected(())) => {
            tracing::error!("files are not read again: the thread that does it has failed")
        }
    };
    let stopper = server.stopper();
    let at_stop = move || {
        service_manager::tell(NotifyState::Stopping);
        stopper.stop();
    };
    signals.watch("clients are notified, and have time to disconnect", at_stop, at_hangup)?;
    tracing::info!(
        version = greeting::VERSION,
        cluster_name,
        addresses = server.addresses().join(" "),
        management = management_addresses,
        shards,
        memory_limit_bytes,
        open_files_max,
        configuration = configuration.as_deref().map(|path| tracing::field::display(path.display())),
        pid = std::process::id(),
        start_us = began.elapsed().as_micros() as u64,
        "harrier broker is ready"
    );
    service_manager::tell(NotifyState::Ready);
    let shared = server.shared();
    let ended = server.join();
    // It answers to the end of the broker.
    management.stop();
    ended?;
    let CopiedBytes { bytes_in, bytes_out } = shared.copied_bytes();
    let ports = shared.port_counters();
    tracing::info!(
        body_bytes_copied_in = bytes_in,
        body_bytes_copied_out = bytes_out,
        // A broker without RDMA lacks these.
        rdma_doorbells = ports.map(|ports| ports.doorbells),
        rdma_receive_lists = ports.map(|ports| ports.receive_doorbells),
        rdma_sends = ports.map(|ports| ports.messages_sent),
        rdma_receives = ports.map(|ports| ports.messages_received),
        rdma_reads = ports.map(|ports| ports.reads),
        rdma_completions = ports.map(|ports| ports.signalled),
        "harrier broker has stopped"
    );
    Ok(())
}
