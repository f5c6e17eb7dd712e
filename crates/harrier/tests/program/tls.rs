//! TLS: who is admitted, as whom, and how others are refused.

use super::{BrokerProcess, PATIENCE, output};
use crate::certificates::Authority;
use client::Client;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A broker with a plain and a TLS listener, and users for the certificates of this test.
fn start(authority: &Authority, more: &[&str]) -> BrokerProcess {
    let server = authority.issue("server", &["127.0.0.1"]);
    let config = authority.folder.join("harrier.toml");
    let text = "[[user]]\nname = \"orders\"\npassword = \"s3cret\"\n[[permission]]\nuser = \"orders\"\nvhost = \"/\"\n\
                configure = \".*\"\nwrite = \".*\"\nread = \".*\"\n";
    std::fs::write(&config, text).expect("writes");
    let (certificate, key, config) = (shown(&server.certificate), shown(&server.key), shown(&config));
    let mut words = vec!["--listen", "tls://127.0.0.1:0", "--listen", "127.0.0.1:0", "--shards", "2"];
    words.extend(["--tls-certificates", &certificate, "--tls-keys", &key, "--config", &config]);
    words.extend(more);
    BrokerProcess::start(&words)
}

fn url(broker: &BrokerProcess, authority: &Authority, login: &str, more: &str) -> String {
    let place = broker.address.strip_prefix("tls://").expect("the first address has TLS");
    format!("amqps://{login}{place}/%2F?cacertfile={}{more}", authority.ca.display())
}

#[test]
fn clients_log_in_over_tls_by_password_or_certificate() {
    let authority = Authority::new("program-login");
    let ca = shown(&authority.ca);
    let how = ["--tls-client-certificates", "optional", "--tls-client-ca", &ca, "--tls-login-from", "common_name"];
    let broker = start(&authority, &how);
    let (orders, nobody) = (authority.issue("orders", &[]), authority.issue("nobody", &[]));
    let own = |files: &link::CertificateFiles| {
        format!("&certfile={}&keyfile={}", files.certificate.display(), files.key.display())
    };
    let external = |files| format!("{}&auth_mechanism=external", own(files));
    let refused = "403 ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL.";
    let cases = [
        ("orders:s3cret@", String::new(), "in"),
        ("orders:s3cret@", own(&orders), "in"),
        ("", external(&orders), "in"),
        ("", external(&nobody), refused),
        ("", "&auth_mechanism=external".to_owned(), "the mechanism EXTERNAL"),
    ];
    for (login, more, expect) in cases {
        let outcome = Client::connect(&url(&broker, &authority, login, &more));
        match outcome {
            Ok(mut client) => {
                assert_eq!(expect, "in", "{more}");
                let channel = client.open_channel().expect("a channel");
                let queue = client.declare_queue(channel, "", &client::QueueOptions::default()).expect("a queue");
                let body = vec![7; 300_000];
                client.publish(channel, &client::Publish::to("", &queue.name), &body).expect("published");
                let got = client.get(channel, &queue.name, true).expect("an answer").expect("a message");
                assert_eq!(got.body(), body);
                client.close().expect("an orderly end");
            }
            Err(error) => assert!(error.to_string().contains(expect), "{more}: {error}"),
        }
    }
    // Admin requests over TLS, as over any other transport.
    let asked = output(&["ctl", "definitions", "--url", &url(&broker, &authority, "orders:s3cret@", "")]);
    let stderr = String::from_utf8_lossy(&asked.stderr);
    assert!(stderr.contains("403 ACCESS_REFUSED - user 'orders' is no administrator"), "{stderr}");
    let log = broker.await_line("user 'nobody' of the certificate: invalid credentials");
    assert!(log.contains("login refused"), "{log}");
}

#[test]
fn a_revoked_certificate_is_refused_from_the_next_signal_on() {
    let authority = Authority::new("program-revoked");
    let orders = authority.issue("orders", &[]);
    let (ca, crl) = (shown(&authority.ca), shown(&authority.revoke(&[])));
    let how = ["--tls-client-certificates", "optional", "--tls-client-ca", &ca, "--tls-client-crl", &crl];
    let broker = start(&authority, &[&how[..], &["--tls-login-from", "common_name"]].concat());
    let own = format!("&certfile={}&keyfile={}", orders.certificate.display(), orders.key.display());
    let connect = || Client::connect(&url(&broker, &authority, "", &format!("{own}&auth_mechanism=external")));
    let client = connect().expect("it is not revoked");
    authority.revoke(&[&orders]);
    broker.signal(rustix::process::Signal::HUP);
    broker.await_line("certificates were reloaded");
    connect().expect_err("it is revoked");
    broker.await_line("Revoked");
    client.close().expect("who is in already stays");
}

