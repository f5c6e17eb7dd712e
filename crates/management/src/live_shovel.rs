//! A shovel as it stands.

/// One end of a shovel: a queue, or an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveShovelEnd {
    /// Without a login.
    pub uri: String,
    pub queue: Option<String>,
    pub exchange: Option<String>,
    pub key: Option<String>,
}

/// A shovel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveShovel {
    pub vhost: String,
    pub name: String,
    /// `running`, `starting`, `terminated` (it is tried again), `paused`.
    pub state: &'static str,
    /// Why it does not run.
    pub reason: Option<String>,
    pub source: LiveShovelEnd,
    pub destination: LiveShovelEnd,
    /// When it came into its state.
    pub since_ms: u64,
    /// Moved since it was made or the broker started.
    pub messages: u64,
    pub unacknowledged: u64,
}
