//! Logins by password (RFC 7617): who offers what, who was right before, and who is often wrong.
//!
//! Enters: a header, the outcome of checks.  Leaves: credentials; whether a password is known to be right; how long a refusal is
//!         held back.
//! Owns:   keyed digests of right passwords, and failures by address. A password is not kept.

use crate::limits::{
    CREDENTIALS_BYTES_MAX, LOGIN_DELAY_STEP, LOGIN_FAILURE_DECAY, LOGIN_FAILURES_FREE, LOGIN_FAILURES_MAX,
    LOGIN_SOURCES_MAX, VERIFIED_PASSWORDS_MAX,
};
use base64ct::{Base64, Encoding};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// A name and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}

impl Credentials {
    /// What the header `Authorization` has, if that is Basic.
    pub fn of(header: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(header).ok().filter(|text| text.len() <= CREDENTIALS_BYTES_MAX)?;
        let (scheme, encoded) = text.split_once(' ')?;
        let decoded = Base64::decode_vec(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        Some(Self { user: decoded[..colon].to_vec(), password: decoded[colon + 1..].to_vec() })
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Credentials({} …)", self.user.escape_ascii())
    }
}

/// The address by which failures are counted: of IPv6 the network of 64 bits.
pub fn login_source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

struct FailureCount {
    failures: u32,
    counted_at: Instant,
}

impl FailureCount {
    fn now(&self, now: Instant) -> u32 {
        let aged = now.saturating_duration_since(self.counted_at).as_secs() / LOGIN_FAILURE_DECAY.as_secs();
        self.failures.saturating_sub(u32::try_from(aged).unwrap_or(u32::MAX))
    }
}

/// What is remembered of logins.
#[derive(Default)]
pub(crate) struct LoginChecks {
    verified: HashSet<[u8; 32]>,
    failures: HashMap<IpAddr, FailureCount>,
}

impl LoginChecks {
    /// Whether the password with this digest was right before.
    pub fn is_verified(&self, mark: &[u8; 32]) -> bool {
        self.verified.contains(mark)
    }

    /// A password was right.
    pub fn remember(&mut self, mark: [u8; 32]) {
        if self.verified.len() >= VERIFIED_PASSWORDS_MAX {
            self.verified.clear();
        }
        self.verified.insert(mark);
    }

    /// Counts a login that failed. Returns for how long the refusal is held back.
    pub(crate) fn count_failure(&mut self, peer: IpAddr, now: Instant) -> Duration {
        let source = login_source(peer);
        if self.failures.len() >= LOGIN_SOURCES_MAX && !self.failures.contains_key(&source) {
            self.failures.retain(|_, count| count.now(now) > 0);
            if self.failures.len() >= LOGIN_SOURCES_MAX {
                return Duration::ZERO;
            }
        }
        let count = self.failures.entry(source).or_insert(FailureCount { failures: 0, counted_at: now });
        *count = FailureCount { failures: (count.now(now) + 1).min(LOGIN_FAILURES_MAX), counted_at: now };
        LOGIN_DELAY_STEP * count.failures.saturating_sub(LOGIN_FAILURES_FREE)
    }

    /// Whether an address has failed often lately.
    pub fn is_suspect(&self, peer: IpAddr, now: Instant) -> bool {
        self.failures.get(&login_source(peer)).is_some_and(|count| count.now(now) > LOGIN_FAILURES_FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, LoginChecks, login_source};
    use crate::limits::{
        LOGIN_DELAY_STEP, LOGIN_FAILURE_DECAY, LOGIN_FAILURES_FREE, LOGIN_FAILURES_MAX, LOGIN_SOURCES_MAX,
        VERIFIED_PASSWORDS_MAX,
    };
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    #[test]
    fn credentials_are_what_basic_says() {
        let of = |header: &str| Credentials::of(header.as_bytes()).map(|found| (found.user, found.password));
        let guest = Some((b"guest".to_vec(), b"gu:est".to_vec()));
        assert_eq!(of("Basic Z3Vlc3Q6Z3U6ZXN0"), guest);
        assert_eq!(of("bAsIc  Z3Vlc3Q6Z3U6ZXN0"), guest);
        assert_eq!(of("Basic Og=="), Some((vec![], vec![])));
        for wrong in ["", "Basic", "Basic Z3Vlc3Q=", "Bearer Z3Vlc3Q6Z3U6ZXN0", "Basic !", "Basic Z3Vlc3Q6Z3U6ZXN"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert!(Credentials::of(&[b'a'; 9000]).is_none() && Credentials::of(b"Basic \xff").is_none());
        let shown = format!("{:?}", Credentials { user: b"u\n".to_vec(), password: b"secret".to_vec() });
        assert!(!shown.contains("secret") && !shown.contains('\n'), "{shown}");
    }

    #[test]
    fn who_fails_often_is_held_back_and_the_table_is_bounded() {
        #[expect(clippy::disallowed_methods, reason = "an instant from which the test counts")]
        let now = Instant::now();
        let address = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(number));
        let mut checks = LoginChecks::default();
        for _ in 0..LOGIN_FAILURES_FREE {
            assert_eq!(checks.count_failure(address(1), now), Duration::ZERO);
        }
        assert!(!checks.is_suspect(address(1), now));
        assert_eq!(checks.count_failure(address(1), now), LOGIN_DELAY_STEP);
        assert!(checks.is_suspect(address(1), now) && !checks.is_suspect(address(2), now));
        let most = LOGIN_DELAY_STEP * (LOGIN_FAILURES_MAX - LOGIN_FAILURES_FREE);
        assert_eq!((0..1_000).map(|_| checks.count_failure(address(1), now)).max(), Some(most));
        assert!(!checks.is_suspect(address(1), now + LOGIN_FAILURE_DECAY * LOGIN_FAILURES_MAX));
        for number in 0..2 * LOGIN_SOURCES_MAX as u32 {
            checks.count_failure(address(number), now);
        }
        assert_eq!(checks.failures.len(), LOGIN_SOURCES_MAX);
        checks.count_failure(address(u32::MAX), now + LOGIN_FAILURE_DECAY * (LOGIN_FAILURES_MAX + 1));
        assert_eq!(checks.failures.len(), 1, "the others have aged");
    }

    #[test]
    fn digests_of_right_passwords_are_bounded() {
        let mut checks = LoginChecks::default();
        let mark = |number: usize| {
            let mut mark = [0; 32];
            mark[..8].copy_from_slice(&number.to_le_bytes());
            mark
        };
        for number in 0..=VERIFIED_PASSWORDS_MAX {
            checks.remember(mark(number));
            assert!(checks.is_verified(&mark(number)) && !checks.is_verified(&mark(number + 1)));
        }
        assert!(!checks.is_verified(&mark(0)) && checks.verified.len() == 1);
    }

    #[test]
    fn a_host_is_one_source() {
        let same = |one: &str, other: &str| {
            let of = |text: &str| login_source(text.parse().expect("an address"));
            of(one) == of(other)
        };
        assert!(same("2001:db8::1", "2001:db8::2") && same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2") && !same("2001:db8::1", "2001:db8:1::1"));
    }
}
