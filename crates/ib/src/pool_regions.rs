//! The registered regions of a slab pool. Peers cannot reach them.

use std::collections::BTreeMap;
use std::fmt;

use slab::Pool;

use crate::abi;
use crate::error::IbError;
use crate::memory::StableMemory;
use crate::region::{LocalKey, ProtectionDomain, Registration};

/// The registered regions of one pool, in one protection domain.
pub struct PoolRegions {
    domain: ProtectionDomain,
    generation: u64,
    /// By start address.
    registered: BTreeMap<usize, Registration>,
}

impl PoolRegions {
    /// No regions are registered before the first [`refresh`](Self::refresh).
    pub fn new(domain: &ProtectionDomain) -> Self {
        Self { domain: domain.clone(), generation: 0, registered: BTreeMap::new() }
    }

    /// Registers the regions that the pool has mapped since the last call, and deregisters those it has unmapped. Cheap
    /// if there are none. Always pass the same pool.
    ///
    /// The pool may have unmapped a region and mapped another at the same address: call this before posting blocks of
    /// the pool, whenever that is possible.
    ///
    /// # Errors
    /// The operating system's error, `ENOMEM` where no more memory may be pinned; then what could not be registered has
    /// no key.
    pub fn refresh(&mut self, pool: &Pool) -> Result<(), IbError> {
        let generation = pool.generation();
        if generation == self.generation {
            return Ok(());
        }
        let mut there = BTreeMap::new();
        pool.regions(|start, bytes| {
            there.insert(start.addr(), (start, bytes));
        });
        let is_there = |at: &usize, one: &Registration| there.get(at).is_some_and(|&(_, bytes)| bytes == one.bytes());
        let before = self.registered.len();
        let kept = self.registered.iter().filter(|(at, one)| is_there(at, one)).count();
        let changes = (before - kept) + (there.len() - kept);
        // Each mapping and unmapping counts one. More than the visible changes: a region was replaced at the same
        // address.
        if generation.wrapping_sub(self.generation) == changes as u64 {
            self.registered.retain(|at, one| is_there(at, one));
        } else {
            self.registered.clear();
        }
        for (at, (start, bytes)) in there {
            if !self.registered.contains_key(&at) {
                // SAFETY: a region of a pool of this thread, which is mapped now. No peer may write to it.
                let one = unsafe { Registration::new(&self.domain, start, bytes, abi::ACCESS_LOCAL_WRITE) }?;
                self.registered.insert(at, one);
            }
        }
        // Set last, so that a failure is retried.
        self.generation = generation;
        Ok(())
    }

    /// The key of a block of the pool; `None` for memory of another pool, or of a region that was mapped after the last
    /// [`refresh`](Self::refresh).
    pub fn key(&self, piece: &impl StableMemory) -> Option<LocalKey> {
        let (start, _) = piece.span();
        let (_, one) = self.registered.range(..=start.as_ptr().addr()).next_back()?;
        let key = one.key();
        key.sge(piece).is_ok().then_some(key)
    }

    pub fn pinned_bytes(&self) -> usize {
        self.registered.values().map(Registration::bytes).sum()
    }
}

impl fmt::Debug for PoolRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolRegions({} regions, {} bytes)", self.registered.len(), self.pinned_bytes())
    }
}
