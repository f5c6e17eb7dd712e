//! Converts a configuration into server options.
//!
//! Maps each setting to its option and unit. Defaults are in `config`, except those that only a process can know.

use crate::greeting::greeting;
use crate::initial_definitions::initial;
use crate::state_folder::StateFolder;
use crate::stated_definitions;
use crate::store_file::StoreFile;
use catalog::{Catalog, CatalogLimits};
use config::{BrokerConfig, ConfigError, Machine};
use definitions::Json;
use durability::StoreOptions;
use link::{Address, ListenOptions, SocketOptions};
use session::SessionLimits;
use shard::{MoveOptions, ProcessMemory, ServerOptions};
use std::time::Duration;

/// Server options of the broker with this name and this store, a catalog with its initial definitions, and the names of those that
/// its files state.
///
/// # Errors
/// What only the using crate can check: addresses, patterns, a share of unknown memory.
pub fn options(
    config: &BrokerConfig,
    machine: &Machine,
    hash_seed: u64,
    cluster_name: &str,
    store: Option<StoreOptions>,
) -> Result<(ServerOptions, Catalog, Json), ConfigError> {
    let address = |text: &String| text.parse::<Address>().map_err(|error| config.fault("listen", error.to_string()));
    let memory_bytes_max = config.memory_limit_bytes(machine)?;
    let catalog = limits(config, hash_seed);
    let shards = config.shard_count(machine);
    let listen = config.listen.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let (over_rdma, listen) = listen.into_iter().partition(|address| matches!(address, Address::Rdma { .. }));
    let listen: Vec<_> = listen;
    let rdma = crate::rdma_options::options(config, over_rdma, shards)?;
    let tls = crate::tls::server(config, &listen)?;
    let begun = initial(config, &catalog, shards)?;
    let stated = stated_definitions::names(&begun.without_defaults);
    let options = ServerOptions {
        tls,
        external: crate::tls::external(config, cluster_name),
        listen,
        rdma,
        listen_options: ListenOptions { backlog: config.backlog, socket: socket(config), ..ListenOptions::default() },
        shards,
        session: SessionLimits {
            channel_max: config.channel_max,
            frame_bytes_max: config.frame_bytes_max,
            heartbeat_s: config.heartbeat_s,
            message_bytes_max: config.message_bytes_max,
            ..SessionLimits::default()
        },
        greeting: greeting(cluster_name),
        definitions: begun.definitions,
        catalog,
        output_bytes_max: config.session_output_bytes_max as usize,
        memory_bytes_max,
        process_memory: Some(ProcessMemory { heap_bytes: slab::heap_bytes, resident_bytes: slab::resident_bytes }),
        queue_bytes_max: config.queue_limit_bytes(memory_bytes_max),
        consumer_timeout_ms: config.consumer_timeout_ms,
        connections_max: config.connections_max,
        login_timeout: seconds(config.login_timeout_s),
        spin: Duration::from_micros(config.spin_us.into()),
        moves: MoveOptions { is_enabled: config.connections_follow_queues, ..MoveOptions::default() },
        idle_processors: match config.idle_processors {
            config::IdleProcessors::Sleep => shard::IdleProcessors::Sleep,
            config::IdleProcessors::Doze => shard::IdleProcessors::Doze,
            config::IdleProcessors::Poll => shard::IdleProcessors::Poll,
        },
        drain_timeout: seconds(config.drain_timeout_s),
        cluster_name: cluster_name.into(),
        // The broker's program sets one that knows the process.
        dialler: None,
        requests: None,
        store: store.map(|store| StoreOptions { definitions: begun.without_defaults, ..store }),
    };
    Ok((options, begun.catalog, stated))
}

/// The store of a broker in its state folder, which is made if there is none.
///
/// # Errors
/// The folder has another store than it says, or its disk refuses something.
pub fn store(config: &BrokerConfig, shards: u16, folder: &StateFolder) -> Result<StoreOptions, String> {
    let file = StoreFile::open(folder, shards)?;
    let shards = if config.shards == 0 { file.logs } else { shards };
    Ok(StoreOptions {
        definitions_folder: file.definitions_path(folder),
        log_folder: file.log_path(folder),
        spill_folder: file.spill_path(folder)?,
        id: file.id,
        logs: file.logs,
        segment_bytes: config.segment_bytes,
        sync: match config.store_sync {
            config::StoreSync::Always => durability::StoreSync::Always,
            config::StoreSync::Later { interval_us } => durability::StoreSync::Later { interval_us },
            config::StoreSync::Never => durability::StoreSync::Never,
        },
        group_delay_us: config.store_group_us,
        disk_free_limit: config.disk_free_limit_bytes(shards),
        scrub: (config.store_scrub_interval_s > 0).then(|| store::ScrubOptions {
            bytes_per_s: config.store_scrub_rate,
            interval_us: u64::from(config.store_scrub_interval_s) * 1_000_000,
        }),
        loses_damaged: config.store_lose_damaged,
        definitions: Vec::new(),
    })
}

