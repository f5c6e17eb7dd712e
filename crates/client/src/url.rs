//! Addresses of brokers: `amqp://user:password@host:port/vhost`, `amqps://`, `amqp+rdma://` and `amqp+unix:`.
//!
//! Enters: text.  Leaves: where to connect, as whom, to which virtual host, whom to trust.
//! Owns:   the notation (RabbitMQ's AMQP URI specification; `amqp+rdma` and `amqp+unix` are this project's).
//! Never:  connects, looks up names, prints a password.

use std::fmt;
use std::path::PathBuf;

use link::SocketOptions;

use crate::error::ClientError;

/// Where to connect, as whom, and to which virtual host.
///
/// - `amqp://guest:guest@127.0.0.1:5672/%2F`: TCP. User and password default to `guest`, the host to `127.0.0.1`, the
///   port to 5672, the virtual host to `/`; `amqp://host/` names the virtual host with the empty name.
/// - `amqps://host/%2F?cacertfile=ca.pem`: TLS, port 5671. The parameters are RabbitMQ's: `cacertfile` (without it the
///   system's certificates are trusted), `certfile` and `keyfile` (this client's own), `server_name_indication` (the name
///   the server must have, instead of the host), `verify` (only `verify_peer`), `auth_mechanism` (`plain`, or `external`
///   to be whom the client's certificate names). All but the last are for `amqps` alone.
/// - `amqp+rdma://host:port/%2F`: RDMA, port 5672. Among the parameters: `via=tcp` logs in by TCP at the same host and port,
///   `via=tls` by TLS at port 5671 of it (with the parameters of `amqps`), and comes over RDMA with the token that it is
///   given there; `via=tcp:7`, `via=tls:7` name another port; without it the client comes directly, and its password is
///   readable on the wire. `fallback=tcp` lets it be content with a connection by TCP (or the one that it has logged in by)
///   where there is no RDMA, and say why; without it, that is an error.
/// - `amqp+rsocket://host:5672/%2F`: as `amqp`, over librdmacm's streams, to an address of an RDMA device.
/// - `amqp+unix:/run/harrier.sock` or `amqp+unix://user:password@/run/harrier.sock?vhost=name`: a Unix socket.
///
/// Behind a `?` may stand what the socket shall be: `nodelay=false`, `congestion=cubic`, `send_buffer_bytes=65536`,
/// `receive_buffer_bytes=65536`, with `&` between them. It holds over `Options::socket`. Parameters that other clients
/// know are passed over in `amqp:` addresses.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// The address in the link's notation: `host:port`, `tls://host:port`, `amqp+rdma://host:port` or `unix:/path`.
    pub address: String,
    pub user: String,
    pub password: String,
    /// The virtual host.
    pub vhost: String,
    /// What the address says of the socket.
    pub socket: SocketOptions,
    /// Whether the client's certificate proves who it is (SASL EXTERNAL), instead of user and password.
    pub external: bool,
    /// Whom to trust, and what to show, over TLS.
    pub tls: TlsFiles,
    /// Of an address of RDMA: where to log in for a token, in the link's notation.
    pub via: Option<String>,
    /// Whether TCP will do where there is no RDMA.
    pub fallback_to_tcp: bool,
}

/// What TLS needs from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates that vouch for the server's; without it those that the system trusts.
    pub ca: Option<PathBuf>,
    /// This client's certificate.
    pub certificate: Option<PathBuf>,
    /// The key of this client's certificate.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must have; without it the host's.
    pub server_name: Option<String>,
}

/// How the link's notation begins for RDMA.
pub(crate) const RDMA: &str = "amqp+rdma://";

/// A way to a host.
struct UrlScheme {
    scheme: &'static str,
    /// How the link's notation begins.
    link: &'static str,
    port: u16,
}

const WAYS: [UrlScheme; 3] = [
    UrlScheme { scheme: "amqp://", link: "", port: 5672 },
    UrlScheme { scheme: "amqps://", link: "tls://", port: 5671 },
    UrlScheme { scheme: RDMA, link: RDMA, port: 5672 },
];

