//! Rust sources as far as the house rules look into them: code without comments and literals, identifiers, declared types.

/// A source without its comments and without what stands in its string and character literals. Lines stay where they are.
pub fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source[at..];
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            string_length(rest, before).or_else(|| character_length(rest)).unwrap_or(0)
        };
        if skipped > 0 {
            // A literal stays something between its neighbours.
            out.push(' ');
            out.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
            at += skipped;
        } else {
            let next = rest.chars().next().expect("at stands on the beginning of a character");
            out.push(next);
            at += next.len_utf8();
        }
    }
    out
}

/// The bytes of a string literal that begins here, plain, raw or of bytes.
fn string_length(rest: &str, before: Option<u8>) -> Option<usize> {
    if !rest.starts_with(['"', 'r', 'b', 'c']) {
        return None;
    }
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let prefix = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'#'))?;
    if !matches!(&rest[..prefix], "" | "r" | "b" | "br" | "c" | "cr") {
        return None;
    }
    if prefix > 0 && in_word {
        return None;
    }
    let is_raw = rest[..prefix].ends_with('r');
    let hashes = if is_raw { rest[prefix..].bytes().take_while(|&byte| byte == b'#').count() } else { 0 };
    let body = prefix + hashes + 1;
    if rest.as_bytes().get(body - 1) != Some(&b'"') {
        return None;
    }
    if is_raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len()));
    }
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(body) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    Some(rest.len())
}

/// The bytes of a character literal that begins here; a lifetime is none.
fn character_length(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    if first == '\\' {
        return inner[2..].find('\'').map(|at| at + 4);
    }
    inner[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

/// The identifiers of some code, with their lines, counted from 1.
pub fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(at, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_')).map(move |word| (at + 1, word))
    })
}

/// The words of an identifier in lower case: `OutputQueue`, `output_queue` and `OUTPUT_QUEUE` are the same two.
pub fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = '_';
    for c in identifier.chars() {
        let begins = before == '_' || (c.is_uppercase() && !before.is_uppercase());
        if c != '_' {
            if begins {
                words.push(String::new());
            }
            words.last_mut().expect("the first letter begins a word").extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

/// The types that some code declares, without the associated types of traits and implementations.
pub fn types(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in code.lines() {
        let item = line.trim_start();
        let item = match item.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, rest)| rest),
            Some(rest) => rest,
            None => item,
        };
        let mut parts = item.split_whitespace();
        let is_nested = line.starts_with("    ");
        let name = match parts.next() {
            Some("struct" | "enum" | "trait" | "union") => parts.next(),
            // Those of traits and implementations are indented; so are aliases in a module of tests, which are few.
            Some("type") if !is_nested => parts.next(),
            Some("unsafe") if parts.next() == Some("trait") => parts.next(),
            _ => None,
        };
        let end = |name: &str| name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        found.extend(name.map(|name| &name[..end(name)]).filter(|name| !name.is_empty()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{code, identifiers, types, words};

    #[test]
    fn comments_and_literals_are_no_code() {
        let source = "a // b\n\"c \\\" d\" e r#\"f \" g\"# h 'i' '\\'' b\"j\" k<'l>(m) /* n\n */ o br##\"p\"## q\n";
        let code = code(source);
        let found: Vec<_> = identifiers(&code).collect();
        assert_eq!(found, [(1, "a"), (2, "e"), (2, "h"), (2, "k"), (2, "l"), (2, "m"), (3, "o"), (3, "q")]);
    }

    #[test]
    fn an_identifier_has_the_same_words_in_every_case() {
        for identifier in ["OutputQueue", "output_queue", "OUTPUT_QUEUE", "outputQueue", "_output_queue"] {
            assert_eq!(words(identifier), ["output", "queue"], "{identifier}");
        }
    }

    #[test]
    fn declared_types_are_found() {
        let source = "pub struct A;\npub(crate) enum B<T> {}\nimpl C for D {\n    type Item = E;\n}\ntype F = G;\n    struct H {\ntrait I: J {\n";
        assert_eq!(types(source), ["A", "B", "F", "H", "I"]);
    }
}
