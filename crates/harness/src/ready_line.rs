//! The line by which a broker or a proxy of this program logs that it is ready, and where: the one reader of it.
//!
//! A program that starts a broker has it bind port 0 and reads the port here. A port that is looked for first and bound later
//! may belong to another program by then.

use serde_json::Value;

/// What a broker or a proxy has logged once it was ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyLine {
    /// Where clients connect, in the order of `--listen`, those over RDMA behind the others.
    pub addresses: Vec<String>,
    /// Where the management API and, behind it, metrics are served.
    pub management: Vec<String>,
}

impl ReadyLine {
    /// Reads a line of a log in JSON; `None` if it is another one.
    pub fn parse(line: &str) -> Option<Self> {
        // Most lines are others, and some of them long.
        if !line.contains(" is ready\"") {
            return None;
        }
        let fields: Value = serde_json::from_str(line).ok()?;
        if !matches!(fields.get("message")?.as_str()?, "harrier broker is ready" | "harrier proxy is ready") {
            return None;
        }
        let words = |name: &str| -> Vec<String> {
            let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        Some(Self { addresses: words("addresses"), management: words("management") })
    }

    /// The first address, without its scheme.
    ///
    /// # Errors
    /// There is none.
    pub fn first(&self) -> Result<&str, String> {
        let first = self.addresses.first().ok_or("the broker does not say where it listens")?;
        Ok(first.split_once("://").map_or(first, |(_, place)| place))
    }
}

#[cfg(test)]
mod tests {
    use super::ReadyLine;

    fn check(line: &str, expected: Option<(&[&str], &[&str])>) {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let expected = expected
            .map(|(addresses, management)| ReadyLine { addresses: owned(addresses), management: owned(management) });
        assert_eq!(ReadyLine::parse(line), expected, "{line}");
    }

    #[test]
    fn only_the_line_that_says_ready_tells_addresses() {
        let broker = r#"{"level":"INFO","message":"harrier broker is ready","addresses":"127.0.0.1:7 unix:/b","management":"[::1]:8 [::1]:9"}"#;
        check(broker, Some((&["127.0.0.1:7", "unix:/b"], &["[::1]:8", "[::1]:9"])));
        check(r#"{"message":"harrier proxy is ready","addresses":"tls://[::1]:7"}"#, Some((&["tls://[::1]:7"], &[])));
        check(r#"{"message":"refused","peer":"harrier broker is ready\"","addresses":"127.0.0.1:1"}"#, None);
        check(r#"{"message":"it is ready","addresses":"127.0.0.1:1"}"#, None);
        check(r#"2026 INFO "harrier broker is ready""#, None);
        check("", None);
    }

    #[test]
    fn the_first_address_has_no_scheme() {
        let line = |addresses: &str| ReadyLine {
            addresses: addresses.split_whitespace().map(str::to_owned).collect(),
            management: Vec::new(),
        };
        assert_eq!(line("tls://[::1]:7 127.0.0.1:8").first(), Ok("[::1]:7"));
        assert_eq!(line("127.0.0.1:8").first(), Ok("127.0.0.1:8"));
        assert!(line("").first().is_err());
    }
}
