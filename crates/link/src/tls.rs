//! TLS: links whose bytes nobody between their ends can read or change (RFC 8446, RFC 5246).
//!
//! TLS 1.3 and 1.2 by `rustls` with `ring`. Sessions are never resumed: each connection authenticates anew, and no
//! shard shares a cache with another.

mod certificate;
mod client;
mod der;
mod distinguished_name;
mod engine;
mod files;
mod parameters;
mod server;
mod tls_link;

pub use certificate::{Certificate, CertificateIdentity, SanType};
pub use client::TlsClient;
pub use files::{CertificateFiles, TlsError};
pub use parameters::TlsParameters;
pub use server::{ClientCertificates, TlsServer, TlsServerOptions, TlsVersion};

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedProtocolVersion};
use std::sync::Arc;

/// The ciphers of `ring`, AES-128 first: as safe as AES-256 for the lifetime of a connection, and cheaper per byte.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let rank = |suite: CipherSuite| match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => 0,
        _ => 1,
    };
    provider.cipher_suites.sort_by_key(|suite| rank(suite.suite()));
    Arc::new(provider)
}

const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
