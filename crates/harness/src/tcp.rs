//! TCP options from the 2008 paper (sections 4.1 and 5.3): Nagle, socket buffers, congestion control, and the queue limit.
//!
//! They are always set on our clients, and on a broker only if this program starts it. Reported values are those observed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;

use client::{Table, Url, Value};
use gauge::{HostEnvironment, observed_socket_options};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use crate::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use crate::limits::SOCKET_BUFFER_BYTES_MAX;

/// For commands whose queues can be limited; the socket options are in `measure_options::TARGETS`.
pub const QUEUE: &[OptionSpec] = &[option(
    "queue-bytes",
    None,
    "N",
    "declare queues with x-max-length-bytes=N (RabbitMQ's; others may refuse or ignore it)",
)];

/// The requested options; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpOptions {
    /// Nagle's algorithm is on.
    pub nagle: bool,
    /// `SO_SNDBUF`.
    pub send_buffer_bytes: Option<u64>,
    /// `SO_RCVBUF`.
    pub receive_buffer_bytes: Option<u64>,
    pub congestion: Option<String>,
    /// `x-max-length-bytes` of queues.
    pub queue_bytes: Option<u64>,
}

impl TcpOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// A number out of bounds, or an unknown congestion control.
    pub fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let bytes = |name: &str| given.number_if_given(name, 1, SOCKET_BUFFER_BYTES_MAX);
        let congestion = given.text("congestion").map(str::to_owned);
        if let Some(name) = &congestion {
            let known = HostEnvironment::read().congestion_controls;
            if !known.contains(name) {
                let known = known.join(", ");
                return Err(UsageError(format!("--congestion: this kernel has no '{name}' (it has {known})")));
            }
        }
        Ok(Self {
            nagle: given.has("nagle"),
            send_buffer_bytes: bytes("send-buffer-bytes")?,
            receive_buffer_bytes: bytes("receive-buffer-bytes")?,
            congestion,
            queue_bytes: given.number_if_given("queue-bytes", 1, u64::MAX >> 1)?,
        })
    }

    /// Adds these options to a URL as parameters; parameters that the URL has already take precedence.
    ///
    /// # Errors
    /// A Unix socket with TCP options.
    pub(crate) fn on_url(&self, url: &str) -> Result<String, String> {
        let is_unix = url.starts_with("amqp+unix:");
        if is_unix && (self.nagle || self.congestion.is_some()) {
            return Err(format!(
                "{}: --nagle and --congestion are TCP options, and this is a Unix socket",
                host_of(url)
            ));
        }
        let is_set =
            self.nagle || self.congestion.is_some() || self.send_buffer_bytes.or(self.receive_buffer_bytes).is_some();
        if url.starts_with("amqp+rdma://") && is_set {
            return Err(format!("{}: socket options do not apply to RDMA", host_of(url)));
        }
        let mut parameters = Vec::new();
        if self.nagle {
            parameters.push("nodelay=false".to_owned());
        }
        parameters.extend(self.send_buffer_bytes.map(|bytes| format!("send_buffer_bytes={bytes}")));
        parameters.extend(self.receive_buffer_bytes.map(|bytes| format!("receive_buffer_bytes={bytes}")));
        parameters.extend(self.congestion.as_ref().map(|name| format!("congestion={name}")));
        if parameters.is_empty() {
            return Ok(url.to_owned());
        }
        // The last occurrence of a parameter counts, so the URL's own ones are appended.
        let (before, own) = url.split_once('?').unwrap_or((url, ""));
        parameters.extend((!own.is_empty()).then(|| own.to_owned()));
        Ok(format!("{before}?{}", parameters.join("&")))
    }

    /// The same as options of `harrier broker`.
    pub fn broker_words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut set = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        if self.nagle {
            set("tcp-nodelay", "false".to_owned());
        }
        if let Some(bytes) = self.send_buffer_bytes {
            set("send-buffer-bytes", bytes.to_string());
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            set("receive-buffer-bytes", bytes.to_string());
        }
        if let Some(name) = &self.congestion {
            set("tcp-congestion", name.clone());
        }
        words
    }

    /// Sets buffers and congestion control of one of this program's own sockets (baselines).
    ///
    /// # Errors
    /// The error of the system.
    pub fn set_on(&self, socket: &impl AsFd) -> std::io::Result<()> {
        if let Some(bytes) = self.send_buffer_bytes {
            setsockopt(socket, sockopt::SndBuf, &(bytes as usize))?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            setsockopt(socket, sockopt::RcvBuf, &(bytes as usize))?;
        }
        if let Some(name) = &self.congestion {
            setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name))?;
        }
        Ok(())
    }

    /// A note on `--queue-bytes` with this broker.
    pub fn queue_note(&self, product: Option<&str>) -> Option<String> {
        let bytes = self.queue_bytes?;
        Some(match product {
            Some("Harrier" | "RabbitMQ" | "LavinMQ") => {
                format!(
                    "queues hold at most {bytes} bytes: what is over that is dropped from their heads and counts as lost"
                )
            }
            _ => format!(
                "queues were declared with x-max-length-bytes={bytes}; whether this broker acts on it is not known"
            ),
        })
    }

    /// TCP facts of a target for the document. `started`: this program started the broker with `broker_words`. The broker's socket
    /// options are observed while a client is connected; what cannot be observed (Nagle at a running broker) is left out.
    pub fn facts(&self, url: &str, started: bool) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        let Ok(parsed) = Url::parse(url) else { return facts };
        let Some((host, port)) = parsed
            .address
            .rsplit_once(':')
            .filter(|_| !["unix:", "amqp+rdma:"].iter().any(|other| parsed.address.starts_with(other)))
        else {
            return facts;
        };
        let mut note = |name: &str, value: String| facts.insert(name.to_owned(), value);
        note("client_nodelay", parsed.socket.tcp_nodelay.unwrap_or(true).to_string());
        let bytes = |bytes: Option<usize>| bytes.map_or_else(|| "system".to_owned(), |bytes| bytes.to_string());
        note("client_send_buffer_bytes", bytes(parsed.socket.send_buffer_bytes));
        note("client_receive_buffer_bytes", bytes(parsed.socket.receive_buffer_bytes));
        note("client_congestion_control", parsed.socket.tcp_congestion.unwrap_or_else(|| "system".to_owned()));
        if started {
            note("nodelay", (!self.nagle).to_string());
            note("send_buffer_bytes", bytes(self.send_buffer_bytes.map(|bytes| bytes as usize)));
            note("receive_buffer_bytes", bytes(self.receive_buffer_bytes.map(|bytes| bytes as usize)));
        }
        let is_here = ["127.", "[::1]", "localhost"].iter().any(|here| host.starts_with(here));
        if let (true, Ok(port)) = (is_here, port.parse())
            && let Some(name) = observed_socket_options(port).remove("congestion_control")
        {
            note("congestion_control", name);
        }
        facts
    }
}

