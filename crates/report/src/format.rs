//! The output formats by name (`--format NAME`).

use crate::document::Document;
use crate::{csv, json, markdown, osu};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentFormat {
    /// OSU-style columns, printed row by row during the measurement.
    Osu,
    /// The whole document as JSON.
    Json,
    /// CSV: one row per run.
    Csv,
    /// Markdown: tables with medians and intervals.
    Markdown,
}

impl DocumentFormat {
    /// The names for the help text.
    pub const NAMES: &str = "osu|json|csv|md";

    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "osu" => Ok(Self::Osu),
            "json" => Ok(Self::Json),
            "csv" => Ok(Self::Csv),
            "md" => Ok(Self::Markdown),
            other => Err(format!("--format is one of {}, not '{other}'", Self::NAMES)),
        }
    }

    /// Whether rows are printed during the measurement and not at the end.
    pub fn is_incremental(self) -> bool {
        self == Self::Osu
    }

    /// Writes a whole document; `full`: all metrics, if the format has the choice.
    ///
    /// # Errors
    /// A value that the format cannot represent.
    pub fn write(self, document: &Document, full: bool) -> Result<String, String> {
        match self {
            Self::Osu => Ok(osu::write(document, full)),
            Self::Json => json::write(document),
            Self::Csv => Ok(csv::write(document)),
            Self::Markdown => Ok(markdown::write(document, full)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DocumentFormat;
    use crate::fixture;

    #[test]
    fn names_and_what_they_write() {
        for (name, start) in [("osu", "# harrier bench"), ("json", "{\n"), ("csv", "benchmark,"), ("md", "# Measured")]
        {
            let text = DocumentFormat::parse(name).and_then(|format| format.write(&fixture::document(), false));
            assert!(text.as_ref().is_ok_and(|text| text.starts_with(start)), "{name}: {text:?}");
        }
        assert_eq!(DocumentFormat::parse("xml"), Err("--format is one of osu|json|csv|md, not 'xml'".to_owned()));
    }
}
