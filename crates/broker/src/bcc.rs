//! Blind copies: the routing keys of a message's `BCC`, which stay with it and which nobody sees (RabbitMQ extension).
//!
//! Enters: the keys of a publish.  Leaves: one run of bytes behind the message's body, and the keys again.
//! Owns:   the form of that run: each key behind its length, and in the end the length of the whole in four octets.
//! Never:  is there for a message without them.

/// Octets of the length at the end.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The run of these keys; empty for none. Keys are no longer than a short string can be.
pub fn pack<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut run = Vec::new();
    for key in keys {
        assert!(key.len() <= catalog::limits::NAME_BYTES_MAX, "a key that no binding could have is left out before");
        run.push(key.len() as u8);
        run.extend_from_slice(key);
    }
    if !run.is_empty() {
        let length = (run.len() + LENGTH_BYTES) as u32;
        run.extend_from_slice(&length.to_le_bytes());
    }
    run
}

/// The keys of a run.
pub fn unpack(run: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = run.get(..run.len().saturating_sub(LENGTH_BYTES)).unwrap_or_default();
    std::iter::from_fn(move || {
        let (&length, behind) = rest.split_first()?;
        let (key, behind) = behind.split_at_checked(usize::from(length))?;
        rest = behind;
        Some(key)
    })
}

/// Takes the run off the end of what stands in front of it.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let length = bytes.last_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    bytes.split_at(bytes.len().saturating_sub(length as usize))
}

#[cfg(test)]
mod tests {
    use super::{pack, split, unpack};

    #[test]
    fn keys_come_out_as_they_went_in() {
        let longest = [b'k'; 255];
        let keys: [&[u8]; 4] = [b"a", b"", b"some.key", &longest];
        let run = pack(keys.into_iter());
        assert_eq!(unpack(&run).collect::<Vec<_>>(), keys);
        let message = [b"body", &*run].concat();
        assert_eq!(split(&message), (&b"body"[..], &*run));
        assert_eq!(split(&run), (&[][..], &*run));
        assert_eq!(pack(std::iter::empty()), []);
        assert_eq!(unpack(&[]).count(), 0);
    }
}
