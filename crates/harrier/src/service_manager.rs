//! What the service manager (systemd, by `Type=notify`) is told: that the broker serves, and that it stops.

use sd_notify::NotifyState;

/// Tells it, if one has started the program and wants to know. What cannot be told is in the log: the broker serves all the same.
pub(crate) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "the service manager cannot be told what the broker does");
    }
}
