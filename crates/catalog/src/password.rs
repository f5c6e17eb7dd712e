//! Passwords: how a user proves itself, and how the proof is kept.
//!
//! Enters: secrets, or what was made of them; salts.  Leaves: whether a secret is the right one.
//! Owns:   the two kinds of hashes: Argon2 (PHC strings) and RabbitMQ's salted SHA-256.

use crate::limits::{ARGON2_LANES_MAX, ARGON2_MEMORY_KIB_MAX, ARGON2_ROUNDS_MAX, PASSWORD_BYTES_MAX};
use argon2::password_hash::{PasswordHash, SaltString};
use argon2::{Argon2, Params, PasswordHasher, PasswordVerifier};
use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha256};
use std::{fmt, hint::black_box, sync::Arc};

/// What the verification of one Argon2 hash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PasswordCost {
    pub memory_kib: u32,
    pub rounds: u32,
    pub lanes: u32,
}

/// How a user proves itself.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Password {
    /// By this secret.
    Plain(Box<[u8]>),
    /// By a secret that has this hash: SHA-256 of salt and secret, as RabbitMQ keeps it.
    Sha256 {
        /// What is hashed in front of the secret.
        salt: [u8; 4],
        hash: [u8; 32],
    },
    /// By a secret that has this hash, a PHC string: `$argon2id$v=19$m=19456,t=2,p=1$…`.
    Argon2(Arc<str>),
    /// By no password; a certificate may name it (`EXTERNAL`).
    Never,
}

impl Password {
    /// A secret as text.
    pub fn plain(secret: &str) -> Self {
        Self::Plain(secret.as_bytes().into())
    }

    /// A hash as text: a PHC string of Argon2, RabbitMQ's `password_hash`, or nothing for a user without a password.
    ///
    /// # Errors
    /// Why it is none.
    pub fn hashed(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Never);
        }
        if text.starts_with('$') {
            return Self::phc(text);
        }
        let why = "neither a PHC string ($argon2id$…) nor RabbitMQ's base64 of 4 bytes of salt and 32 of SHA-256";
        let mut bytes = [0; 36];
        match Base64::decode(text, &mut bytes) {
            Ok(&[a, b, c, d, ref hash @ ..]) if hash.len() == 32 => {
                let mut kept = [0; 32];
                kept.copy_from_slice(hash);
                Ok(Self::Sha256 { salt: [a, b, c, d], hash: kept })
            }
            _ => Err(why.to_owned()),
        }
    }

    fn phc(text: &str) -> Result<Self, String> {
        let parsed = PasswordHash::new(text).map_err(|error| format!("no PHC string: {error}"))?;
        if !parsed.algorithm.as_str().starts_with("argon2") {
            return Err(format!("hashes are argon2id, argon2i or argon2d, not {}", parsed.algorithm));
        }
        let params = Params::try_from(&parsed).map_err(|error| format!("no parameters of argon2: {error}"))?;
        if parsed.salt.is_none() || parsed.hash.is_none() {
            return Err("the salt or the hash is missing".to_owned());
        }
        if params.m_cost() > ARGON2_MEMORY_KIB_MAX
            || params.t_cost() > ARGON2_ROUNDS_MAX
            || params.p_cost() > ARGON2_LANES_MAX
        {
            return Err(format!(
                "m={} KiB, t={}, p={} is more than a login may cost: {ARGON2_MEMORY_KIB_MAX}, {ARGON2_ROUNDS_MAX}, {ARGON2_LANES_MAX}",
                params.m_cost(),
                params.t_cost(),
                params.p_cost()
            ));
        }
        Ok(Self::Argon2(text.into()))
    }

    /// The Argon2 hash of a secret, with the parameters that OWASP recommends (19 MiB, 2 rounds).
    ///
    /// # Panics
    /// If `argon2` refuses its own defaults.
    pub fn argon2(secret: &[u8], salt: &[u8; 16]) -> Self {
        let salt = SaltString::encode_b64(salt).expect("16 bytes are a salt");
        let hash = Argon2::default().hash_password(secret, &salt).expect("the default parameters are sound");
        Self::Argon2(hash.to_string().into())
    }

    /// RabbitMQ's hash of a secret.
    pub fn sha256(secret: &[u8], salt: [u8; 4]) -> Self {
        Self::Sha256 { salt, hash: salted(salt, secret) }
    }

    /// The hash as text, which [`hashed`](Self::hashed) reads; nothing for a user without a password. `None`: it is kept
    /// as it is.
    pub fn written(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Sha256 { salt, hash } => Some(Base64::encode_string(&[&salt[..], hash].concat())),
            Self::Argon2(text) => Some(text.to_string()),
            Self::Never => Some(String::new()),
        }
    }

    /// The secret, where it is kept as it is.
    pub fn secret(&self) -> Option<&[u8]> {
        if let Self::Plain(secret) = self { Some(secret) } else { None }
    }

    /// What checking it costs, if that is much.
    pub(crate) fn cost(&self) -> Option<PasswordCost> {
        let Self::Argon2(text) = self else { return None };
        let params = Params::try_from(&PasswordHash::new(text).ok()?).ok()?;
        Some(PasswordCost { memory_kib: params.m_cost(), rounds: params.t_cost(), lanes: params.p_cost() })
    }

    /// A hash of this cost that no secret is known for.
    pub(crate) fn decoy(cost: PasswordCost) -> Self {
        let PasswordCost { memory_kib, rounds, lanes } = cost;
        let (salt, hash) = ("ZGVjb3lkZWNveWRlY295ZA", "A".repeat(43));
        Self::Argon2(format!("$argon2id$v=19$m={memory_kib},t={rounds},p={lanes}${salt}${hash}").into())
    }

    /// Whether checking it takes milliseconds and megabytes, on purpose.
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::Argon2(_))
    }

    /// Whether this is the secret. Takes as long for a wrong one as for the right one.
    pub fn is(&self, offered: &[u8]) -> bool {
        if offered.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        match self {
            Self::Plain(secret) => same(secret, offered),
            Self::Sha256 { salt, hash } => same(hash, &salted(*salt, offered)),
            Self::Argon2(text) => {
                PasswordHash::new(text).is_ok_and(|parsed| Argon2::default().verify_password(offered, &parsed).is_ok())
            }
            Self::Never => same(&[], offered) & black_box(false),
        }
    }

    /// What stands for this password and this secret, once the one was found to be the other's: without `key` it says
    /// nothing, and it is another one as soon as the password changes.
    pub fn mark(&self, offered: &[u8], key: &[u8; 32]) -> [u8; 32] {
        let kept = self.written().unwrap_or_default();
        let inner = Sha256::new().chain_update(key).chain_update((kept.len() as u64).to_le_bytes());
        let inner = inner.chain_update(kept.as_bytes()).chain_update(offered).finalize();
        Sha256::new().chain_update(key).chain_update(inner).finalize().into()
    }
}

