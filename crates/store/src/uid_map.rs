//! A map by the numbers of queues.

use crate::ids::QueueUid;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type UidMap<T> = HashMap<QueueUid, T, BuildHasherDefault<UidHasher>>;

/// Mixes the number of a queue. Nobody outside chooses these numbers.
#[derive(Default)]
pub(crate) struct UidHasher(u64);

impl Hasher for UidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
