//! A login by password that awaits its verification, and what it costs to refuse it: the same for every name.
//!
//! Enters: a user, or none, and an offered secret.  Leaves: whether it is the right one.
//! Owns:   the decoys, one for each cost that the password of any user has.

use crate::{
    ids::UserId,
    limits::PASSWORD_COSTS_MAX,
    password::{Password, PasswordCost},
};
use std::{hint::black_box, sync::Arc};

/// Whose password is claimed to be known.
#[derive(Clone)]
pub struct PasswordClaim {
    /// `None` if nobody has that name.
    pub user: Option<UserId>,
    password: Password,
    decoys: Arc<[Password]>,
    /// It is refused even with the right password.
    is_barred: bool,
}

impl PasswordClaim {
    pub(crate) fn new(user: Option<(UserId, Password)>, decoys: &DecoyTable, is_barred: bool) -> Self {
        let (user, password) = user.map_or((None, Password::Never), |(id, password)| (Some(id), password));
        PasswordClaim { user, password, decoys: Arc::clone(&decoys.passwords), is_barred }
    }

    /// Whether refusing it takes no milliseconds: no user has an Argon2 hash.
    pub fn is_quick(&self) -> bool {
        self.decoys.is_empty() && !self.password.is_slow()
    }

    /// Whether the secret is the right one, for passwords that are verified quickly; false for others.
    pub fn is_right_at_once(&self, offered: &[u8]) -> bool {
        !self.is_barred && !self.password.is_slow() && self.password.is(offered)
    }

    /// Whether the secret is the right one. To refuse it takes the same work whatever the name is.
    pub fn verify(&self, offered: &[u8]) -> bool {
        self.verify_by(|password| password.is(offered))
    }

    /// The same, with another way to verify each password.
    fn verify_by(&self, mut is_right: impl FnMut(&Password) -> bool) -> bool {
        let is_correct = is_right(&self.password);
        if is_correct && !self.is_barred {
            return true;
        }
        let cost = self.password.cost();
        for decoy in self.decoys.iter().filter(|decoy| decoy.cost() != cost) {
            black_box(is_right(decoy));
        }
        is_correct
    }

    /// What stands for this password and this secret, once it was found correct ([`Password::mark`]).
    pub fn mark(&self, offered: &[u8], key: &[u8; 32]) -> [u8; 32] {
        self.password.mark(offered, key)
    }
}

/// The costs of all users' passwords, each with a hash that is nobody's.
#[derive(Clone)]
pub(crate) struct DecoyTable {
    /// With the number of users whose password has that cost.
    costs: Vec<(PasswordCost, usize)>,
    passwords: Arc<[Password]>,
}

impl Default for DecoyTable {
    fn default() -> Self {
        DecoyTable { costs: Vec::new(), passwords: [].into() }
    }
}

impl DecoyTable {
    /// A user has this password from now on.
    pub fn add(&mut self, password: &Password) {
        let Some(cost) = password.cost() else { return };
        match self.costs.iter_mut().find(|(known, _)| *known == cost) {
            Some((_, users)) => *users += 1,
            None => self.costs.push((cost, 1)),
        }
        self.update();
    }

    /// A user has this password no longer.
    pub fn remove(&mut self, password: &Password) {
        let Some(cost) = password.cost() else { return };
        if let Some((_, users)) = self.costs.iter_mut().find(|(known, _)| *known == cost) {
            *users -= 1;
        }
        self.costs.retain(|(_, users)| *users > 0);
        self.update();
    }

    /// Beyond [`PASSWORD_COSTS_MAX`], the costs that most users have count.
    fn update(&mut self) {
        let mut costs = self.costs.clone();
        costs.sort_by_key(|&(cost, users)| (std::cmp::Reverse(users), cost));
        costs.truncate(PASSWORD_COSTS_MAX);
        let mut costs: Vec<_> = costs.into_iter().map(|(cost, _)| cost).collect();
        costs.sort();
        if !costs.iter().copied().map(Some).eq(self.passwords.iter().map(Password::cost)) {
            self.passwords = costs.into_iter().map(Password::decoy).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DecoyTable, PasswordClaim};
    use crate::{
        ids::UserId,
        limits::PASSWORD_COSTS_MAX,
        password::{Password, PasswordCost},
    };

    const USUAL: PasswordCost = PasswordCost { memory_kib: 16, rounds: 2, lanes: 1 };
    const DEARER: PasswordCost = PasswordCost { memory_kib: 64, rounds: 3, lanes: 2 };

    /// The work of a verification, and its outcome.
    fn verified(claim: &PasswordClaim, offered: &[u8]) -> (Vec<PasswordCost>, bool) {
        let mut work = Vec::new();
        let is_correct = claim.verify_by(|password| {
            work.extend(password.cost());
            password.is(offered)
        });
        work.sort();
        (work, is_correct)
    }

    #[test]
    fn it_takes_the_same_work_to_refuse_any_name() {
        let mut decoys = DecoyTable::default();
        let kinds = [
            None,
            Some(Password::decoy(USUAL)),
            Some(Password::decoy(DEARER)),
            Some(Password::sha256(b"secret", [1; 4])),
            Some(Password::plain("secret")),
            Some(Password::Never),
        ];
        let claim = |kind: &Option<Password>, decoys: &DecoyTable, is_barred| {
            PasswordClaim::new(kind.clone().map(|password| (UserId(1), password)), decoys, is_barred)
        };
        for kind in [&kinds[0], &kinds[3], &kinds[4], &kinds[5]] {
            let claim = claim(kind, &decoys, false);
            assert!(claim.is_quick() && verified(&claim, b"wrong") == (vec![], false), "nobody has an Argon2 hash");
        }
        kinds.iter().flatten().for_each(|password| decoys.add(password));
        for kind in &kinds {
            let claim = claim(kind, &decoys, false);
            assert_eq!(verified(&claim, b"wrong"), (vec![USUAL, DEARER], false), "{kind:?}");
            assert!(!claim.is_quick());
        }
        let right = |is_barred| claim(&kinds[4], &decoys, is_barred);
        assert_eq!(verified(&right(false), b"secret"), (vec![], true));
        assert!(right(false).is_right_at_once(b"secret") && !right(true).is_right_at_once(b"secret"));
        assert_eq!(verified(&right(true), b"secret"), (vec![USUAL, DEARER], true), "it is refused for another reason");
        kinds.iter().flatten().for_each(|password| decoys.remove(password));
        assert!(claim(&None, &decoys, false).is_quick(), "they are gone");
    }

    #[test]
    fn costs_beyond_the_limit_are_those_of_the_fewest() {
        let mut decoys = DecoyTable::default();
        for rounds in 1..=2 * PASSWORD_COSTS_MAX as u32 {
            let password = Password::decoy(PasswordCost { rounds, ..USUAL });
            (0..rounds).for_each(|_| decoys.add(&password));
        }
        let rounds = decoys.passwords.iter().filter_map(Password::cost).map(|cost| cost.rounds);
        assert!(rounds.eq(PASSWORD_COSTS_MAX as u32 + 1..=2 * PASSWORD_COSTS_MAX as u32));
    }
}