fn salted(salt: [u8; 4], secret: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(salt).chain_update(secret).finalize().into()
}

/// Takes as long for different bytes as for the same.
fn same(kept: &[u8], offered: &[u8]) -> bool {
    let differing = offered.iter().enumerate().fold(u8::from(kept.len() != offered.len()), |differing, (at, byte)| {
        let expected = kept.get(at % kept.len().max(1)).copied().unwrap_or_default();
        black_box(differing | (byte ^ expected))
    });
    differing == 0
}

impl fmt::Debug for Password {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Plain(_) => "Plain(…)",
            Self::Sha256 { .. } => "Sha256(…)",
            Self::Argon2(_) => "Argon2(…)",
            Self::Never => "Never",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Password;

    #[test]
    fn a_secret_is_known_by_its_hash() {
        let kinds = [
            Password::plain("s3cret"),
            Password::sha256(b"s3cret", [1, 2, 3, 4]),
            Password::argon2(b"s3cret", b"0123456789abcdef"),
        ];
        for password in kinds {
            assert!(password.is(b"s3cret"), "{password:?}");
            for wrong in [&b""[..], b"s3cre", b"s3cret ", b"S3cret", &[b'x'; 5000]] {
                assert!(!password.is(wrong), "{password:?}");
            }
            if let Some(text) = password.written() {
                assert!(Password::hashed(&text).expect("what is written is read").is(b"s3cret"), "{text}");
            }
            assert!(!format!("{password:?}").contains("cret"));
        }
        assert!(!Password::Never.is(b""));
        let slow = [Password::plain("s"), Password::sha256(b"s", [0; 4]), Password::argon2(b"s", b"0123456789abcdef")];
        assert_eq!(slow.map(|password| password.is_slow()), [false, false, true]);
    }

    #[test]
    fn a_decoy_costs_what_it_says() {
        let cost = Password::argon2(b"s3cret", b"0123456789abcdef").cost().expect("it is slow");
        let decoy = Password::decoy(cost);
        assert_eq!((decoy.cost(), decoy.is(b"s3cret"), decoy.is(b"")), (Some(cost), false, false));
        assert!(Password::hashed(&decoy.written().expect("a hash")).is_ok(), "its hash is computed");
        assert_eq!(Password::sha256(b"s3cret", [0; 4]).cost(), None);
    }

    #[test]
    fn hashes_of_others_are_read() {
        // RabbitMQ's form, the reference implementation's with other parameters, and no password at all.
        let theirs = [
            ("BHO4mSvbEi8gMwK1BJKzRwUTt/4pSwCUQ3FJpQjyTv7rOAXy", false),
            ("$argon2i$v=19$m=16,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAA", false),
            ("", false),
        ];
        for (text, expect) in theirs {
            let password = Password::hashed(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(password.is(b"guest"), expect, "{text}");
        }
        for (text, why) in [
            ("secret", "neither a PHC string"),
            ("AAAA", "neither a PHC string"),
            ("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ", "the salt or the hash is missing"),
            ("$scrypt$ln=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "hashes are argon2id"),
            ("$argon2id$v=19$m=1048576,t=2,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "more than a login may cost"),
            ("$argon2id$", "no PHC string"),
        ] {
            let refused = Password::hashed(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn a_mark_is_of_this_password_this_secret_and_this_key() {
        let (one, other) = (Password::sha256(b"a", [0; 4]), Password::sha256(b"a", [1; 4]));
        let mark = one.mark(b"a", &[0; 32]);
        assert_eq!(mark, one.mark(b"a", &[0; 32]));
        for different in [one.mark(b"b", &[0; 32]), other.mark(b"a", &[0; 32]), one.mark(b"a", &[1; 32])] {
            assert_ne!(mark, different);
        }
    }
}
