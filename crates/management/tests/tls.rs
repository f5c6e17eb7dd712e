//! The API over TLS, asked by a client of TLS.

mod support;

use management::limits::ServerLimits;
use management::{ApiOptions, DirectRequests, HttpListener, ServedRoutes, ServerStopper, TlsConfigSource, serve};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use support::{basic, source};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

/// A server's configuration with a certificate of its own for `localhost`, and the certificate.
fn certified() -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let certificate = cert.der().clone();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate.clone()], key).expect("they belong together");
    (Arc::new(config), certificate)
}

/// A server with TLS, whose configuration may be exchanged.
struct SecureServer {
    address: SocketAddr,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    stopper: Option<ServerStopper>,
    thread: Option<JoinHandle<()>>,
}

impl SecureServer {
    fn start(config: Arc<ServerConfig>, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (stopper, stop) = ServerStopper::channel();
        let config = Arc::new(Mutex::new(config));
        let current = Arc::clone(&config);
        let tls = TlsConfigSource::new(move || Arc::clone(&current.lock().expect("nobody has failed")));
        let listeners = vec![HttpListener { listener, routes: ServedRoutes::All, tls: Some(tls) }];
        let run = move || {
            let (_, requests) = DirectRequests::channel();
            let source = Box::new(source());
            serve(listeners, requests, source, ApiOptions::default(), limits, stop).expect("the server runs");
        };
        Self { address, config, stopper: Some(stopper), thread: Some(std::thread::spawn(run)) }
    }

    /// The whole answer, over a connection that trusts this certificate alone.
    fn ask(&self, trusted: &CertificateDer<'static>, request: &str) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = StreamOwned::new(connection, TcpStream::connect(self.address)?);
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    fn stop(&mut self) {
        drop(self.stopper.take());
        self.thread.take().expect("it runs").join().expect("the server ends without a panic");
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{}\r\nConnection: close\r\n\r\n", basic("guest"))
}

#[test]
fn what_is_served_in_the_clear_is_served_over_tls() {
    let (config, certificate) = certified();
    let mut server = SecureServer::start(config, ServerLimits::default());
    let answer = server.ask(&certificate, &get("/api/whoami")).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(r#"{"name":"guest","tags":["administrator"]}"#));
    let long = server.ask(&certificate, &get("/api/definitions")).expect("an answer");
    assert!(long.contains("my orders"));
    // The cookie of a session never leaves TLS.
    let form = "username=guest&password=guest";
    let login = format!(
        "POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
        form.len()
    );
    let answer = server.ask(&certificate, &login).expect("an answer");
    assert!(answer.contains("HttpOnly; SameSite=Strict; Path=/; Secure\r\n"), "{answer}");
    // A client in the clear is understood by nobody.
    let mut plain = TcpStream::connect(server.address).expect("it listens");
    plain.write_all(get("/api/whoami").as_bytes()).expect("sent");
    let mut answer = Vec::new();
    let ended = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{ended:?} {}", answer.escape_ascii());
    server.stop();
}

#[test]
fn a_certificate_is_exchanged_while_the_server_runs() {
    let ((config, certificate), (next, next_certificate)) = (certified(), certified());
    let mut server = SecureServer::start(config, ServerLimits::default());
    assert!(server.ask(&certificate, &get("/api/whoami")).is_ok());
    assert!(server.ask(&next_certificate, &get("/api/whoami")).is_err(), "it is not trusted");
    *server.config.lock().expect("nobody has failed") = next;
    assert!(server.ask(&certificate, &get("/api/whoami")).is_err());
    assert!(server.ask(&next_certificate, &get("/api/whoami")).is_ok());
    server.stop();
}

#[test]
fn who_does_not_end_the_handshake_is_cut_off_and_counts_meanwhile() {
    let (config, certificate) = certified();
    let limits =
        ServerLimits { connections_max: 2, head_timeout: Duration::from_millis(200), ..ServerLimits::default() };
    let mut server = SecureServer::start(config, limits);
    let mut silent: Vec<_> = (0..2).map(|_| TcpStream::connect(server.address).expect("it listens")).collect();
    assert!(server.ask(&certificate, &get("/api/whoami")).is_err(), "there are two already");
    for stream in &mut silent {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "it is closed");
    }
    let answered = (0..10_000).any(|_| server.ask(&certificate, &get("/api/whoami")).is_ok());
    assert!(answered, "their places are free again");
    server.stop();
}
