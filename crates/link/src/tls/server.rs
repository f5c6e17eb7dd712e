//! The broker's side of TLS: its certificates, and what it asks of clients.
//!
//! The files can be read again while the broker runs; open connections keep the certificates they began with.

use super::certificate::{Certificate, SanType};
use super::engine::TlsEngine;
use super::files::{CertificateFiles, TlsError, certified, revocation_lists, roots};
use super::tls_link::TlsLink;
use super::{VERSIONS, provider};
use crate::socket::SocketLink;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, UnbufferedServerConnection, VerifierBuilderError,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Whether clients must show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked for one.
    #[default]
    None,
    /// Clients may show one, which must be valid.
    Optional,
    /// Clients must show a valid one.
    Required,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    #[default]
    V12,
    /// 1.3
    V13,
}

/// Options of [`TlsServer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsServerOptions {
    /// The certificates: a client gets the first that covers the name it asks for (SNI), else the first.
    pub certificates: Vec<CertificateFiles>,
    /// Whether clients must show certificates.
    pub client_certificates: ClientCertificates,
    /// The authorities that are trusted for clients' certificates.
    pub client_ca: Option<PathBuf>,
    /// The certificates of clients that those authorities have revoked. With it, every authority of a client's chain needs
    /// a list.
    pub client_crl: Option<PathBuf>,
    /// The oldest version that is accepted.
    pub version_min: TlsVersion,
}

/// The TLS configuration of a server. Clones share it.
#[derive(Clone)]
pub struct TlsServer {
    options: Arc<TlsServerOptions>,
    current: Arc<RwLock<ActiveConfig>>,
}

/// The configuration of new connections, and its certificates.
#[derive(Clone)]
struct ActiveConfig {
    config: Arc<ServerConfig>,
    certificates: Vec<Certificate>,
}

impl TlsServer {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn new(options: TlsServerOptions) -> Result<Self, TlsError> {
        let current = Arc::new(RwLock::new(configure(&options)?));
        Ok(TlsServer { options: Arc::new(options), current })
    }

    /// Reads the files again, for new connections.
    ///
    /// # Errors
    /// Which file cannot be used, and why; then the configuration is unchanged.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = configure(&self.options)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// The certificates in use, in the order of the options.
    pub fn certificates(&self) -> Vec<Certificate> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).certificates.clone()
    }

    /// The configuration of the next connection, for a server that has connections of its own kind.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// A TLS link over an accepted socket.
    pub(crate) fn secure(&self, socket: SocketLink<TcpStream>) -> io::Result<TlsLink> {
        let connection = UnbufferedServerConnection::new(self.config()).map_err(io::Error::other)?;
        Ok(TlsLink::new(socket, TlsEngine::Server(Box::new(connection))))
    }
}

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "TlsServer({:?})", self.options)
    }
}

fn configure(options: &TlsServerOptions) -> Result<ActiveConfig, TlsError> {
    let provider = provider();
    let mut choice = CertificateResolver(Vec::new());
    let mut certificates = Vec::new();
    for files in &options.certificates {
        let certified = certified(files, &provider)?;
        let leaf = Certificate::new(certified.cert[0].to_vec());
        choice.0.push((leaf.alternative_names(SanType::Dns), Arc::new(certified)));
        certificates.push(leaf);
    }
    if choice.0.is_empty() {
        return Err(TlsError::other("TLS needs a certificate"));
    }
    let verifier: Option<Arc<dyn ClientCertVerifier>> = match (options.client_certificates, &options.client_ca) {
        (ClientCertificates::None, _) => None,
        (_, None) => {
            return Err(TlsError::other("client certificates need a file of trusted authorities"));
        }
        (how, Some(path)) => {
            let roots = Arc::new(roots(path)?);
            let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
            let builder = if how == ClientCertificates::Optional { builder.allow_unauthenticated() } else { builder };
            let lists = options.client_crl.as_deref().map(revocation_lists).transpose()?;
            let builder = builder.with_crls(lists.unwrap_or_default());
            Some(builder.build().map_err(|error| match (error, &options.client_crl) {
                (VerifierBuilderError::InvalidCrl(error), Some(file)) => {
                    TlsError::new(file, format!("a revocation list cannot be used: {error:?}"))
                }
                (error, _) => TlsError::new(path, error.to_string()),
            })?)
        }
    };
    let versions: &[&SupportedProtocolVersion] = match options.version_min {
        TlsVersion::V12 => VERSIONS,
        TlsVersion::V13 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions);
    let builder = builder.map_err(|error| TlsError::other(error.to_string()))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(choice));
    config.ignore_client_order = true;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(ActiveConfig { config: Arc::new(config), certificates })
}

/// Chooses a certificate by the host name that a client asks for.
#[derive(Debug)]
struct CertificateResolver(Vec<(Vec<String>, Arc<CertifiedKey>)>);

impl CertificateResolver {
    fn find(&self, host: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let named = host.and_then(|host| self.0.iter().find(|(names, _)| names.iter().any(|name| covers(name, host))));
        named.or(self.0.first()).map(|(_, certified)| certified)
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name()).cloned()
    }
}

/// Whether a certificate's name matches a host; a star matches the first label (RFC 6125 §6.4.3).
fn covers(name: &str, host: &str) -> bool {
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(rest), Some((_, domain))) => rest.eq_ignore_ascii_case(domain),
        (Some(_), None) => false,
        (None, _) => name.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_star_stands_for_one_word() {
        let cases = [
            ("a.example", "A.EXAMPLE", true),
            ("*.example", "a.example", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("a.example", "b.example", false),
        ];
        for (name, host, expect) in cases {
            assert_eq!(covers(name, host), expect, "{name} {host}");
        }
    }
}
