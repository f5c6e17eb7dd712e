//! What the system has provided to the process.

/// Bytes of the process that are in memory: of pools, of the heap, of code, and what allocators keep. `None` where the
/// system does not tell.
pub fn resident_bytes() -> Option<usize> {
    let counts = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = counts.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_bytes())
}

fn page_bytes() -> usize {
    // SAFETY: it only tells a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(crate::limits::PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(not(miri))] // There is no /proc.
    fn memory_counts_once_it_is_touched() {
        use super::resident_bytes;
        let Some(before) = resident_bytes() else { return };
        let bytes = 64 << 20;
        let mut block: Vec<u8> = Vec::with_capacity(bytes);
        assert!(resident_bytes().is_some_and(|now| now < before + bytes / 2), "reserved");
        block.resize(bytes, 1);
        assert!(resident_bytes().is_some_and(|now| now >= before + bytes / 2), "touched");
        assert_eq!(block.last(), Some(&1));
    }
}
