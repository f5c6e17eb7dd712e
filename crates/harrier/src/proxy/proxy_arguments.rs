//! Command-line options of `harrier proxy`, with their ranges.

use cli::ArgMatches;
use client::Url;
use config::{LogFormat, LogLevel};
use link::{CertificateFiles, TlsClient, TlsServer, TlsServerOptions};
use proxy::{ProxyOptions, UpstreamAddress, limits};
use std::path::Path;
use std::time::Duration;

/// Longest time that an option accepts, in seconds.
const SECONDS_MAX: usize = 24 * 3600;

/// A proxy's options, and those of its log.
pub struct ProxyArguments {
    pub options: ProxyOptions,
    /// Where and as whom the proxy fetches a token for each connection, if it does.
    pub login: Option<Url>,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
}

fn number(given: &ArgMatches, option: &str, least: usize, most: usize) -> Result<Option<usize>, String> {
    let Some(text) = cli::text(given, option) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.map(Some).ok_or_else(|| format!("--{option} {text}: expected a number from {least} to {most}"))
}

fn seconds(given: &ArgMatches, option: &str, least: usize) -> Result<Option<Duration>, String> {
    let seconds = number(given, option, least, SECONDS_MAX)?;
    Ok(seconds.map(|seconds| Duration::from_secs(seconds as u64)))
}

impl ProxyArguments {
    pub fn of(given: &ArgMatches) -> Result<Self, String> {
        let listen = cli::texts(given, "listen");
        let (to, login) = match (cli::text(given, "to"), cli::text(given, "to-file")) {
            (Some(text), None) => broker(text).map_err(|why| format!("--to: {why}"))?,
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file).map_err(|error| format!("--to-file: {file}: {error}"))?;
                broker(text.trim()).map_err(|why| format!("--to-file: {why}"))?
            }
            (Some(_), Some(_)) => return Err("--to and --to-file exclude each other".to_owned()),
            (None, None) => return Err("--to is missing: where is the broker?".to_owned()),
        };
        if listen.is_empty() {
            return Err("--listen is missing: where do clients connect?".to_owned());
        }
        if listen.len() > limits::LISTENERS_MAX {
            return Err(format!("--listen: at most {} addresses", limits::LISTENERS_MAX));
        }
        let mut options = ProxyOptions::to(to);
        for address in &listen {
            options.listen.push(address.parse().map_err(|error| format!("--listen: {error}"))?);
        }
        if let Some(threads) = number(given, "threads", 1, limits::THREADS_MAX)? {
            options.threads = threads;
        }
        if let Some(connections_max) = number(given, "connections-max", 1, limits::CONNECTIONS_MAX)? {
            options.connections_max = connections_max;
        }
        if let Some(timeout) = seconds(given, "dial-timeout-s", 1)? {
            options.dial.timeout = timeout;
        }
        if let Some(timeout) = seconds(given, "drain-timeout-s", 0)? {
            options.drain_timeout = timeout;
        }
        options.stats_every = seconds(given, "stats-s", 0)?.filter(|every| !every.is_zero());
        options.tls = certificate(given, &options)?;
        if let Some(ca) = cli::text(given, "ca") {
            if !matches!(options.to, UpstreamAddress::Socket(link::Address::Tls { .. })) {
                return Err("--ca is for a broker at amqps:// only".to_owned());
            }
            let trust = TlsClient::new(Some(Path::new(ca)), None, None);
            options.trust = Some(trust.map_err(|error| format!("--ca: {error}"))?);
        }
        let log_level = match cli::text(given, "log-level") {
            Some("error") => LogLevel::Error,
            Some("warn") => LogLevel::Warn,
            Some("info") | None => LogLevel::Info,
            Some("debug") => LogLevel::Debug,
            Some("trace") => LogLevel::Trace,
            Some(other) => return Err(format!("--log-level {other}: expected error, warn, info, debug or trace")),
        };
        let log_format = match cli::text(given, "log-format") {
            Some("text") | None => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => return Err(format!("--log-format {other}: expected text or json")),
        };
        Ok(ProxyArguments { options, login, log_level, log_format })
    }
}

/// The broker's address, and the login that fetches tokens for RDMA.
fn broker(text: &str) -> Result<(UpstreamAddress, Option<Url>), String> {
    if !text.starts_with("amqp+rdma://") || !text.contains(['?', '@']) {
        return Ok((text.parse().map_err(|error: proxy::UpstreamAddressError| error.to_string())?, None));
    }
    let has_login = text.split('?').next().is_some_and(|place| place.contains('@'));
    // The error leaves the text out, since it may contain a password.
    let hidden = |error: client::ClientError| error.to_string().replace(text, "amqp+rdma://…");
    let url = Url::parse(text).map_err(hidden)?;
    if url.fallback_to_tcp {
        return Err("a proxy does not fall back to TCP".to_owned());
    }
    if url.via.is_some() != has_login {
        let why = "user and password go with via=tcp or via=tls, and are the proxy's own, to fetch tokens";
        return Err(why.to_owned());
    }
    let to = url.address.parse().map_err(|error: proxy::UpstreamAddressError| error.to_string())?;
    Ok((to, url.via.is_some().then_some(url)))
}

