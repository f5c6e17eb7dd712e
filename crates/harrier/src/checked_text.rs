//! Texts that the broker keeps for itself, with their checksum in the last line: what a disk has changed in them is noticed.

/// How the last line begins.
const MARK: &str = "# crc32c ";

/// The text with its checksum behind it.
pub fn seal(text: &str) -> String {
    format!("{text}{MARK}{:08x}\n", crc32c::crc32c(text.as_bytes()))
}

/// Checks a text against the checksum behind it. One of an earlier version of this program has none.
///
/// # Errors
/// The text is another one than was written.
pub fn check(text: &str) -> Result<(), String> {
    let Some((at, written)) = find(text) else { return Ok(()) };
    if written == Some(crc32c::crc32c(&text.as_bytes()[..at])) {
        return Ok(());
    }
    Err("it is not what the broker has written: its checksum differs (whoever changed it removes the last line)"
        .to_owned())
}

/// Where the last checksum begins, and what it says.
fn find(text: &str) -> Option<(usize, Option<u32>)> {
    let mut found = text.rmatch_indices(MARK).map(|(at, mark)| {
        let line = &text[at + mark.len()..];
        (at, u32::from_str_radix(line.trim_end(), 16).ok())
    });
    // A name in the text may look like the mark. Where its line does not begin with it, it counts if only a checksum follows:
    // the end of the line before is changed.
    found.find(|(at, written)| *at == 0 || text[..*at].ends_with('\n') || written.is_some())
}

#[cfg(test)]
mod tests {
    use super::{check, seal};

    #[test]
    fn what_is_changed_is_told_and_what_has_no_checksum_is_taken() {
        let text = "# A comment.\nname = \"x\"\n";
        let sealed = seal(text);
        assert!(sealed.starts_with(text) && check(&sealed).is_ok() && check(text).is_ok() && check("").is_ok());
        for at in 0..text.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("still a text");
            assert!(check(&changed).is_err(), "byte {at}");
        }
        assert!(check(&sealed[..sealed.len() - 3]).is_err(), "a part of the checksum");
        assert!(check(&format!("{sealed}more = 1\n")).is_err());
    }

    #[test]
    fn a_name_that_looks_like_a_checksum_is_none() {
        let text = "key = \"a# crc32c 0\"\n";
        assert!(check(text).is_ok() && check(&seal(text)).is_ok());
        assert!(check(&seal(text).replace("key", "Key")).is_err());
    }
}
