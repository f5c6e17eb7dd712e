//! The addresses at which the management API and metrics are served.
//!
//! Enters: settings.  Leaves: bound listeners, and what the API says of them.

use config::{BrokerConfig, ConfigError, Origin};
use link::TlsServer;
use management::{HttpListener, ListenerFacts, ServedRoutes, TlsConfigSource};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

/// The word for no address.
const NOWHERE: &str = "none";
/// The setting of the addresses of the API, and that of the addresses of metrics.
const API: &str = "management_listen";
const METRICS: &str = "metrics_listen";
/// The setting of what stands in front of paths.
const PREFIX: &str = "management_path_prefix";

/// An address of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HttpAddress {
    address: SocketAddr,
    /// `https://`
    has_tls: bool,
}

/// Listeners that nobody serves yet.
#[derive(Default)]
pub struct BoundListeners {
    pub listeners: Vec<HttpListener>,
    pub facts: Vec<ListenerFacts>,
    /// Of those with TLS.
    pub tls: Option<TlsServer>,
}

/// Binds the addresses of the settings.
///
/// # Errors
/// An address is none, or cannot be bound. A default address that cannot be is left out, with a warning.
pub fn bind(config: &BrokerConfig) -> Result<BoundListeners, ConfigError> {
    let prefix = config.management_path_prefix.as_deref();
    if prefix.is_some_and(|prefix| !prefix.starts_with('/') || prefix.ends_with('/')) {
        return Err(config.fault(PREFIX, "it begins with a slash, and does not end with one"));
    }
    let api = addresses(config, API, &config.management_listen)?;
    let metrics = addresses(config, METRICS, &config.metrics_listen)?;
    let has_tls = |addresses: &[HttpAddress]| addresses.iter().any(|address| address.has_tls);
    let wanted_by = if has_tls(&api) { Some(API) } else { has_tls(&metrics).then_some(METRICS) };
    let mut bound =
        BoundListeners { tls: crate::tls::management_server(config, wanted_by)?, ..BoundListeners::default() };
    for (setting, address, routes) in served(&api, &metrics) {
        bound.add(config, setting, address, routes)?;
    }
    Ok(bound)
}

/// What is served where, and which setting says so. Two ports that are left to the system are two.
fn served(api: &[HttpAddress], metrics: &[HttpAddress]) -> Vec<(&'static str, HttpAddress, ServedRoutes)> {
    let is_both = |of: &HttpAddress| of.address.port() != 0 && api.contains(of) && metrics.contains(of);
    let routes = |address| if is_both(address) { ServedRoutes::All } else { ServedRoutes::Api };
    let api = api.iter().map(|address| (API, *address, routes(address)));
    let metrics = metrics.iter().filter(|address| !is_both(address));
    api.chain(metrics.map(|address| (METRICS, *address, ServedRoutes::Metrics))).collect()
}

fn addresses(config: &BrokerConfig, setting: &str, texts: &[String]) -> Result<Vec<HttpAddress>, ConfigError> {
    if texts.iter().any(|text| text == NOWHERE) {
        return match texts {
            [_] => Ok(Vec::new()),
            _ => Err(config.fault(setting, "'none' stands alone")),
        };
    }
    let address = |text: &String| {
        let (plain, has_tls) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (_, Some(rest)) => (rest, true),
            (Some(rest), None) => (rest, false),
            (None, None) => (&**text, false),
        };
        let found = plain.to_socket_addrs().map(|mut found| found.next());
        match found {
            Ok(Some(address)) => Ok(HttpAddress { address, has_tls }),
            Ok(None) => Err(config.fault(setting, format!("'{text}' has no address"))),
            Err(error) => Err(config.fault(setting, format!("'{text}' is no address with a port: {error}"))),
        }
    };
    texts.iter().map(address).collect()
}

impl BoundListeners {
    /// The addresses, for the log; `None`: there are none.
    pub fn addresses(&self) -> Option<String> {
        let mut addresses: Vec<_> =
            self.facts.iter().map(|facts| address_text(facts.protocol, &facts.ip_address, facts.port)).collect();
        addresses.dedup();
        (!addresses.is_empty()).then(|| addresses.join(" "))
    }