/// The certificate for TLS listeners.
fn certificate(given: &ArgMatches, options: &ProxyOptions) -> Result<Option<TlsServer>, String> {
    let wanted = options.listen.iter().any(|address| matches!(address, link::Address::Tls { .. }));
    let files = match (cli::text(given, "tls-certificate"), cli::text(given, "tls-key")) {
        (Some(certificate), Some(key)) => Some(CertificateFiles { certificate: certificate.into(), key: key.into() }),
        (None, None) => None,
        _ => return Err("--tls-certificate and --tls-key go together".to_owned()),
    };
    match (wanted, files) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err("--tls-certificate: no address to listen at has TLS".to_owned()),
        (true, None) => Err("--listen: an address with TLS needs --tls-certificate and --tls-key".to_owned()),
        (true, Some(files)) => {
            let server = TlsServer::new(TlsServerOptions { certificates: vec![files], ..TlsServerOptions::default() });
            server.map(Some).map_err(|error| format!("--tls-certificate: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProxyArguments;
    use cli::WordsError;

    fn read(words: &[&str]) -> Result<ProxyArguments, String> {
        match cli::parse(crate::proxy::command(), words) {
            Ok(given) => ProxyArguments::of(&given),
            Err(WordsError::Usage(why) | WordsError::Words(why) | WordsError::Help(why)) => Err(why),
        }
    }

    fn check(words: &str, expect: &str) {
        let words: Vec<_> = words.split_whitespace().collect();
        let found = match read(&words) {
            Ok(ProxyArguments { options, log_format, .. }) => {
                let listen: Vec<_> = options.listen.iter().map(ToString::to_string).collect();
                let (listen, to, threads) = (listen.join(" "), &options.to, options.threads);
                let (most, dial_s, drain_s) =
                    (options.connections_max, options.dial.timeout.as_secs(), options.drain_timeout.as_secs());
                format!("{listen} to {to}, {threads} x {most}, {dial_s} {drain_s} {log_format:?}")
            }
            Err(why) => format!("! {why}"),
        };
        assert_eq!(found, expect, "{words:?}");
    }

    #[test]
    fn tokens_are_fetched_where_the_address_says() {
        let login = |to: &str| match read(&["--listen", "h:7", "--to", to]) {
            Ok(ProxyArguments { options, login: Some(url), .. }) => {
                format!("{} via {} as {} in {}", options.to, url.via.unwrap_or_default(), url.user, url.vhost)
            }
            Ok(ProxyArguments { options, login: None, .. }) => format!("{} directly", options.to),
            Err(why) => format!("! {why}"),
        };
        let cases = [
            ("amqp+rdma://h", "amqp+rdma://h:5672 directly"),
            ("amqp+rdma://h?via=direct", "amqp+rdma://h:5672 directly"),
            ("amqp+rdma://c:s@h:7/v?via=tcp", "amqp+rdma://h:7 via h:7 as c in v"),
            ("amqp+rdma://c:s@h:7/v?via=tcp:8", "amqp+rdma://h:7 via h:8 as c in v"),
            ("amqp+rdma://c:s@h:7?via=tls", "amqp+rdma://h:7 via tls://h:5671 as c in /"),
            (
                "amqp+rdma://c:s@h",
                "! --to: user and password go with via=tcp or via=tls, and are the proxy's own, to fetch tokens",
            ),
            (
                "amqp+rdma://h?via=tcp",
                "! --to: user and password go with via=tcp or via=tls, and are the proxy's own, to fetch tokens",
            ),
            ("amqp+rdma://c:s@h?via=tcp&fallback=tcp", "! --to: a proxy does not fall back to TCP"),
        ];
        for (to, expect) in cases {
            assert_eq!(login(to), expect, "{to}");
        }
        let wrong = login("amqp+rdma://c:secret@h?via=pigeon");
        assert!(wrong.starts_with("! --to: ") && !wrong.contains("secret"), "{wrong}");
    }

    #[test]
    fn words_are_understood_or_told() {
        check(
            "--listen 127.0.0.1:5672 --to amqp+rdma://broker",
            "127.0.0.1:5672 to amqp+rdma://broker:5672, 1 x 256, 10 10 Text",
        );
        check(
            "--listen=[::1]:1 --listen unix:/run/a --to h:7 --threads 3 --connections-max=9 --dial-timeout-s 2 --drain-timeout-s 0 --log-format json",
            "[::1]:1 unix:/run/a to h:7, 3 x 9, 2 0 Json",
        );
        check("--to h:7", "! --listen is missing: where do clients connect?");
        check("--listen h:7", "! --to is missing: where is the broker?");
        check("--listen 7 --to h:7", "! --listen: '7' is no address: the port is missing (host:port, or unix:/path)");
        check("--listen h:7 --to h:7 --to h:8", "! --to is given twice");
        check("--listen h:7 --to", "! --to needs a value");
        check("--listen h:7 --to h:7 --threads 0", "! --threads 0: expected a number from 1 to 64");
        check("--listen h:7 --to h:7 --dial-timeout-s 0", "! --dial-timeout-s 0: expected a number from 1 to 86400");
        check("--listen h:7 --to h:7 --poll busy", "! unknown option '--poll'");
        check("--listen tls://h:7 --to h:7", "! --listen: an address with TLS needs --tls-certificate and --tls-key");
        check("--listen h:7 --to h:7 --tls-key k", "! --tls-certificate and --tls-key go together");
        check("--listen h:7 --to h:7 --ca ca.pem", "! --ca is for a broker at amqps:// only");
        check(
            "--listen h:7 --to amqps://h --ca /none",
            "! --ca: /none: cannot be read: No such file or directory (os error 2)",
        );
        check(
            "--listen h:7 --to h:7 --log-level loud",
            "! --log-level loud: expected error, warn, info, debug or trace",
        );
        check(
            "--listen h:7 --to amqp://a:b@h",
            "! --to: 'amqp://…': a proxy takes no user, password or parameters: they are the client's own",
        );
    }
}
