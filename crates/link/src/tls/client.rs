//! A client's side of TLS: the certificates it trusts, and its own. A server that cannot be verified is an error.

use super::engine::TlsEngine;
use super::files::{CertificateFiles, TlsError, certified, roots};
use super::tls_link::TlsLink;
use super::{VERSIONS, provider};
use crate::socket::SocketLink;
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where distributions keep the trusted certificates.
const SYSTEM_CA_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The TLS configuration of a client. Clones share it.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl TlsClient {
    /// A client that trusts the authorities in `ca` (default: the system's), shows `certificate` if the server asks for
    /// one, and expects the server to be `server_name` (default: the host it connects to).
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn new(
        ca: Option<&Path>,
        certificate: Option<&CertificateFiles>,
        server_name: Option<&str>,
    ) -> Result<Self, TlsError> {
        let provider = provider();
        let system = || SYSTEM_CA_FILES.map(Path::new).into_iter().find(|path| path.exists());
        let path =
            ca.or_else(system).ok_or_else(|| TlsError::other("no file of trusted certificates was given or found"))?;
        let roots = Arc::new(roots(path)?);
        let verifier: Arc<dyn ServerCertVerifier> =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| TlsError::new(path, error.to_string()))?;
        let own = certificate.map(|files| certified(files, &provider)).transpose()?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(VERSIONS)
            .map_err(|error| TlsError::other(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match own {
            Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(TlsClient { config: Arc::new(config), server_name: server_name.map(str::to_owned) })
    }

    /// Makes the handshake over a connected socket, within `timeout`.
    pub(crate) fn secure(&self, socket: SocketLink<TcpStream>, host: &str, timeout: Duration) -> io::Result<TlsLink> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let name = self.server_name.as_deref().unwrap_or(host);
        let server = ServerName::try_from(name.to_owned());
        let server = server.map_err(|_| invalid(format!("'{name}' is not a valid server name")))?;
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), server);
        let connection = connection.map_err(|error| invalid(error.to_string()))?;
        let mut link = TlsLink::new(socket, TlsEngine::Client(Box::new(connection)));
        link.handshake(timeout)?;
        Ok(link)
    }
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "TlsClient({:?})", self.server_name)
    }
}