impl Url {
    /// Parses the text.
    ///
    /// # Errors
    /// `Error::Url` with what is wrong.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let wrong = |why: &str| ClientError::Url { why: format!("'{text}': {why}") };
        if let Some(rest) = text.strip_prefix("amqp+unix:") {
            return Self::unix(rest).map_err(|why| wrong(&why));
        }
        if let Some(rest) = text.strip_prefix("amqp+rsocket://") {
            // To a host and a port like TCP's.
            let tcp =
                Self::parse(&format!("amqp://{rest}")).map_err(|_| wrong("what stands behind :// is as of amqp"))?;
            return Ok(Self { address: format!("amqp+rsocket://{}", tcp.address), ..tcp });
        }
        let Some((way, rest)) = WAYS.iter().find_map(|way| Some((way, text.strip_prefix(way.scheme)?))) else {
            return Err(wrong("expected amqp://, amqps://, amqp+rdma:// or amqp+unix:"));
        };
        Self::host(rest, way).map_err(|why| wrong(&why))
    }

    fn host(rest: &str, way: &UrlScheme) -> Result<Self, String> {
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let mut socket = SocketOptions::default();
        for (name, value) in pairs(parameters) {
            set(&mut socket, name, value)?;
        }
        let (authority, vhost) = match rest.split_once('/') {
            Some((authority, vhost)) => (authority, decoded(vhost)?),
            None => (rest, "/".to_owned()),
        };
        if vhost.contains('/') && rest.split('/').count() > 2 {
            return Err("a slash in the virtual host is written %2F".to_owned());
        }
        let (user, password, place) = login(authority)?;
        let bracketed = place.starts_with('[');
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !bracketed || host.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("'{port}' is no port"))?)
            }
            _ => (place, way.port),
        };
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        let is_rdma = way.link == RDMA;
        let via = via_of(parameters, host, port, is_rdma)?;
        let secure = via.as_deref().unwrap_or(way.link).starts_with("tls://");
        let (tls, external) = parameters_of(parameters, secure)?;
        let fallback_to_tcp = fallback_of(parameters, is_rdma)?;
        let address = format!("{}{host}:{port}", way.link);
        Ok(Self { address, user, password, vhost, socket, external, tls, via, fallback_to_tcp })
    }

    fn unix(rest: &str) -> Result<Self, String> {
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        if !path.starts_with('/') {
            return Err("a Unix socket needs an absolute path".to_owned());
        }
        let mut vhost = "/".to_owned();
        let mut socket = SocketOptions::default();
        for (name, value) in pairs(parameters) {
            match name {
                "vhost" => vhost = decoded(value)?,
                "send_buffer_bytes" | "receive_buffer_bytes" => set(&mut socket, name, value)?,
                _ => return Err(format!("unknown parameter '{name}={value}'")),
            }
        }
        let (user, password, place) = login(authority)?;
        if !place.is_empty() {
            return Err("a Unix socket has no host".to_owned());
        }
        Ok(Self {
            address: format!("unix:{}", decoded(path)?),
            user,
            password,
            vhost,
            socket,
            external: false,
            tls: TlsFiles::default(),
            via: None,
            fallback_to_tcp: false,
        })
    }

    /// Of an address of RDMA: the same broker, where a token is given.
    pub(crate) fn login(&self) -> Option<Self> {
        Some(Self { address: self.via.clone()?, fallback_to_tcp: false, ..self.clone() })
    }

    /// Whether a token is wanted, for RDMA.
    pub(crate) fn wants_token(&self) -> bool {
        self.via.as_deref() == Some(&*self.address)
    }

    /// The same broker by TCP, at the same host and port, where RDMA was asked for.
    pub(crate) fn by_tcp(&self) -> Option<Self> {
        let place = self.address.strip_prefix(RDMA)?;
        Some(Self { address: place.to_owned(), fallback_to_tcp: false, ..self.clone() })
    }

    /// What the socket shall be: as the address says, and where it says nothing, as `usual` says.
    pub(crate) fn socket_over(&self, usual: &SocketOptions) -> SocketOptions {
        SocketOptions {
            tcp_nodelay: self.socket.tcp_nodelay.or(usual.tcp_nodelay),
            tcp_congestion: self.socket.tcp_congestion.clone().or_else(|| usual.tcp_congestion.clone()),
            send_buffer_bytes: self.socket.send_buffer_bytes.or(usual.send_buffer_bytes),
            receive_buffer_bytes: self.socket.receive_buffer_bytes.or(usual.receive_buffer_bytes),
        }
    }
}

