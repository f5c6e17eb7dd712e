//! What TLS guarantees beyond the contract: who is trusted, which errors each end gets, what a peer without TLS gets.

mod certificates;

use certificates::Authority;
use link::contract::{LinkPair, check_all};
use link::limits::TLS_RECORD_BYTES_MAX;
use link::{
    Address, Certificate, CertificateFiles, CertificateIdentity, ClientCertificates, DialOptions, Link, LinkError,
    ListenOptions, Listener, ReceiveOutcome, SanType, TlsClient, TlsParameters, TlsServer, TlsServerOptions,
    TlsVersion, WaitFor, dial, dial_tls,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

type DialResult = std::io::Result<Box<dyn Link>>;

const PATIENCE: Duration = Duration::from_secs(20);

fn listen(options: &TlsServerOptions) -> (Listener, TlsServer) {
    let server = TlsServer::new(options.clone()).expect("the files are sound");
    let address: Address = "tls://127.0.0.1:0".parse().expect("an address");
    (Listener::bind_tls(&address, &ListenOptions::default(), &server).expect("binds"), server)
}

fn accept(listener: &mut Listener) -> Box<dyn Link> {
    loop {
        if let Some(link) = listener.accept().expect("accepts") {
            return link;
        }
        std::thread::yield_now();
    }
}

/// Reads once, until there is something to tell.
fn read_next(link: &mut dyn Link) -> Result<Vec<u8>, LinkError> {
    let mut scratch = vec![0; 1 << 16];
    loop {
        match link.receive(&mut [], &mut scratch)? {
            ReceiveOutcome::Bytes { bytes, .. } => return Ok(scratch[..bytes].to_vec()),
            ReceiveOutcome::Closed => return Ok(vec![]),
            ReceiveOutcome::Idle => assert!(link.wait(WaitFor::Readable, Some(PATIENCE))?, "nothing came"),
        }
    }
}

/// A client's end, and what becomes of the handshake at the broker's.
fn connect_both(listener: &mut Listener, client: &TlsClient) -> (DialResult, Result<Box<dyn Link>, LinkError>) {
    let address = listener.local_address().clone();
    let client = client.clone();
    let options = DialOptions { timeout: PATIENCE, ..DialOptions::default() };
    let dialling = std::thread::spawn(move || dial_tls(&address, &options, &client));
    let mut far = accept(listener);
    let mut outcome = Ok(());
    while !dialling.is_finished() && outcome.is_ok() {
        outcome = far.receive(&mut [], &mut [0; 16]).map(drop);
        std::thread::yield_now();
    }
    let near = dialling.join().expect("no panic");
    // The client is done first; its last words may still be on their way.
    let patience = if near.is_ok() { Duration::from_millis(20) } else { PATIENCE };
    while outcome.is_ok() && far.wait(WaitFor::Readable, Some(patience)).expect("waits") {
        match far.receive(&mut [], &mut [0; 16]) {
            Ok(ReceiveOutcome::Closed) => break,
            Ok(_) => {}
            Err(error) => outcome = Err(error),
        }
    }
    (near, outcome.map(|()| far))
}

fn connected(listener: &mut Listener, client: &TlsClient) -> LinkPair {
    let (near, far) = connect_both(listener, client);
    (near.expect("the client trusts the server"), far.expect("the server agrees"))
}

#[test]
fn tls_keeps_the_contract() {
    let authority = Authority::new("contract");
    for version_min in [TlsVersion::V13, TlsVersion::V12] {
        let certificates = vec![authority.issue("server", &["127.0.0.1"])];
        let (mut listener, _) = listen(&TlsServerOptions { certificates, version_min, ..Default::default() });
        let client = TlsClient::new(Some(&authority.ca), None, None).expect("a client");
        check_all(|| connected(&mut listener, &client));
        check_all(|| {
            let (near, far) = connected(&mut listener, &client);
            (far, near)
        });
    }
}

#[test]
fn a_client_gets_the_certificate_of_the_name_it_asks_for() {
    let authority = Authority::new("sni");
    let certificates = vec![
        authority.issue("first", &["first.example"]),
        authority.issue("second", &["second.example", "*.second.example"]),
    ];
    let (mut listener, _) = listen(&TlsServerOptions { certificates, ..Default::default() });
    for (name, is_there) in
        [("first.example", true), ("second.example", true), ("a.second.example", true), ("third.example", false)]
    {
        let client = TlsClient::new(Some(&authority.ca), None, Some(name)).expect("a client");
        let (near, far) = connect_both(&mut listener, &client);
        assert_eq!(near.is_ok(), is_there, "{name}");
        if let Some(error) = near.err() {
            assert!(error.to_string().contains("certificate not valid for name"), "{error}");
            assert!(far.is_err(), "the server hears of it");
        }
    }
}

#[test]
fn a_client_proves_who_it_is() {
    let authority = Authority::new("client");
    let stranger = Authority::new("stranger");
    let certificates = vec![authority.issue("server", &["127.0.0.1"])];
    let mine = authority.issue("orders", &["orders.example", "b.example"]);
    let theirs = stranger.issue("orders", &["orders.example"]);
    let client = |own: Option<&CertificateFiles>| TlsClient::new(Some(&authority.ca), own, None).expect("a client");
    for (how, own, is_let_in, is_known) in [
        (ClientCertificates::None, Some(&mine), true, false),
        (ClientCertificates::Optional, None, true, false),
        (ClientCertificates::Optional, Some(&mine), true, true),
        (ClientCertificates::Optional, Some(&theirs), false, false),
        (ClientCertificates::Required, None, false, false),
        (ClientCertificates::Required, Some(&mine), true, true),
        (ClientCertificates::Required, Some(&theirs), false, false),
    ] {
        let (mut listener, _) = listen(&TlsServerOptions {
            certificates: certificates.clone(),
            client_certificates: how,
            client_ca: Some(authority.ca.clone()),
            ..Default::default()
        });
        let (near, far) = connect_both(&mut listener, &client(own));
        assert_eq!(far.is_ok(), is_let_in, "{how:?} {own:?}: {:?}", far.err());
        let Ok(far) = far else {
            // With TLS 1.3 a client is done before it hears that it is refused; then it is told when it reads.
            let told = near.map_err(LinkError::Lost).and_then(|mut near| read_next(&mut *near));
            let told = told.expect_err("a refusal").to_string();
            assert!(told.contains("fatal alert"), "{told}");
            continue;
        };
        let agreed = TlsParameters { protocol: "tlsv1.3", key_exchange: "any", cipher: "aes_128_gcm", hash: "aead" };
        for end in [&far, &near.expect("the client is let in")] {
            assert_eq!(end.tls_parameters(), Some(agreed), "{how:?}");
        }
        assert_eq!(far.certificate().is_some(), is_known, "{how:?}");
        for (from, name) in [
            (CertificateIdentity::CommonName, "orders"),
            (CertificateIdentity::DistinguishedName, "CN=orders,O=Harrier test"),
            (CertificateIdentity::AlternativeName { kind: SanType::Dns, index: 1 }, "b.example"),
        ] {
            let found = far.certificate().and_then(|certificate| certificate.identity(from));
            assert_eq!(found.as_deref(), is_known.then_some(name));
        }
        let issuer = far.certificate().and_then(Certificate::issuer);
        assert_eq!(issuer.as_deref(), is_known.then_some("CN=client,O=Harrier test"));
        let nobody = CertificateIdentity::AlternativeName { kind: SanType::Email, index: 0 };
        assert_eq!(far.certificate().and_then(|certificate| certificate.identity(nobody)), None);
    }
}

#[test]
fn a_client_whose_certificate_is_revoked_is_refused() {
    let authority = Authority::new("revoked");
    let stranger = Authority::new("revoked-stranger");
    let certificates = vec![authority.issue("server", &["127.0.0.1"])];
    let (kept, lost) = (authority.issue("kept", &["kept.example"]), authority.issue("lost", &["lost.example"]));
    for client_certificates in [ClientCertificates::Optional, ClientCertificates::Required] {
        let crl = authority.revoke(&[]);
        let (mut listener, server) = listen(&TlsServerOptions {
            certificates: certificates.clone(),
            client_certificates,
            client_ca: Some(authority.ca.clone()),
            client_crl: Some(crl.clone()),
            ..Default::default()
        });
        let mut is_let_in = |own: &CertificateFiles| {
            let client = TlsClient::new(Some(&authority.ca), Some(own), None).expect("a client");
            match connect_both(&mut listener, &client).1 {
                Ok(_) => true,
                Err(error) => {
                    assert!(error.to_string().contains("Revoked"), "{error}");
                    false
                }
            }
        };
        assert!(is_let_in(&kept) && is_let_in(&lost));
        authority.revoke(&[&lost]);
        assert!(is_let_in(&lost), "the list is not read yet");
        server.reload().expect("sound files");
        assert!(is_let_in(&kept) && !is_let_in(&lost));
        // A broken list changes nothing, and the list of another authority lets nobody in.
        std::fs::write(&crl, "nothing").expect("writes");
        let error = server.reload().expect_err("no list").to_string();
        assert_eq!(error, format!("{}: there is no revocation list in it (PEM)", crl.display()));
        assert!(!is_let_in(&lost));
    }
    let client = TlsClient::new(Some(&authority.ca), Some(&kept), None).expect("a client");
    let (mut listener, _) = listen(&TlsServerOptions {
        certificates,
        client_certificates: ClientCertificates::Required,
        client_ca: Some(authority.ca.clone()),
        client_crl: Some(stranger.revoke(&[])),
        ..Default::default()
    });
    let error = connect_both(&mut listener, &client).1.err().expect("it is not known whether it is revoked");
    assert!(error.to_string().contains("UnknownRevocationStatus"), "{error}");
}

#[test]
fn certificates_are_read_anew_and_open_connections_stay() {
    let authority = Authority::new("reload");
    let files = authority.issue("server", &["127.0.0.1"]);
    let options = TlsServerOptions { certificates: vec![files.clone()], ..Default::default() };
    let (mut listener, server) = listen(&options);
    let client = TlsClient::new(Some(&authority.ca), None, None).expect("a client");
    let (mut near, mut far) = connected(&mut listener, &client);
    // A broken file changes nothing.
    let sound = std::fs::read(&files.key).expect("reads");
    std::fs::write(&files.key, "nothing").expect("writes");
    let error = server.reload().expect_err("a broken key");
    assert_eq!(error.to_string(), format!("{}: there is no private key in it (PEM)", files.key.display()));
    std::fs::write(&files.key, sound).expect("writes");
    connected(&mut listener, &client);
    // Another authority: who trusts the old one comes no more, who is there stays.
    let other = Authority::new("reload-other");
    let new = other.issue("server", &["127.0.0.1"]);
    std::fs::copy(&new.certificate, &files.certificate).expect("copies");
    std::fs::copy(&new.key, &files.key).expect("copies");
    server.reload().expect("sound files");
    assert!(connect_both(&mut listener, &client).0.is_err());
    connected(&mut listener, &TlsClient::new(Some(&other.ca), None, None).expect("a client"));
    let pool = slab::Pool::new(slab::PoolOptions::default());
    let mut out = slab::Gather::new();
    out.extend(&pool, b"still here");
    far.send(&mut out).expect("open");
    assert_eq!(read_next(&mut *near).expect("open"), b"still here");
}

#[test]
fn very_small_records_are_read_a_few_at_a_time() {
    // More than a short read takes, and so few that the sockets have room for them.
    const RECORDS: usize = 4_000;
    // A byte, with what TLS 1.3 adds to it.
    const RECORD_BYTES: usize = 5 + 1 + 1 + 16;
    let authority = Authority::new("small-records");
    let certificates = vec![authority.issue("server", &["127.0.0.1"])];
    let (mut listener, _) = listen(&TlsServerOptions { certificates, ..Default::default() });
    let client = TlsClient::new(Some(&authority.ca), None, None).expect("a client");
    let (mut near, mut far) = connected(&mut listener, &client);
    let pool = slab::Pool::new(slab::PoolOptions::default());
    for _ in 0..RECORDS {
        let mut out = slab::Gather::new();
        out.extend(&pool, b"x");
        while !out.is_empty() {
            near.send(&mut out).expect("open");
        }
    }
    let mut reads = Vec::new();
    while reads.iter().sum::<usize>() < RECORDS {
        reads.push(read_next(&mut *far).expect("open").len());
    }
    let most = reads[1..].iter().max().copied().unwrap_or_default();
    assert!(most <= TLS_RECORD_BYTES_MAX / RECORD_BYTES + 1, "{reads:?}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("files");
    let (a, b) = (authority.issue("a", &["a.example"]), authority.issue("b", &["b.example"]));
    let nowhere = || authority.folder.join("nowhere.pem");
    let (a_key, a_certificate) = (a.key.display(), a.certificate.display());
    let cases = [
        (nowhere(), a.key.clone(), format!("{}: cannot be read: No such file", nowhere().display())),
        (a.key.clone(), a.key.clone(), format!("{a_key}: there is no certificate in it (PEM)")),
        (a.certificate.clone(), a.certificate.clone(), format!("{a_certificate}: there is no private key in it (PEM)")),
        (
            a.certificate.clone(),
            b.key.clone(),
            format!("{}: the key does not fit the certificate {a_certificate}", b.key.display()),
        ),
    ];
    for (certificate, key, expect) in cases {
        let certificates = vec![CertificateFiles { certificate, key }];
        let error = TlsServer::new(TlsServerOptions { certificates, ..Default::default() }).expect_err(&expect);
        assert!(error.to_string().starts_with(&expect), "{error}\n{expect}");
    }
}

#[test]
fn a_plain_client_gets_an_end_and_its_first_bytes_are_told() {
    let authority = Authority::new("plain");
    let certificates = vec![authority.issue("server", &["127.0.0.1"])];
    let (mut listener, _) = listen(&TlsServerOptions { certificates, ..Default::default() });
    let Address::Tls { port, .. } = listener.local_address() else { panic!("a TLS address") };
    let mut plain = TcpStream::connect(("127.0.0.1", *port)).expect("connects");
    let mut far = accept(&mut listener);
    plain.write_all(b"AMQP\x00\x00\x09\x01").expect("writes");
    let error = read_next(&mut *far).expect_err("this is no TLS").to_string();
    assert_eq!(error, "TLS: the peer does not speak TLS: it began with \"AMQP\\x00\\x00\\t\\x01\"");
    assert_eq!(read_next(&mut *far).expect("told once"), b"");
    plain.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).expect("it is ended in order");
    assert_eq!(answer[..5], [21, 3, 3, 0, 2], "an alert");
}

#[test]
fn a_tls_client_of_a_plain_listener_ends_in_time() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let mut listener = Listener::bind(&address, &ListenOptions::default()).expect("binds");
    let Address::Tcp { port, .. } = *listener.local_address() else { panic!("a TCP address") };
    let authority = Authority::new("other-way");
    let client = TlsClient::new(Some(&authority.ca), None, None).expect("a client");
    let address = Address::Tls { host: "127.0.0.1".into(), port };
    let options = DialOptions { timeout: Duration::from_millis(200), ..DialOptions::default() };
    // One that says nothing, and one that answers as a plain broker does.
    let error = dial_tls(&address, &options, &client).err().expect("nobody answers");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    accept(&mut listener);
    let dialling = std::thread::spawn(move || dial_tls(&address, &DialOptions::default(), &client).err());
    let mut far = accept(&mut listener);
    let pool = slab::Pool::new(slab::PoolOptions::default());
    let mut out = slab::Gather::new();
    out.extend(&pool, b"AMQP\x00\x00\x09\x01");
    read_next(&mut *far).expect("a hello");
    far.send(&mut out).expect("sends");
    let error = dialling.join().expect("no panic").expect("no TLS").to_string();
    assert!(error.contains("the peer does not speak TLS: it began with \"AMQP"), "{error}");
}

