//! What a handshake has agreed on, in the words that RabbitMQ's management API has for it (Erlang's names of the parts
//! of a cipher suite).

use rustls::{CipherSuite, CommonState, ProtocolVersion};

/// The parameters of an open TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsParameters {
    /// `tlsv1.2` or `tlsv1.3`.
    pub protocol: &'static str,
    /// `ecdhe_ecdsa` or `ecdhe_rsa`; `any` with TLS 1.3, whose cipher suites leave it open.
    pub key_exchange: &'static str,
    /// `aes_128_gcm`, `aes_256_gcm` or `chacha20_poly1305`.
    pub cipher: &'static str,
    /// How records are authenticated: `aead`, by the cipher itself.
    pub hash: &'static str,
}

impl TlsParameters {
    /// `None` before the end of the handshake.
    pub(super) fn of(state: &CommonState) -> Option<Self> {
        let protocol = match state.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "tlsv1.2",
            ProtocolVersion::TLSv1_3 => "tlsv1.3",
            _ => return None,
        };
        let (key_exchange, cipher) = parts(state.negotiated_cipher_suite()?.suite())?;
        Some(TlsParameters { protocol, key_exchange, cipher, hash: "aead" })
    }
}

/// Key exchange and cipher of a suite that the provider has: all of them are authenticated encryption.
fn parts(suite: CipherSuite) -> Option<(&'static str, &'static str)> {
    Some(match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => ("any", "aes_128_gcm"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => ("any", "aes_256_gcm"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => ("any", "chacha20_poly1305"),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => ("ecdhe_ecdsa", "aes_128_gcm"),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => ("ecdhe_ecdsa", "aes_256_gcm"),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => ("ecdhe_ecdsa", "chacha20_poly1305"),
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => ("ecdhe_rsa", "aes_128_gcm"),
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => ("ecdhe_rsa", "aes_256_gcm"),
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => ("ecdhe_rsa", "chacha20_poly1305"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn every_suite_of_the_provider_has_its_words() {
        for suite in super::super::provider().cipher_suites.iter().map(|suite| suite.suite()) {
            assert!(parts(suite).is_some(), "{suite:?}");
        }
    }
}