/// Arguments of a queue with a limit on its bytes.
pub fn queue_arguments(queue_bytes: Option<u64>) -> Table {
    let limit = queue_bytes.map(|bytes| Value::I64(i64::try_from(bytes).unwrap_or(i64::MAX)));
    let limited = limit.and_then(|limit| Table::new().with("x-max-length-bytes", limit).ok());
    limited.unwrap_or_default()
}

/// The address of a URL, without login.
fn host_of(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "this URL".to_owned(), |url| url.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure_options::TARGETS;

    fn read(line: &str) -> Result<TcpOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        TcpOptions::read(&ParsedOptions::parse(&words, &[TARGETS, QUEUE])?)
    }

    #[test]
    fn options_become_parameters_and_words() {
        let name = HostEnvironment::read().congestion_control;
        let all = format!("--nagle --send-buffer-bytes 1000 --receive-buffer-bytes 2000 --congestion {name}");
        let options = read(&all).expect("nothing is wrong");
        let url = options.on_url("amqp://u:p@h:1/v?heartbeat=5&nodelay=true").expect("TCP");
        let parsed = Url::parse(&url).expect("still an address");
        assert_eq!((parsed.address.as_str(), parsed.vhost.as_str(), parsed.password.as_str()), ("h:1", "v", "p"));
        assert_eq!(parsed.socket.tcp_nodelay, Some(true), "the URL's own word holds");
        assert_eq!(parsed.socket.send_buffer_bytes, Some(1_000));
        assert_eq!(parsed.socket.receive_buffer_bytes, Some(2_000));
        assert_eq!(parsed.socket.tcp_congestion.as_deref(), Some(name.as_str()));
        let words = options.broker_words().join(" ");
        let expected =
            format!("--tcp-nodelay false --send-buffer-bytes 1000 --receive-buffer-bytes 2000 --tcp-congestion {name}");
        assert_eq!(words, expected);
    }

    #[test]
    fn default_options_change_nothing() {
        let options = read("").expect("nothing is wrong");
        assert_eq!(options, TcpOptions::default());
        assert_eq!(options.on_url("amqp://h?x=1").as_deref(), Ok("amqp://h?x=1"));
        assert!(options.broker_words().is_empty() && queue_arguments(options.queue_bytes).is_empty());
        assert_eq!(options.queue_note(Some("RabbitMQ")), None);
    }

    #[test]
    fn invalid_options_are_refused() {
        let wrong = read("--congestion none-such").expect_err("no kernel has it").0;
        assert!(wrong.starts_with("--congestion: this kernel has no 'none-such' (it has "), "{wrong}");
        assert!(read("--send-buffer-bytes 0").is_err());
        let unix = read("--nagle").expect("fine for TCP").on_url("amqp+unix:/run/x.sock");
        assert_eq!(
            unix,
            Err("unix:/run/x.sock: --nagle and --congestion are TCP options, and this is a Unix socket".to_owned())
        );
        let rdma = read("--send-buffer-bytes 1000").expect("fine for sockets").on_url("amqp+rdma://h");
        assert_eq!(rdma, Err("amqp+rdma://h:5672: socket options do not apply to RDMA".to_owned()));
        assert_eq!(read("").expect("fine").on_url("amqp+rdma://h").as_deref(), Ok("amqp+rdma://h"));
        assert!(TcpOptions::default().facts("amqp+rdma://h", true).is_empty());
        let buffers = read("--send-buffer-bytes 1000").expect("fine").on_url("amqp+unix:/run/x.sock");
        assert_eq!(buffers.as_deref(), Ok("amqp+unix:/run/x.sock?send_buffer_bytes=1000"));
    }

    #[test]
    fn queue_limits_say_what_they_are_worth() {
        let options = read("--queue-bytes 1000").expect("nothing is wrong");
        assert_eq!(queue_arguments(options.queue_bytes).get("x-max-length-bytes"), Some(&Value::I64(1_000)));
        let note = |product: Option<&str>| options.queue_note(product).expect("there is something to say");
        assert!(note(Some("RabbitMQ")).contains("dropped"));
        assert!(note(Some("Harrier")).contains("counts as lost"));
        assert!(note(None).contains("not known"));
    }

    #[test]
    fn facts_contain_options_and_results() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let _client = std::net::TcpStream::connect(address).expect("it listens");
        let (accepted, _) = listener.accept().expect("a client waits");
        let facts = TcpOptions::default().facts(&format!("amqp://{address}?nodelay=false"), false);
        assert_eq!(facts.get("client_nodelay").map(String::as_str), Some("false"));
        assert_eq!(facts.get("congestion_control"), Some(&HostEnvironment::read().congestion_control));
        let reno = TcpOptions { congestion: Some("reno".to_owned()), ..TcpOptions::default() };
        reno.set_on(&accepted).expect("every kernel has it");
        let facts = reno.facts(&format!("amqp://{address}"), false);
        assert_eq!(
            facts.get("congestion_control").map(String::as_str),
            Some("reno"),
            "as it was found, not as it was asked"
        );
        assert_eq!(facts.get("nodelay"), None, "nobody can see it from outside");
        assert!(TcpOptions::default().facts("amqp+unix:/run/x.sock", true).is_empty());
    }
}