#[test]
fn certificates_are_read_again_at_a_signal() {
    let authority = Authority::new("program-reload");
    let broker = start(&authority, &[]);
    let mut old = Client::connect(&url(&broker, &authority, "orders:s3cret@", "")).expect("trusted");
    let other = Authority::new("program-reload-other");
    let fresh = other.issue("server", &["127.0.0.1"]);
    std::fs::copy(&fresh.certificate, authority.folder.join("server.pem")).expect("copies");
    broker.signal(rustix::process::Signal::HUP);
    // The key does not match yet.
    let line = broker.await_line("certificates could not be reloaded");
    assert!(line.contains("the key does not fit the certificate"), "{line}");
    std::fs::copy(&fresh.key, authority.folder.join("server.key")).expect("copies");
    broker.signal(rustix::process::Signal::HUP);
    broker.await_line("certificates were reloaded");
    let error = Client::connect(&url(&broker, &authority, "orders:s3cret@", "")).expect_err("another authority");
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    Client::connect(&url(&broker, &other, "orders:s3cret@", "")).expect("trusted").close().expect("an orderly end");
    old.open_channel().expect("who was there stays");
}

#[test]
fn ends_that_do_not_speak_alike_are_told_and_logged() {
    let authority = Authority::new("program-mixed");
    let broker = start(&authority, &["--login-timeout-s", "1"]);
    let addresses = super::field(&broker.ready, "addresses");
    let (secret, plain) = addresses.split_once(' ').expect("two addresses");
    let secret = secret.strip_prefix("tls://").expect("TLS");
    // A plain client of the TLS listener.
    let mut stream = TcpStream::connect(secret).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&wire::PROTOCOL_HEADER).expect("sent");
    stream.read_to_end(&mut Vec::new()).expect("an end in order");
    let line = broker.await_line("the peer does not speak TLS");
    assert_eq!(super::field(&line, "peer"), stream.local_addr().expect("an address").to_string());
    // A TLS client of the plain listener.
    let error = Client::connect(&format!("amqps://{plain}?cacertfile={}", authority.ca.display())).expect_err("no TLS");
    assert!(
        error.to_string().contains("the peer does not speak TLS: it began with \\\"AMQP")
            || error.to_string().contains("the peer does not speak TLS: it began with \"AMQP"),
        "{error}"
    );
    broker.await_line("this is TLS, on a port without it");
    // One that stays silent, and one that stops in the middle of its hello.
    let mut silent = [TcpStream::connect(secret).expect("connects"), TcpStream::connect(secret).expect("connects")];
    silent[1].write_all(&[22, 3, 1, 1, 0, 1]).expect("sent");
    for stream in &mut silent {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let ended = stream.read(&mut [0]);
        assert!(matches!(ended, Ok(0)) || ended.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
    }
    broker.await_line("connection was too slow and is ended");
}

#[test]
fn certificates_that_cannot_be_used_are_told_with_their_setting() {
    let authority = Authority::new("program-files");
    let (a, b) = (authority.issue("a", &[]), authority.issue("b", &[]));
    let (certificate, key, other) = (shown(&a.certificate), shown(&a.key), shown(&b.key));
    let ca = shown(&authority.ca);
    let listen = ["broker", "--state", "none", "--listen", "tls://127.0.0.1:0"];
    let cases: &[(&[&str], String)] = &[
        (&[], "--listen: an address with TLS needs tls_certificates and tls_keys".to_owned()),
        (&["--tls-certificates", &certificate], "--tls-certificates: there are 1 certificates and 0 keys".to_owned()),
        (
            &["--tls-certificates", &certificate, "--tls-keys", &other],
            format!("--tls-keys: {other}: the key does not fit the certificate {certificate}"),
        ),
        (
            &["--tls-certificates", &certificate, "--tls-keys", "/nowhere.key"],
            "--tls-keys: /nowhere.key: cannot be read: No such file".to_owned(),
        ),
        (
            &["--tls-certificates", &certificate, "--tls-keys", &key, "--tls-client-certificates", "required"],
            "--tls-client-certificates: it needs tls_client_ca".to_owned(),
        ),
        (
            &["--tls-certificates", &certificate, "--tls-keys", &key, "--tls-client-crl", &certificate],
            "--tls-client-crl: it needs tls_client_certificates: clients are not asked for any".to_owned(),
        ),
        (
            &[
                &["--tls-certificates", &certificate, "--tls-keys", &key, "--tls-client-certificates", "required"][..],
                &["--tls-client-ca", &ca, "--tls-client-crl", &certificate],
            ]
            .concat(),
            format!("--tls-client-crl: {certificate}: there is no revocation list in it (PEM)"),
        ),
    ];
    for (words, expect) in cases {
        let output = output(&[&listen[..], words].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.starts_with(&format!("harrier broker: {expect}")), "{words:?}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{stderr}");
    }
    let old = authority.issue_until("old", &["127.0.0.1"], 2001);
    let (certificate, key) = (shown(&old.certificate), shown(&old.key));
    let words = ["--tls-certificates", &certificate, "--tls-keys", &key];
    let broker =
        BrokerProcess::start_until(&[&["--listen", "tls://127.0.0.1:0"], &words[..]].concat(), "a certificate expired");
    assert!(broker.ready.contains("CN=old"), "{}", broker.ready);
}
