//! TLS of the configuration: loads, checks and reloads certificates.
//!
//! An expired certificate causes a warning, and does not keep a broker from starting.

use crate::greeting::greeting_external;
use config::{BrokerConfig, ConfigError};
use link::{Address, Certificate, CertificateFiles, CertificateIdentity, ClientCertificates, SanType};
use link::{TlsError, TlsServer, TlsServerOptions, TlsVersion};
use shard::ExternalMechanism;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Warning period before a certificate expires.
const WARNED_BEFORE_S: i64 = 14 * 24 * 3600;

/// The TLS settings of the server, if any address uses TLS.
///
/// # Errors
/// A file cannot be used, or settings contradict each other.
pub fn server(config: &BrokerConfig, listen: &[Address]) -> Result<Option<TlsServer>, ConfigError> {
    let wanted = listen.iter().any(|address| matches!(address, Address::Tls { .. }));
    let (certificates, keys) = (&config.tls_certificates, &config.tls_keys);
    if certificates.len() != keys.len() {
        let why = format!("there are {} certificates and {} keys", certificates.len(), keys.len());
        return Err(config.fault(if keys.is_empty() { "tls_certificates" } else { "tls_keys" }, why));
    }
    if wanted && certificates.is_empty() {
        return Err(config.fault("listen", "an address with TLS needs tls_certificates and tls_keys"));
    }
    let client_certificates = match config.tls_client_certificates {
        config::ClientCertificates::None => ClientCertificates::None,
        config::ClientCertificates::Optional => ClientCertificates::Optional,
        config::ClientCertificates::Required => ClientCertificates::Required,
    };
    if client_certificates != ClientCertificates::None && config.tls_client_ca.is_none() {
        let why = "it needs tls_client_ca, which signs the certificates of clients";
        return Err(config.fault("tls_client_certificates", why));
    }
    if config.tls_client_crl.is_some() && client_certificates == ClientCertificates::None {
        let why = "it needs tls_client_certificates: clients are not asked for any";
        return Err(config.fault("tls_client_crl", why));
    }
    if !wanted {
        return Ok(None);
    }
    let options = TlsServerOptions {
        certificates: certificate_files(certificates, keys),
        client_certificates,
        client_ca: config.tls_client_ca.as_ref().map(PathBuf::from),
        client_crl: config.tls_client_crl.as_ref().map(PathBuf::from),
        version_min: version_min(config),
    };
    let server = TlsServer::new(options);
    server.map(Some).map_err(|error| config.fault(setting_of(config, &error), error.to_string()))
}

/// The TLS settings of the management API, if an address of the setting that is given has TLS. It asks nobody for a certificate.
///
/// # Errors
/// A file cannot be used, or settings contradict each other.
pub fn management_server(
    config: &BrokerConfig,
    wanted_by: Option<&'static str>,
) -> Result<Option<TlsServer>, ConfigError> {
    const CERTIFICATES: &str = "management_tls_certificates";
    const KEYS: &str = "management_tls_keys";
    let own = (&config.management_tls_certificates, &config.management_tls_keys);
    if own.0.len() != own.1.len() {
        let why = format!("there are {} certificates and {} keys", own.0.len(), own.1.len());
        return Err(config.fault(if own.1.is_empty() { CERTIFICATES } else { KEYS }, why));
    }
    let Some(wanted_by) = wanted_by else { return Ok(None) };
    let (certificates, keys) = if own.0.is_empty() { (&config.tls_certificates, &config.tls_keys) } else { own };
    if certificates.is_empty() || certificates.len() != keys.len() {
        let why = "an address with https needs management_tls_certificates and management_tls_keys, or tls_certificates \
                   and tls_keys";
        return Err(config.fault(wanted_by, why));
    }
    let options = TlsServerOptions {
        certificates: certificate_files(certificates, keys),
        version_min: version_min(config),
        ..TlsServerOptions::default()
    };
    TlsServer::new(options).map(Some).map_err(|error| {
        let is_key = keys.iter().any(|file| error.file.as_deref() == Some(file.as_ref()));
        let setting = match (own.0.is_empty(), is_key) {
            (false, true) => KEYS,
            (false, false) => CERTIFICATES,
            (true, true) => "tls_keys",
            (true, false) => "tls_certificates",
        };
        config.fault(setting, error.to_string())
    })
}