/// The parameters behind the `?`; one without `=` has no value.
fn pairs(parameters: &str) -> impl Iterator<Item = (&str, &str)> {
    let written = parameters.split('&').filter(|parameter| !parameter.is_empty());
    written.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
}

/// Sets what a parameter says of the socket; others say nothing of it.
fn set(socket: &mut SocketOptions, name: &str, value: &str) -> Result<(), String> {
    let bytes = || match value.parse() {
        Ok(bytes) if bytes > 0 => Ok(Some(bytes)),
        _ => Err(format!("'{name}={value}' is no number of bytes")),
    };
    match name {
        "nodelay" => {
            let nodelay = value.parse().map_err(|_| "nodelay is true or false".to_owned())?;
            socket.tcp_nodelay = Some(nodelay);
        }
        "congestion" => socket.tcp_congestion = Some(decoded(value)?),
        "send_buffer_bytes" => socket.send_buffer_bytes = bytes()?,
        "receive_buffer_bytes" => socket.receive_buffer_bytes = bytes()?,
        _ => {}
    }
    Ok(())
}

/// What the parameters behind the question mark ask for. Those of other clients are theirs, and let pass.
fn parameters_of(parameters: &str, secure: bool) -> Result<(TlsFiles, bool), String> {
    let (mut tls, mut external) = (TlsFiles::default(), false);
    for (name, value) in parameters.split('&').filter_map(|parameter| parameter.split_once('=')) {
        let value = decoded(value)?;
        match (name, &*value) {
            ("auth_mechanism", "external") => external = true,
            ("auth_mechanism", "plain") => external = false,
            ("auth_mechanism", other) => return Err(format!("auth_mechanism is plain or external, not '{other}'")),
            ("verify", "verify_peer") => {}
            ("verify", _) => return Err("a server is always verified: verify is verify_peer".to_owned()),
            ("cacertfile", _) => tls.ca = Some(value.into()),
            ("certfile", _) => tls.certificate = Some(value.into()),
            ("keyfile", _) => tls.key = Some(value.into()),
            ("server_name_indication", _) => tls.server_name = Some(value),
            _ => {}
        }
    }
    if !secure && tls != TlsFiles::default() {
        return Err("files and names of TLS belong to amqps://".to_owned());
    }
    if tls.certificate.is_some() != tls.key.is_some() {
        return Err("certfile and keyfile belong together".to_owned());
    }
    Ok((tls, external))
}

/// Where to log in for a token.
fn via_of(parameters: &str, host: &str, port: u16, is_rdma: bool) -> Result<Option<String>, String> {
    let Some((_, value)) = pairs(parameters).find(|(name, _)| *name == "via") else { return Ok(None) };
    if !is_rdma {
        return Err("via belongs to amqp+rdma://".to_owned());
    }
    let (way, own) = value.split_once(':').map_or((value, None), |(way, own)| (way, Some(own)));
    let own = own.map(|own| own.parse::<u16>().map_err(|_| format!("'{own}' is no port"))).transpose()?;
    match way {
        "tcp" => Ok(Some(format!("{host}:{}", own.unwrap_or(port)))),
        "tls" => Ok(Some(format!("tls://{host}:{}", own.unwrap_or(WAYS[1].port)))),
        "direct" if own.is_none() => Ok(None),
        _ => Err(format!("via is tcp, tls or direct, with a port if need be, not '{value}'")),
    }
}

/// Whether TCP will do as well.
fn fallback_of(parameters: &str, is_rdma: bool) -> Result<bool, String> {
    match pairs(parameters).find(|(name, _)| *name == "fallback") {
        Some((_, "tcp")) if is_rdma => Ok(true),
        Some((_, "none")) | None => Ok(false),
        Some(_) if !is_rdma => Err("fallback belongs to amqp+rdma://".to_owned()),
        Some((_, other)) => Err(format!("fallback is tcp or none, not '{other}'")),
    }
}

