//! `harrier proxy`: carries clients of this host to a broker over another transport.
//!
//! Exit status: 0 after an orderly end, 1 for a failure, 2 for wrong usage.

mod device_source;
mod proxy_arguments;
mod token_source;

use crate::process::{Signals, raise_open_files};
use crate::{greeting, log, tls};
use cli::{ArgAction, Command, valued};
use cli::{given, print_error, usage_error};
use proxy::{Proxy, ProxyOptions, ProxyStartError, RdmaUpstreamOptions};
use proxy_arguments::ProxyArguments;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

/// Files that a proxy opens beside its connections: a conservative estimate.
const OTHER_FILES: u64 = 64;

const USAGE: &str = "harrier proxy --listen ADDRESS [--listen ADDRESS]... --to BROKER [OPTIONS]";

const DESCRIPTION: &str = "\
Carries clients that know TCP, TLS or Unix sockets only, from their own host to a broker over another
transport. Bytes pass unchanged in both directions, and so does the way in which a connection ends.";

const BEHIND: &str = "\
The broker sees the proxy's address, not the client's. If it admits the default user only from its own
host, clients of a proxy on another host need another user.

Examples:
  harrier proxy --listen 127.0.0.1:5672 --to amqp+rdma://broker
  harrier proxy --listen 127.0.0.1:5672 --listen unix:/run/amqp.sock --to amqp+rdma://10.0.0.1:5672
  harrier proxy --listen 127.0.0.1:5672 --to amqps://broker.example --ca ca.pem

Status: 0 after an orderly end, 1 if it cannot start (a port in use, no RDMA device) or fails, 2 for wrong usage.";

/// The command as declared.
pub fn command() -> Command {
    let to = "amqp+rdma://HOST[:PORT], amqp://HOST[:PORT], amqps://HOST[:PORT], amqp+unix:/PATH; \
              amqp+rdma://USER:PASSWORD@HOST[:PORT]/VHOST?via=tls (or via=tcp) fetches a token for each connection there, \
              as a user of its own with the tag 'carrier'";
    Command::new("proxy")
        .about("connect clients of this host to a broker over another transport")
        .long_about(DESCRIPTION)
        .override_usage(USAGE)
        .after_help(BEHIND)
        .args([
            valued(
                "listen",
                "ADDRESS",
                "where clients connect: 127.0.0.1:5672, [::1]:5672, unix:/path, tls://127.0.0.1:5671",
            )
            .action(ArgAction::Append),
            valued("to", "BROKER", to),
            valued(
                "to-file",
                "FILE",
                "a file with the same in it, which keeps the password from other users of this host",
            ),
            valued("threads", "N", "threads, each with connections of its own; default: 1"),
            valued(
                "connections-max",
                "N",
                "connections at once; default: 256. Over RDMA each has 64 KiB of memory locked",
            ),
            valued("dial-timeout-s", "N", "time limit for a connection to the broker; default: 10"),
            valued("drain-timeout-s", "N", "time limit for draining connections after SIGTERM or SIGINT; default: 10"),
            valued("tls-certificate", "FILE", "the certificate of tls:// listeners"),
            valued("tls-key", "FILE", "its key"),
            valued("ca", "FILE", "trusted certificates for amqps://; default: the system's"),
            valued("stats-s", "N", "log totals every N seconds; default: 0, never"),
            valued(
                "log-level",
                "LEVEL",
                "error, warn, info, debug or trace; default: info, a line for each connection that ends",
            ),
            valued("log-format", "FORMAT", "text or json; default: text"),
        ])
}

/// Runs `harrier proxy`.
pub fn main(words: &[OsString]) -> ExitCode {
    let order = match given(command(), words).map(|given| ProxyArguments::of(&given)) {
        Ok(Ok(order)) => order,
        Ok(Err(why)) => return usage_error(&format!("proxy: {why}\n{}", cli::help(&command()))),
        Err(status) => return status,
    };
    match run(order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("harrier proxy: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(order: ProxyArguments) -> Result<(), ProxyStartError> {
    let ProxyArguments { mut options, login, log_level, log_format } = order;
    let _log = log::begin(log_level, log_format);
    let tokens = login.map(|login| token_source::fetched_from(login, options.dial.timeout));
    options.rdma = Some(RdmaUpstreamOptions {
        devices: Arc::new(device_source::towards),
        settings: verbs::PortSettings::for_client(),
        tokens,
    });
    let open_files_max = raise_open_files();
    let ProxyOptions { connections_max, threads, tls, .. } = options.clone();
    if open_files_max.is_some_and(|files| files < 2 * connections_max as u64 + OTHER_FILES) {
        tracing::warn!(connections_max, open_files_max, "the system allows too few open files for so many connections");
    }
    if let Some(tls) = &tls {
        tls::log_expiry_warnings(&tls.certificates());
    }
    // From here on signals are caught, and acted on once the proxy runs.
    let signals = Signals::catch()?;
    let to = options.to.to_string();
    let proxy = Proxy::start(options)?;
    let stopper = proxy.stopper();
    let meaning = "no more connections are accepted, and existing ones have time to end";
    signals.watch(meaning, move || stopper.stop(), move || tls.iter().for_each(tls::reload))?;
    tracing::info!(
        version = greeting::VERSION,
        addresses = proxy.addresses().join(" "),
        to,
        threads,
        connections_max,
        pid = std::process::id(),
        "harrier proxy is ready"
    );
    let totals = proxy.join()?;
    tracing::info!(
        accepted = totals.accepted,
        refused = totals.refused,
        unreachable = totals.unreachable,
        broken = totals.broken,
        to_broker_bytes = totals.to_upstream_bytes,
        to_client_bytes = totals.to_client_bytes,
        "harrier proxy has stopped"
    );
    Ok(())
}