#[test]
fn who_is_not_verified_is_not_trusted() {
    let (mine, theirs) = (Authority::new("trusted"), Authority::new("untrusted"));
    let certificates = vec![theirs.issue("server", &["127.0.0.1"])];
    let (mut listener, _) = listen(&TlsServerOptions { certificates, ..Default::default() });
    let client = TlsClient::new(Some(&mine.ca), None, None).expect("a client");
    let (near, far) = connect_both(&mut listener, &client);
    assert!(near.err().expect("not trusted").to_string().contains("UnknownIssuer"));
    assert!(far.err().expect("told").to_string().contains("fatal alert"));
    // Nor is what this machine trusts enough for a test's certificate.
    let address = listener.local_address().clone();
    let serving = std::thread::spawn(move || {
        let mut far = accept(&mut listener);
        read_next(&mut *far).map(drop)
    });
    if dial(&address, &DialOptions::default()).err().expect("refused").kind() != std::io::ErrorKind::InvalidInput {
        assert!(serving.join().expect("no panic").is_err());
    }
}

#[test]
fn an_expired_certificate_tells_when() {
    let authority = Authority::new("expired");
    let server = TlsServer::new(TlsServerOptions {
        certificates: vec![authority.issue_until("old", &["127.0.0.1"], 2001)],
        ..Default::default()
    })
    .expect("that it has expired is for the caller to say");
    assert_eq!(server.certificates()[0].validity_s(), Some((946_684_800, 978_307_200)));
    server.reload().expect("again");
}
