//! A login by password that awaits its verification.

use crate::login_source::LoginSource;
use broker::ConnectionSlot;
use catalog::PasswordClaim;

/// A login by password, on the connection of this slot and serial number.
pub(crate) struct LoginAttempt {
    pub slot: ConnectionSlot,
    pub serial: u32,
    pub source: LoginSource,
    /// One for a user that does not exist is verified all the same, so that it takes as long.
    pub claim: PasswordClaim,
    /// The name that was tried, for the log.
    pub user_name: Box<str>,
    pub mechanism: Vec<u8>,
    pub offered: Vec<u8>,
}

impl LoginAttempt {
    pub fn verify(&self) -> bool {
        self.claim.verify(&self.offered)
    }
}