fn certificate_files(certificates: &[String], keys: &[String]) -> Vec<CertificateFiles> {
    let files = certificates.iter().zip(keys);
    files.map(|(certificate, key)| CertificateFiles { certificate: certificate.into(), key: key.into() }).collect()
}

fn version_min(config: &BrokerConfig) -> TlsVersion {
    match config.tls_version_min {
        config::TlsVersion::V12 => TlsVersion::V12,
        config::TlsVersion::V13 => TlsVersion::V13,
    }
}

/// Seconds since the epoch at which the first certificate of a server expires.
pub fn expires_s(server: &TlsServer) -> Option<u64> {
    let validities = server.certificates().into_iter().filter_map(|certificate| certificate.validity_s());
    u64::try_from(validities.map(|(_, ends)| ends).min()?).ok()
}

/// The setting that named the file.
fn setting_of(config: &BrokerConfig, error: &TlsError) -> &'static str {
    let named = |files: &[String]| files.iter().any(|file| error.file.as_deref() == Some(file.as_ref()));
    if named(&config.tls_keys) {
        "tls_keys"
    } else if named(config.tls_client_ca.as_slice()) {
        "tls_client_ca"
    } else if named(config.tls_client_crl.as_slice()) {
        "tls_client_crl"
    } else {
        "tls_certificates"
    }
}

/// How clients log in with certificates, if they are asked for any.
pub fn external(config: &BrokerConfig, cluster_name: &str) -> Option<ExternalMechanism> {
    let kind = match config.tls_login_san_type {
        config::SanType::Dns => SanType::Dns,
        config::SanType::Email => SanType::Email,
        config::SanType::Uri => SanType::Uri,
        config::SanType::Ip => SanType::Ip,
    };
    let identity = match config.tls_login_from {
        config::LoginFrom::DistinguishedName => CertificateIdentity::DistinguishedName,
        config::LoginFrom::CommonName => CertificateIdentity::CommonName,
        config::LoginFrom::AlternativeName => {
            CertificateIdentity::AlternativeName { kind, index: config.tls_login_san_index.into() }
        }
    };
    let asked = config.tls_client_certificates != config::ClientCertificates::None;
    asked.then(|| ExternalMechanism { greeting: Arc::new(greeting_external(cluster_name)), identity })
}

/// Reads the files again, for new connections, and logs the outcome.
pub fn reload(server: &TlsServer) {
    match server.reload() {
        Ok(()) => {
            let certificates = server.certificates();
            tracing::info!(certificates = certificates.len(), "certificates were reloaded");
            log_expiry_warnings(&certificates);
        }
        Err(error) => tracing::error!(%error, "certificates could not be reloaded, and are unchanged"),
    }
}

/// Logs certificates that are not valid, or not for long.
#[expect(clippy::disallowed_methods, reason = "whether a certificate holds is a question of today's date")]
pub fn log_expiry_warnings(certificates: &[Certificate]) {
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return };
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    for certificate in certificates {
        if let Some(what) = certificate.validity_s().and_then(|validity_s| expiry_warning(validity_s, now_s)) {
            let subject = certificate.distinguished_name();
            tracing::warn!(subject, "a certificate {what}; clients will not trust it");
        }
    }
}

fn expiry_warning((begins_s, ends_s): (i64, i64), now_s: i64) -> Option<String> {
    match now_s {
        _ if now_s > ends_s => Some(format!("expired {} days ago", (now_s - ends_s) / 86_400)),
        _ if now_s < begins_s => Some(format!("is not valid for another {} days", (begins_s - now_s) / 86_400)),
        _ if now_s + WARNED_BEFORE_S > ends_s => {
            Some(format!("expires in {} days, and then", (ends_s - now_s) / 86_400))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::expiry_warning;

    #[test]
    fn certificates_are_warned_of_in_time() {
        const DAY: i64 = 86_400;
        let cases = [
            (0, 100, 50, None),
            (0, 100, 90, Some("expires in 10 days, and then")),
            (0, 100, 103, Some("expired 3 days ago")),
            (10, 100, 3, Some("is not valid for another 7 days")),
        ];
        for (begins, ends, now, expect) in cases {
            assert_eq!(expiry_warning((begins * DAY, ends * DAY), now * DAY).as_deref(), expect, "{now}");
        }
    }
}
