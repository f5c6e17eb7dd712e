//! A page with one hand-made table, for results that are not documents (`perf`), and HTML escaping.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::style_sheet::STYLE;

/// A table with its heading.
#[derive(Clone, Debug)]
pub struct PageSection {
    pub name: String,
    /// Lines below the heading.
    pub facts: Vec<String>,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Formats a number for a table.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 1_000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.3}"),
    }
}

/// Writes a file and creates its parent directories.
///
/// # Errors
/// The file's name and the error of the system.
pub fn write_file(path: &Path, text: &str) -> Result<(), String> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

pub fn render_section(section: &PageSection) -> String {
    let mut html = opening("Harrier benchmarks");
    _ = writeln!(html, "<header><h1>{}</h1>", escaped(&section.name));
    for fact in &section.facts {
        _ = writeln!(html, "<p>{}</p>", escaped(fact));
    }
    html.push_str("</header>\n");
    html.push_str(&table(section));
    html + "</body>\n</html>\n"
}

pub fn table(section: &PageSection) -> String {
    let mut html = "<div class=\"wide\"><table>\n<thead><tr>".to_owned();
    for column in &section.columns {
        _ = write!(html, "<th scope=\"col\">{}</th>", escaped(column));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &section.rows {
        html.push_str("<tr>");
        for cell in row {
            let text = escaped(cell);
            // A verdict that needs attention is highlighted.
            _ = write!(html, "<td>{}</td>", if cell == "miss" { format!("<b>{text}</b>") } else { text });
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// The start of every page, up to its body.
pub fn opening(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n",
        escaped(title)
    )
}

/// Escapes a text for HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_a_whole_page() {
        let section = PageSection {
            name: "perf".to_owned(),
            facts: vec!["a < b & \"c\"".to_owned()],
            columns: vec!["figure".to_owned(), "verdict".to_owned()],
            rows: vec![vec!["rate".to_owned(), "miss".to_owned()]],
        };
        let html = render_section(&section);
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
        assert!(html.contains("<h1>perf</h1>\n<p>a &lt; b &amp; &quot;c&quot;</p>"), "{html}");
        assert!(html.contains("<tr><td>rate</td><td><b>miss</b></td></tr>"), "{html}");
    }

    #[test]
    fn files_are_written_with_their_folders() {
        let folder = std::env::temp_dir().join(format!("harrier-report-{}", std::process::id()));
        let path = folder.join("a/b.txt");
        write_file(&path, "text").expect("a written file");
        let found = fs::read_to_string(&path).expect("the file");
        fs::remove_dir_all(&folder).expect("the folder is removed");
        assert_eq!(found, "text");
        assert!(write_file(Path::new("/dev/null/x"), "").is_err_and(|why| why.starts_with("/dev/null/x: ")));
    }
}
