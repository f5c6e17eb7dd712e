//! The management API over TLS: who may trust it, what it says of itself, and its certificates after a signal.

use super::{BrokerProcess, PATIENCE, field, output, wait_until};
use crate::certificates::Authority;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Status and body of what a client gets who trusts an authority.
fn get(address: &str, authority: &Authority, target: &str) -> std::io::Result<(u16, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&authority.ca).expect("a certificate")).expect("it is trusted");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connection = ClientConnection::new(Arc::new(config.with_no_client_auth()), name).expect("a client");
    let socket = TcpStream::connect(address.strip_prefix("https://").expect("it has TLS"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(connection, socket);
    // guest:guest
    let login = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=";
    write!(stream, "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{login}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    Ok((head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned()))
}

#[test]
fn the_api_and_metrics_are_served_over_tls_with_certificates_that_are_read_again() {
    let (authority, other) = (Authority::new("management-tls"), Authority::new("management-tls-other"));
    let server = authority.issue("server", &["127.0.0.1"]);
    let (certificate, key) = (shown(&server.certificate), shown(&server.key));
    let words = [
        &["--listen", "127.0.0.1:0", "--management-listen", "https://127.0.0.1:0"][..],
        &["--metrics-listen", "https://127.0.0.1:0", "--management-tls-certificates", &certificate],
        &["--management-tls-keys", &key],
    ];
    let broker = BrokerProcess::start(&words.concat());
    let addresses = field(&broker.ready, "management");
    let (api, metrics) = addresses.split_once(' ').expect("two addresses");
    let (status, overview) = get(api, &authority, "/api/overview").expect("an answer");
    let overview: Value = serde_json::from_str(&overview).expect("JSON");
    let protocols = overview["listeners"].as_array().expect("a list").iter();
    let protocols: Vec<_> = protocols.filter_map(|of| of["protocol"].as_str()).collect();
    assert_eq!((status, protocols), (200, vec!["amqp", "https", "https/prometheus"]));
    assert_eq!(
        (&overview["contexts"][0]["ssl"], &overview["contexts"][0]["protocol"]),
        (&true.into(), &"https".into())
    );
    let (_, text) = get(metrics, &authority, "/metrics").expect("metrics");
    assert!(text.contains("\nrabbitmq_connections 0\n"), "{text}");
    let port = api.rsplit(':').next().expect("a port");
    for (check, status, told) in [
        (format!("port-listener/{port}"), 200, ""),
        ("protocol-listener/https,https%2Fprometheus".to_owned(), 200, ""),
        ("protocol-listener/http".to_owned(), 503, "\"missing\":\"http\""),
        ("certificate-expiration/1/days".to_owned(), 200, ""),
        ("certificate-expiration/9000/years".to_owned(), 503, "\"protocol\":\"https\""),
    ] {
        let (found, body) = get(api, &authority, &format!("/api/health/checks/{check}")).expect("an answer");
        assert_eq!(found, status, "{check}: {body}");
        assert!(body.contains(told), "{check}: {body}");
    }
    get(api, &other, "/api/whoami").expect_err("another authority is not trusted");
    let fresh = other.issue("server", &["127.0.0.1"]);
    std::fs::copy(&fresh.certificate, &server.certificate).expect("copies");
    std::fs::copy(&fresh.key, &server.key).expect("copies");
    broker.signal(rustix::process::Signal::HUP);
    broker.await_line("certificates were reloaded");
    wait_until("the new certificate", || get(api, &other, "/api/whoami").is_ok(), || api.to_owned());
    get(api, &authority, "/api/whoami").expect_err("the old authority is not that of the new certificate");
}

#[test]
fn an_https_address_without_a_certificate_is_told_with_its_setting() {
    let words = ["broker", "--state", "none", "--listen", "127.0.0.1:0", "--management-listen", "https://127.0.0.1:0"];
    for (more, told) in [
        (
            &[][..],
            "--management-listen: an address with https needs management_tls_certificates and management_tls_keys",
        ),
        (&["--management-tls-keys", "/nowhere.key"], "--management-tls-keys: there are 0 certificates and 1 keys"),
        (
            &["--management-tls-keys", "/nowhere.key", "--management-tls-certificates", "/nowhere.pem"],
            "--management-tls-certificates: /nowhere.pem",
        ),
        (&["--tls-keys", "/nowhere.key", "--tls-certificates", "/nowhere.pem"], "--tls-certificates: /nowhere.pem"),
    ] {
        let ended = output(&[&words[..], more].concat());
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{text}");
        assert!(text.contains(told), "{more:?}: {text}");
    }
}
