//! RDMA options of the configuration: addresses with their devices, and port settings.
//!
//! A device is opened only if an address is configured for it.

use config::{BrokerConfig, ConfigError, RdmaPoll, RdmaToken};
use link::Address;
use shard::{RdmaListen, RdmaOptions};
use std::time::Duration;
use verbs::PortSettings;

/// The options of a broker's RDMA ports.
///
/// # Errors
/// Settings contradict each other, or an address has no device.
pub fn options(config: &BrokerConfig, addresses: Vec<Address>, shards: u16) -> Result<RdmaOptions, ConfigError> {
    let settings = settings(config);
    // The rule for buffers is left to the user of the settings; all others are ranges.
    settings.check().map_err(|what| config.fault("rdma_receive_buffers", format!("RDMA settings: {what}")))?;
    let with_devices =
        |address: Address| match verbs::card::open_at(&RdmaListen::device_address(&address), shards.into()) {
            Ok(devices) => Ok(RdmaListen { address, devices }),
            Err(error) => Err(config.fault("listen", format!("{address}: {error}"))),
        };
    Ok(RdmaOptions {
        listen: addresses.into_iter().map(with_devices).collect::<Result<_, _>>()?,
        settings,
        poll: match config.rdma_poll {
            RdmaPoll::Busy => shard::RdmaPoll::Busy,
            RdmaPoll::Adaptive => shard::RdmaPoll::Adaptive,
            RdmaPoll::Event => shard::RdmaPoll::Event,
        },
        frame_bytes_max: config.rdma_frame_bytes_max,
    })
}

fn settings(config: &BrokerConfig) -> PortSettings {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    PortSettings {
        receive_buffer_bytes: config.rdma_receive_buffer_bytes,
        receive_buffers: config.rdma_receive_buffers as usize,
        credits: config.rdma_credits,
        rendezvous_threshold_bytes: config.rdma_rendezvous_bytes_min,
        rendezvous_max: config.rdma_rendezvous_max,
        granted_bytes_max: bytes(config.rdma_granted_bytes_max),
        granted_bytes_total_max: bytes(config.rdma_granted_bytes_total_max),
        fetch_max: seconds(config.rdma_fetch_timeout_s),
        silent_max: seconds(config.rdma_silence_s),
        ping_after: seconds(config.rdma_silence_s) / 3,
        accepts_direct: config.rdma_token == RdmaToken::Allow,
        ..PortSettings::default()
    }
}
