//! The routing keys of a message's `BCC`, packed after its body: they stay with it, and no consumer sees them (RabbitMQ
//! extension).
//!
//! Each key follows its length; the last four octets are the length of the whole.

/// Octets of the length at the end.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Packs keys, each no longer than a short string. The result is empty if there are none.
pub fn pack<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    for key in keys {
        assert!(key.len() <= catalog::limits::NAME_BYTES_MAX, "the caller leaves out keys that no binding can have");
        packed.push(key.len() as u8);
        packed.extend_from_slice(key);
    }
    if !packed.is_empty() {
        let length = (packed.len() + LENGTH_BYTES) as u32;
        packed.extend_from_slice(&length.to_le_bytes());
    }
    packed
}

/// The keys of packed bytes.
pub fn unpack(packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packed.get(..packed.len().saturating_sub(LENGTH_BYTES)).unwrap_or_default();
    std::iter::from_fn(move || {
        let (&length, after) = rest.split_first()?;
        let (key, after) = after.split_at_checked(usize::from(length))?;
        rest = after;
        Some(key)
    })
}

/// Splits bytes into what is before the packed keys and the packed keys.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    bytes.split_at(bytes.len().saturating_sub(length as usize))
}

#[cfg(test)]
mod tests {
    use super::{pack, split, unpack};

    #[test]
    fn packed_keys_are_unpacked_unchanged() {
        let longest = [b'k'; 255];
        let keys: [&[u8]; 4] = [b"a", b"", b"some.key", &longest];
        let packed = pack(keys.into_iter());
        assert_eq!(unpack(&packed).collect::<Vec<_>>(), keys);
        let message = [b"body", &*packed].concat();
        assert_eq!(split(&message), (&b"body"[..], &*packed));
        assert_eq!(split(&packed), (&[][..], &*packed));
        assert_eq!(pack(std::iter::empty()), []);
        assert_eq!(unpack(&[]).count(), 0);
    }
}
