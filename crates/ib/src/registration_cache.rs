//! A registration cache: message memory of any pool and thread, registered region by region on first use.
//!
//! Peers cannot reach what it registers. A registration ends after its region is unmapped.

use std::collections::HashMap;
use std::fmt;

use slab::{BlockMut, RegionInfo, WeakRegion, Slice};

use crate::abi;
use crate::error::IbError;
use crate::region::{ProtectionDomain, LocalKey, Registration};

/// The regions that were met, in one domain.
///
/// A registration is of a whole region, for work of our own. It pins the region's pages, so one that outlives its
/// region keeps memory from the system, and does no other harm: posted work holds what it names.
/// [`sweep`](Self::sweep) ends those; a region at the address of an earlier one is registered anew, because its serial
/// number is another.
pub struct RegistrationCache {
    domain: ProtectionDomain,
    /// By the regions' serial numbers, which no two have.
    regions: HashMap<u64, (Registration, WeakRegion)>,
    /// The last that was asked for: most pieces in a row are of one region.
    last: Option<(u64, LocalKey)>,
    ended: u64,
}

impl RegistrationCache {
    /// None yet.
    pub fn new(domain: &ProtectionDomain) -> Self {
        Self { domain: domain.clone(), regions: HashMap::new(), last: None, ended: slab::regions_unmapped() }
    }

    /// Where they are registered.
    pub fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// The key of a slice.
    ///
    /// # Errors
    /// [`IbError::NotRegistered`] for an empty one; the operating system's error, `ENOMEM` where no more memory may be pinned.
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

    /// `facts` are those of memory that the caller holds while this runs.
    #[inline]
    fn lookup(&mut self, facts: RegionInfo, life: impl FnOnce() -> Option<WeakRegion>) -> Result<LocalKey, IbError> {
        match self.last {
            Some((serial, key)) if serial == facts.serial => Ok(key),
            _ => self.lookup_slow(facts, life),
        }
    }

    fn lookup_slow(&mut self, facts: RegionInfo, life: impl FnOnce() -> Option<WeakRegion>) -> Result<LocalKey, IbError> {
        let key = match self.regions.get(&facts.serial) {
            Some((one, _)) => one.key(),
            None => self.register(facts, life().ok_or(IbError::NotRegistered)?)?,
        };
        self.last = Some((facts.serial, key));
        Ok(key)
    }

    #[cold]
    fn register(&mut self, facts: RegionInfo, life: WeakRegion) -> Result<LocalKey, IbError> {
        // Room first: what has gone may be what the limit lacks.
        self.sweep();
        let start = std::ptr::with_exposed_provenance(facts.address);
        // SAFETY: the region is mapped now, because its caller holds a block of it. No peer may write to it.
        let one = unsafe { Registration::new(&self.domain, start, facts.bytes, abi::ACCESS_LOCAL_WRITE) }?;
        let key = one.key();
        self.regions.insert(facts.serial, (one, life));
        Ok(key)
    }

    /// Ends the registrations of regions that have gone. Costs next to nothing while none has.
    #[inline]
    pub fn sweep(&mut self) {
        if slab::regions_unmapped() != self.ended {
            self.sweep_now();
        }
    }

    #[cold]
    fn sweep_now(&mut self) {
        // Read first: what goes meanwhile is looked at the next time.
        self.ended = slab::regions_unmapped();
        self.regions.retain(|_, (_, life)| !life.is_unmapped());
        self.last = None;
    }

    /// How many regions are registered.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Bytes that are pinned.
    pub fn pinned_bytes(&self) -> usize {
        self.regions.values().map(|(one, _)| one.bytes()).sum()
    }
}

impl fmt::Debug for RegistrationCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Met({} regions, {} bytes)", self.regions.len(), self.pinned_bytes())
    }
}