fn socket(config: &BrokerConfig) -> SocketOptions {
    let buffer_bytes = |bytes: u32| (bytes > 0).then_some(bytes as usize);
    SocketOptions {
        tcp_nodelay: (!config.tcp_nodelay).then_some(false),
        tcp_congestion: config.tcp_congestion.clone(),
        send_buffer_bytes: buffer_bytes(config.send_buffer_bytes),
        receive_buffer_bytes: buffer_bytes(config.receive_buffer_bytes),
    }
}

/// Limits of the definitions.
pub fn limits(config: &BrokerConfig, hash_seed: u64) -> CatalogLimits {
    CatalogLimits {
        vhosts_max: config.vhosts_max as usize,
        exchanges_max: config.exchanges_max as usize,
        queues_max: config.queues_max as usize,
        bindings_max: config.bindings_max as usize,
        users_max: config.users_max as usize,
        cached_routes_max: config.cached_routes_max as usize,
        cached_route_bytes_max: usize::try_from(config.cached_route_bytes_max).unwrap_or(usize::MAX),
        cached_permissions_max: config.cached_permissions_max as usize,
        queue_types_as_classic: config.queue_types_as_classic,
        hash_seed,
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests {
    use super::{limits, options};
    use catalog::CatalogLimits;
    use config::{BrokerConfig, BrokerInvocation, ConfigError, Machine, limits as settings};
    use session::SessionLimits;

    const MACHINE: Machine = Machine { cores: 3, memory_bytes: Some(1000) };

    fn config(words: &[&str]) -> Result<BrokerConfig, ConfigError> {
        match BrokerConfig::load_with(words.iter().map(Into::into), [], "/nowhere".as_ref())? {
            BrokerInvocation::Run(config) => Ok(*config),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_declared_defaults_are_those_of_the_crates() {
        let config = config(&[]).expect("the default");
        let defaults = CatalogLimits::default();
        assert_eq!(format!("{:?}", limits(&config, defaults.hash_seed)), format!("{defaults:?}"));
        let (options, begun, _) = options(&config, &MACHINE, 1, "here", None).expect("sound");
        assert_eq!(begun.users().count(), 1);
        assert_eq!(options.session, SessionLimits::default());
        assert_eq!(options.moves, shard::MoveOptions::default());
        assert_eq!(options.listen_options, link::ListenOptions::default());
        assert_eq!((options.shards, options.memory_bytes_max, options.queue_bytes_max), (2, 400, 200));
        assert_eq!(options.definitions.len(), 3);
        assert_eq!(config.segment_bytes, store::limits::SEGMENT_BYTES_DEFAULT);
        assert_eq!(options.rdma.settings, verbs::PortSettings::default());
        assert_eq!(options.rdma.frame_bytes_max, session::limits::BODY_FRAME_BYTES_MAX);
    }

    #[test]
    fn the_declared_ranges_are_those_of_the_crates() {
        assert_eq!(settings::FRAME_BYTES_LEAST, u64::from(wire::frame::FRAME_BYTES_MIN));
        assert_eq!(settings::FRAME_BYTES_MOST, u64::from(session::limits::FRAME_BYTES_CEILING));
        assert_eq!(settings::MESSAGE_BYTES_MOST, session::limits::BODY_BYTES_MAX);
        assert_eq!(settings::NAME_BYTES_MAX, catalog::limits::NAME_BYTES_MAX);
        assert_eq!(settings::RDMA_CREDITS_LEAST, u64::from(verbs::limits::CREDITS_MIN));
        assert_eq!(settings::RDMA_CREDITS_MOST, u64::from(verbs::limits::CREDITS_MAX));
        assert_eq!(settings::RDMA_RECEIVE_BUFFER_BYTES_LEAST, u64::from(verbs::limits::RECEIVE_BUFFER_BYTES_MIN));
        assert_eq!(settings::RDMA_RECEIVE_BUFFER_BYTES_MOST, u64::from(verbs::limits::PAYLOAD_BYTES_MAX));
        assert_eq!(settings::PASSWORD_BYTES_MAX, catalog::limits::PASSWORD_BYTES_MAX);
        assert_eq!(settings::SEGMENT_BYTES_LEAST, store::limits::SEGMENT_BYTES_MIN);
        assert_eq!(settings::SEGMENT_BYTES_MOST, store::limits::SEGMENT_BYTES_MAX);
        assert_eq!(settings::STORE_GROUP_US_MAX, store::limits::LAZY_WRITE_US);
    }

    #[test]
    fn what_only_the_crates_can_check_is_reported_with_its_place() {
        let error = |words: &[&str]| {
            let outcome = config(words).and_then(|config| options(&config, &MACHINE, 1, "here", None).map(drop));
            outcome.expect_err("refused").to_string()
        };
        assert_eq!(
            error(&["--listen", "5672"]),
            "--listen: '5672' is no address: the port is missing (host:port, or unix:/path)"
        );
        assert_eq!(
            error(&["--rdma-receive-buffers", "79"]),
            "--rdma-receive-buffers: RDMA settings: too few receive buffers for one connection"
        );
    }
}
