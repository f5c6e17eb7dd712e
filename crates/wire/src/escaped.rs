//! Text of others as it may be shown: what moves a terminal's cursor, ends a line or turns the reading direction is escaped.
//!
//! The escapes are those of JSON, so that they may stand within its strings.

use std::fmt::{self, Display, Formatter, Write};

/// Displays a value on one line, with every control character escaped.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(EscapingWriter { to, keeps_lines: false }, "{}", self.0)
    }
}

/// Displays a text of several lines, with every control character escaped but the ends of lines and tabulators.
#[derive(Clone, Copy, Debug)]
pub struct EscapedLines<T>(pub T);

impl<T: Display> Display for EscapedLines<T> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(EscapingWriter { to, keeps_lines: true }, "{}", self.0)
    }
}

/// Whether a terminal does something else with a character than to show it in its place.
fn is_unsafe(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

struct EscapingWriter<'a, 'b> {
    to: &'a mut Formatter<'b>,
    keeps_lines: bool,
}

impl Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) =
            rest.find(|letter| is_unsafe(letter) && !(self.keeps_lines && matches!(letter, '\n' | '\t')))
        {
            let (plain, behind) = rest.split_at(at);
            self.to.write_str(plain)?;
            let mut letters = behind.chars();
            match letters.next() {
                Some('\n') => self.to.write_str("\\n")?,
                Some('\r') => self.to.write_str("\\r")?,
                Some('\t') => self.to.write_str("\\t")?,
                Some(letter) => write!(self.to, "\\u{:04x}", u32::from(letter))?,
                None => {}
            }
            rest = letters.as_str();
        }
        self.to.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Escaped, EscapedLines};

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_the_rest_is_shown() {
        for (text, one_line, lines) in [
            ("", "", ""),
            ("Größe 1 \\ \"x\" 日本", "Größe 1 \\ \"x\" 日本", "Größe 1 \\ \"x\" 日本"),
            ("a\nb\r\n\tc", "a\\nb\\r\\n\\tc", "a\nb\\r\n\tc"),
            ("\x1b]0;owned\x07", "\\u001b]0;owned\\u0007", "\\u001b]0;owned\\u0007"),
            ("\0\x7f\u{9b}2J\u{85}", "\\u0000\\u007f\\u009b2J\\u0085", "\\u0000\\u007f\\u009b2J\\u0085"),
            ("\u{202e}txt\u{2028}\u{2066}", "\\u202etxt\\u2028\\u2066", "\\u202etxt\\u2028\\u2066"),
        ] {
            assert_eq!(Escaped(text).to_string(), one_line, "{text:?}");
            assert_eq!(EscapedLines(text).to_string(), lines, "{text:?}");
        }
        assert_eq!(Escaped(format_args!("{}{}", "a\n", 5)).to_string(), "a\\n5");
    }
}
