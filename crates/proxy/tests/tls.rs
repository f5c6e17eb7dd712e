//! A proxy with TLS on either side.

#[allow(dead_code, reason = "this test uses a part of it")]
#[path = "../../link/tests/certificates/mod.rs"]
mod certificates;
mod harness;

use certificates::Authority;
use harness::{TestProxy, TestStream, UpstreamListener, echo, must_echo};
use link::{TlsClient, TlsServer, TlsServerOptions};
use std::io::{Read, Write};
use std::net::Shutdown;

#[test]
fn two_proxies_connect_by_tls() {
    let authority = Authority::new("proxy");
    let files = authority.issue("far", &["localhost"]);
    let server = TlsServer::new(TlsServerOptions { certificates: vec![files], ..TlsServerOptions::default() });
    let trust = TlsClient::new(Some(&authority.ca), None, Some("localhost")).expect("the file is sound");
    let broker = UpstreamListener::listen();
    let far = TestProxy::start(&broker.address, |options| {
        options.listen = vec!["tls://127.0.0.1:0".parse().expect("an address")];
        options.tls = Some(server.expect("the files are sound"));
    });
    let near = TestProxy::start(&far.address(), |options| options.trust = Some(trust));
    std::thread::scope(|scope| {
        scope.spawn(|| echo(broker.accept()));
        must_echo(near.connect(), 3_000_000);
    });
    // A broker that speaks first, before the client has said anything; and its end, which TLS has a word for.
    let mut client = near.connect();
    let mut speaker = broker.accept();
    speaker.write_all(b"greeting").expect("sent");
    speaker.shut(Shutdown::Write);
    let mut greeting = Vec::new();
    client.read_to_end(&mut greeting).expect("an end in order");
    assert_eq!(greeting, b"greeting");
    client.write_all(b"thanks").expect("sent");
    client.shut(Shutdown::Write);
    let mut thanks = Vec::new();
    speaker.read_to_end(&mut thanks).expect("an end in order");
    assert_eq!(thanks, b"thanks");
    assert_eq!((near.end().broken, far.end().broken), (0, 0));
}

#[test]
fn an_untrusted_broker_is_unreachable() {
    let (authority, foreign) = (Authority::new("proxy-own"), Authority::new("proxy-foreign"));
    let files = authority.issue("far", &["localhost"]);
    let server = TlsServer::new(TlsServerOptions { certificates: vec![files], ..TlsServerOptions::default() });
    let trust = TlsClient::new(Some(&foreign.ca), None, Some("localhost")).expect("the file is sound");
    let broker = UpstreamListener::listen();
    let far = TestProxy::start(&broker.address, |options| {
        options.listen = vec!["tls://127.0.0.1:0".parse().expect("an address")];
        options.tls = Some(server.expect("the files are sound"));
    });
    let near = TestProxy::start(&far.address(), |options| options.trust = Some(trust));
    near.connect().read_exact(&mut [0]).expect_err("nobody answers");
    harness::until("it was told", || near.totals().unreachable == 1);
}
