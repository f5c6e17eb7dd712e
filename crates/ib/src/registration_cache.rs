//! A registration cache: message memory of any pool and thread, registered region by region on first use.
//!
//! Peers cannot reach what it registers. A registration ends after its region is unmapped.

use std::collections::HashMap;
use std::fmt;

use slab::{BlockMut, RegionInfo, Slice, WeakRegion};

use crate::abi;
use crate::error::IbError;
use crate::region::{LocalKey, ProtectionDomain, Registration};

/// The registered regions, in one protection domain.
///
/// A registration covers a whole region, for local access. It pins the region's pages, so one that outlives its region
/// wastes memory, and has no other effect: posted work holds its memory itself. [`sweep`](Self::sweep) ends such
/// registrations. A new region at the address of an earlier one has another serial number, and is registered anew.
pub struct RegistrationCache {
    domain: ProtectionDomain,
    /// By the regions' serial numbers, which are unique.
    regions: HashMap<u64, (Registration, WeakRegion)>,
    /// The last lookup: successive pieces are usually of one region.
    last: Option<(u64, LocalKey)>,
    ended: u64,
}

impl RegistrationCache {
    pub fn new(domain: &ProtectionDomain) -> Self {
        Self { domain: domain.clone(), regions: HashMap::new(), last: None, ended: slab::regions_unmapped() }
    }

    pub fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// The key of a slice.
    ///
    /// # Errors
    /// [`IbError::NotRegistered`] for an empty one; the operating system's error, `ENOMEM` where no more memory may be
    /// pinned.
    pub fn key(&mut self, slice: &Slice) -> Result<LocalKey, IbError> {
        self.lookup(slice.region().ok_or(IbError::NotRegistered)?, || slice.weak_region())
    }

    /// The key of a block.
    ///
    /// # Errors
    /// As [`key`](Self::key).
    pub fn block_key(&mut self, block: &BlockMut) -> Result<LocalKey, IbError> {
        self.lookup(block.region().ok_or(IbError::NotRegistered)?, || block.weak_region())
    }

    /// The caller holds memory of the region `facts` while this runs.
    #[inline]
    fn lookup(&mut self, facts: RegionInfo, life: impl FnOnce() -> Option<WeakRegion>) -> Result<LocalKey, IbError> {
        match self.last {
            Some((serial, key)) if serial == facts.serial => Ok(key),
            _ => self.lookup_slow(facts, life),
        }
    }

    fn lookup_slow(
        &mut self,
        facts: RegionInfo,
        life: impl FnOnce() -> Option<WeakRegion>,
    ) -> Result<LocalKey, IbError> {
        let key = match self.regions.get(&facts.serial) {
            Some((one, _)) => one.key(),
            None => self.register(facts, life().ok_or(IbError::NotRegistered)?)?,
        };
        self.last = Some((facts.serial, key));
        Ok(key)
    }

    #[cold]
    fn register(&mut self, facts: RegionInfo, life: WeakRegion) -> Result<LocalKey, IbError> {
        // First: ended registrations may free what the limit of locked memory lacks.
        self.sweep();
        let start = std::ptr::with_exposed_provenance(facts.address);
        // SAFETY: the region is mapped now, because its caller holds a block of it. No peer may write to it.
        let one = unsafe { Registration::new(&self.domain, start, facts.bytes, abi::ACCESS_LOCAL_WRITE) }?;
        let key = one.key();
        self.regions.insert(facts.serial, (one, life));
        Ok(key)
    }

    /// Ends the registrations of unmapped regions. One comparison if there are none.
    #[inline]
    pub fn sweep(&mut self) {
        if slab::regions_unmapped() != self.ended {
            self.sweep_now();
        }
    }

    #[cold]
    fn sweep_now(&mut self) {
        // Read first: regions that are unmapped meanwhile are handled by the next sweep.
        self.ended = slab::regions_unmapped();
        self.regions.retain(|_, (_, life)| !life.is_unmapped());
        self.last = None;
    }

    pub fn len(&self) -> usize {
        self.regions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    pub fn pinned_bytes(&self) -> usize {
        self.regions.values().map(|(one, _)| one.bytes()).sum()
    }
}

impl fmt::Debug for RegistrationCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistrationCache({} regions, {} bytes)", self.regions.len(), self.pinned_bytes())
    }
}