    fn add(
        &mut self,
        config: &BrokerConfig,
        setting: &str,
        HttpAddress { address, has_tls }: HttpAddress,
        routes: ServedRoutes,
    ) -> Result<(), ConfigError> {
        let bound = TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = match bound {
            Ok(bound) => bound,
            Err(error) if *config.origin(setting) == Origin::Default => {
                // Another program has it, or there is no such interface.
                tracing::warn!(setting, %address, %error, "the default address cannot be bound: nothing is served there");
                return Ok(());
            }
            Err(error) => return Err(config.fault(setting, format!("{address} cannot be bound: {error}"))),
        };
        let tls = self.tls.clone().filter(|_| has_tls);
        let certificate_expires_s = tls.as_ref().and_then(crate::tls::expires_s);
        let fact = |protocols: [&'static str; 2]| ListenerFacts {
            protocol: protocols[usize::from(has_tls)],
            ip_address: address.ip().to_string(),
            port: address.port(),
            certificate_expires_s,
        };
        if routes != ServedRoutes::Metrics {
            self.facts.push(fact(["http", "https"]));
        }
        if routes != ServedRoutes::Api {
            self.facts.push(fact(["http/prometheus", "https/prometheus"]));
        }
        let tls = tls.map(|tls| TlsConfigSource::new(move || tls.config()));
        self.listeners.push(HttpListener { listener, routes, tls });
        Ok(())
    }
}

fn address_text(protocol: &str, ip: &str, port: u16) -> String {
    let scheme = if protocol.starts_with("https") { "https://" } else { "" };
    if ip.contains(':') { format!("{scheme}[{ip}]:{port}") } else { format!("{scheme}{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::{API, HttpAddress, METRICS, address_text, bind, served};
    use config::{BrokerConfig, BrokerInvocation};
    use management::ServedRoutes;
    use std::net::TcpListener;

    fn config(words: &[&str]) -> BrokerConfig {
        match BrokerConfig::load_with(words.iter().map(Into::into), [], "/nowhere".as_ref()) {
            Ok(BrokerInvocation::Run(config)) => *config,
            other => panic!("{other:?}"),
        }
    }

    fn error(words: &[&str]) -> String {
        bind(&config(words)).map(|_| ()).expect_err("refused").to_string()
    }

    #[test]
    fn an_address_serves_what_it_is_given_for() {
        let words = ["--management-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
        let bound = bind(&config(&words)).expect("bound");
        let routes: Vec<_> = bound.listeners.iter().map(|listener| listener.routes).collect();
        assert_eq!(routes, [ServedRoutes::Api, ServedRoutes::Metrics]);
        let protocols: Vec<_> = bound.facts.iter().map(|facts| facts.protocol).collect();
        assert_eq!(protocols, ["http", "http/prometheus"]);
        assert!(bound.facts.iter().all(|facts| facts.port > 0));
        let addresses = bound.addresses().expect("there are two");
        assert_eq!(addresses.matches("127.0.0.1:").count(), 2, "{addresses}");
        let [one, two, three] = ["127.0.0.1:1", "[::1]:2", "127.0.0.1:3"]
            .map(|text| HttpAddress { address: text.parse().expect("sound"), has_tls: false });
        let secure = HttpAddress { has_tls: true, ..one };
        let expect =
            [(API, one, ServedRoutes::All), (API, two, ServedRoutes::Api), (METRICS, three, ServedRoutes::Metrics)];
        assert_eq!(served(&[one, two], &[three, one]), expect);
        let apart = [(API, one, ServedRoutes::Api), (METRICS, secure, ServedRoutes::Metrics)];
        assert_eq!(served(&[one], &[secure]), apart);
        assert_eq!(address_text("http", "::1", 2), "[::1]:2");
        assert_eq!(address_text("https/prometheus", "127.0.0.1", 2), "https://127.0.0.1:2");
        let nowhere = bind(&config(&["--management-listen", "none", "--metrics-listen", "none"])).expect("nothing");
        assert!(nowhere.listeners.is_empty() && nowhere.addresses().is_none());
    }

    #[test]
    fn an_address_that_cannot_be_served_is_told_with_its_setting() {
        let other = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let taken = other.local_addr().expect("it has an address").to_string();
        let told = error(&["--management-listen", &taken, "--metrics-listen", "none"]);
        assert!(told.starts_with(&format!("--management-listen: {taken} cannot be bound: ")), "{told}");
        let told = error(&["--metrics-listen", "15692", "--management-listen", "none"]);
        assert!(told.starts_with("--metrics-listen: '15692' is no address with a port: "), "{told}");
        let told = error(&["--management-listen", "none", "--management-listen", "127.0.0.1:0"]);
        assert_eq!(told, "--management-listen: 'none' stands alone");
        for prefix in ["mq", "/mq/", "/"] {
            let told = error(&["--management-path-prefix", prefix]);
            assert_eq!(told, "--management-path-prefix: it begins with a slash, and does not end with one");
        }
    }
}