/// User, password, and what follows the `@`.
fn login(authority: &str) -> Result<(String, String, &str), String> {
    let Some((login, place)) = authority.rsplit_once('@') else {
        return Ok(("guest".to_owned(), "guest".to_owned(), authority));
    };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Ok((decoded(user)?, decoded(password)?, place))
}

/// Undoes percent-encoding (RFC 3986 §2.1).
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let code = rest
            .first_chunk::<2>()
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(code.ok_or_else(|| "a % is followed by two hexadecimal digits".to_owned())?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8 after decoding".to_owned())
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({} as {}, vhost '{}')", self.address, self.user, self.vhost)
    }
}

#[cfg(test)]
mod tests {
    use super::{TlsFiles, Url};
    use link::SocketOptions;

    fn check(text: &str, expected: &str) {
        let shown = match Url::parse(text) {
            Ok(url) => format!("{} {}:{} {}", url.address, url.user, url.password, url.vhost),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn addresses_are_taken_apart() {
        check("amqp://", "127.0.0.1:5672 guest:guest /");
        check("amqp://host", "host:5672 guest:guest /");
        check("amqp://host:1/", "host:1 guest:guest ");
        check("amqp://u:p@host:1/%2F", "host:1 u:p /");
        check("amqp://u:p%40x@[::1]:7/a%20b?heartbeat=3", "[::1]:7 u:p@x a b");
        check("amqp://[::1]", "[::1]:5672 guest:guest /");
        check("amqps://host/%2F", "tls://host:5671 guest:guest /");
        check("amqps://[::1]:7", "tls://[::1]:7 guest:guest /");
        check("amqp+rdma://u:p@host/v", "amqp+rdma://host:5672 u:p v");
        check("amqp+rdma://[fe80::1]:7", "amqp+rdma://[fe80::1]:7 guest:guest /");
        check("amqp+unix:/run/h.sock", "unix:/run/h.sock guest:guest /");
        check("amqp+unix://u:p@/run/h.sock?vhost=x", "unix:/run/h.sock u:p x");
    }

    #[test]
    fn wrong_addresses_say_why() {
        check("http://host", "'http://host': expected amqp://, amqps://, amqp+rdma:// or amqp+unix:");
        check("amqp://host:x", "'amqp://host:x': 'x' is no port");
        check("amqp://host/a/b", "'amqp://host/a/b': a slash in the virtual host is written %2F");
        check("amqp://host/%2", "'amqp://host/%2': a % is followed by two hexadecimal digits");
        check("amqp+unix:run", "'amqp+unix:run': a Unix socket needs an absolute path");
        check("amqp+unix:/run?x=1", "'amqp+unix:/run?x=1': unknown parameter 'x=1'");
    }

    #[test]
    fn tcp_will_do_only_when_that_is_said() {
        let fallback =
            |text: &str| Url::parse(text).map(|url| (url.fallback_to_tcp, url.by_tcp().map(|url| url.address)));
        let tcp = || Some("h:5672".to_owned());
        assert_eq!(fallback("amqp+rdma://h").expect("sound"), (false, tcp()));
        assert_eq!(fallback("amqp+rdma://h?heartbeat=3&fallback=tcp").expect("sound"), (true, tcp()));
        assert_eq!(fallback("amqp+rdma://h?fallback=none").expect("sound"), (false, tcp()));
        assert_eq!(fallback("amqp://h").expect("sound"), (false, None));
        check("amqp+rdma://h?fallback=x", "'amqp+rdma://h?fallback=x': fallback is tcp or none, not 'x'");
        check("amqp://h?fallback=tcp", "'amqp://h?fallback=tcp': fallback belongs to amqp+rdma://");
    }

    #[test]
    fn where_a_token_is_given() {
        let via = |text: &str| Url::parse(text).map(|url| url.via).map_err(|error| error.to_string());
        for (text, at) in [
            ("amqp+rdma://h:7", None),
            ("amqp+rdma://h:7?via=direct", None),
            ("amqp+rdma://h:7?via=tcp", Some("h:7")),
            ("amqp+rdma://h:7?via=tcp:8", Some("h:8")),
            ("amqp+rdma://h:7?via=tls&cacertfile=ca.pem", Some("tls://h:5671")),
            ("amqp+rdma://[fe80::1]:7?via=tls:8", Some("tls://[fe80::1]:8")),
        ] {
            assert_eq!(via(text), Ok(at.map(str::to_owned)), "{text}");
        }
        for (text, why) in [
            ("amqp://h?via=tcp", "via belongs to amqp+rdma://"),
            ("amqp+rdma://h?via=tcp:x", "'x' is no port"),
            ("amqp+rdma://h?via=unix", "via is tcp, tls or direct, with a port if need be, not 'unix'"),
            ("amqp+rdma://h?via=tcp&cacertfile=c", "files and names of TLS belong to amqps://"),
        ] {
            check(text, &format!("'{text}': {why}"));
        }
        let url = Url::parse("amqp+rdma://u:p@h:7/v?via=tcp").expect("sound");
        let login = url.login().expect("a place to log in");
        assert!(login.wants_token() && !url.wants_token());
        assert_eq!((&*login.address, &*login.user, &*login.vhost), ("h:7", "u", "v"));
    }

    #[test]
    fn what_the_socket_shall_be() {
        let socket = |text: &str| Url::parse(text).map(|url| url.socket).map_err(|error| error.to_string());
        let all =
            "amqp://h?nodelay=false&heartbeat=3&congestion=cubic&send_buffer_bytes=1000&receive_buffer_bytes=2000";
        let expected = SocketOptions {
            tcp_nodelay: Some(false),
            tcp_congestion: Some("cubic".to_owned()),
            send_buffer_bytes: Some(1_000),
            receive_buffer_bytes: Some(2_000),
        };
        assert_eq!(socket(all), Ok(expected.clone()));
        assert_eq!(socket("amqp://h/v?heartbeat=3"), Ok(SocketOptions::default()));
        assert_eq!(socket("amqp+unix:/s?send_buffer_bytes=7").map(|socket| socket.send_buffer_bytes), Ok(Some(7)));
        assert_eq!(socket("amqp://h?nodelay=1"), Err("'amqp://h?nodelay=1': nodelay is true or false".to_owned()));
        let none = "amqp://h?send_buffer_bytes=0";
        assert_eq!(socket(none), Err(format!("'{none}': 'send_buffer_bytes=0' is no number of bytes")));
        assert!(socket("amqp+unix:/s?congestion=cubic").is_err(), "a Unix socket has none");
        // The address holds over the options, which hold over nothing said.
        let url = Url::parse("amqp://h?congestion=reno&nodelay=true").expect("a good address");
        let over = url.socket_over(&expected);
        assert_eq!(
            over,
            SocketOptions { tcp_congestion: Some("reno".to_owned()), tcp_nodelay: Some(true), ..expected }
        );
    }

    #[test]
    fn parameters_of_tls() {
        let text = "amqps://h?cacertfile=/a%20b.pem&certfile=c&keyfile=k&server_name_indication=n&verify=verify_peer\
                    &auth_mechanism=external&heartbeat=3";
        let url = Url::parse(text).expect("a good address");
        let tls = TlsFiles {
            ca: Some("/a b.pem".into()),
            certificate: Some("c".into()),
            key: Some("k".into()),
            server_name: Some("n".into()),
        };
        assert_eq!((url.tls, url.external), (tls, true));
        for (text, why) in [
            ("amqps://h?verify=verify_none", "a server is always verified: verify is verify_peer"),
            ("amqps://h?certfile=c", "certfile and keyfile belong together"),
            ("amqp://h?cacertfile=c", "files and names of TLS belong to amqps://"),
            ("amqps://h?auth_mechanism=x", "auth_mechanism is plain or external, not 'x'"),
        ] {
            check(text, &format!("'{text}': {why}"));
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = Url::parse("amqp://u:secret@host").expect("a good address");
        assert!(!format!("{url:?}").contains("secret"));
    }
}
