//! How the result of a command is written: as a table, as JSON, as comma-separated values.
//!
//! Never: lets a character of a name through that a terminal obeys, or that ends a row or a column.

use cli::{Column, table};
use definitions::Json;
use wire::Escaped;

/// `--formatter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    #[default]
    Table,
    Json,
    Csv,
}

impl OutputFormat {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "table" | "pretty_table" => Some(OutputFormat::Table),
            "json" => Some(OutputFormat::Json),
            "csv" => Some(OutputFormat::Csv),
            _ => None,
        }
    }
}

/// Rows under names of columns.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputRows {
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<Json>>,
}

/// What a table looks like.
#[derive(Clone, Copy, Debug)]
pub struct TableStyle {
    pub has_heading: bool,
    /// Columns are aligned, for a terminal; otherwise tabulators are between them.
    pub is_aligned: bool,
}

impl OutputRows {
    pub fn text(&self, format: OutputFormat, style: TableStyle) -> String {
        match format {
            OutputFormat::Table => self.table(style),
            OutputFormat::Json => self.json(),
            OutputFormat::Csv => self.csv(style.has_heading),
        }
    }

    fn heading(&self) -> Vec<String> {
        self.columns.iter().map(|name| (*name).to_owned()).collect()
    }

    fn table(&self, style: TableStyle) -> String {
        let cells = self.rows.iter().map(|row| row.iter().map(cell).collect());
        let rows: Vec<Vec<String>> = style.has_heading.then(|| self.heading()).into_iter().chain(cells).collect();
        match style.is_aligned {
            true => table(&vec![Column::Name; self.columns.len()], &rows),
            false => rows.iter().map(|row| row.join("\t") + "\n").collect(),
        }
    }

    /// A list with an object on each line.
    fn json(&self) -> String {
        let object = |row: &Vec<Json>| {
            let fields = self.columns.iter().zip(row).map(|(name, value)| ((*name).to_owned(), value.clone()));
            Json::Object(fields.collect()).line()
        };
        let rows: Vec<String> = self.rows.iter().map(object).collect();
        match rows.is_empty() {
            true => "[]\n".to_owned(),
            false => format!("[\n{}\n]\n", rows.join(",\n")),
        }
    }

    fn csv(&self, has_heading: bool) -> String {
        let heading = has_heading.then(|| self.heading());
        let cells = self.rows.iter().map(|row| row.iter().map(cell).collect());
        let rows = heading.into_iter().chain(cells);
        rows.map(|row: Vec<String>| row.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n").collect()
    }
}

/// An object: as it is in JSON, and otherwise as two columns.
pub fn object_text(object: &Json, format: OutputFormat, style: TableStyle) -> String {
    match (format, object) {
        (OutputFormat::Json, object) => object.page() + "\n",
        (format, Json::Object(fields)) => {
            let rows = fields.iter().map(|(key, value)| vec![Json::text(key), value.clone()]).collect();
            OutputRows { columns: vec!["key", "value"], rows }.text(format, style)
        }
        (_, other) => cell(other) + "\n",
    }
}

/// A value in a column.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::Text(text) => Escaped(text).to_string(),
        Json::List(items) if items.iter().all(|item| !matches!(item, Json::List(_) | Json::Object(_))) => {
            format!("[{}]", items.iter().map(cell).collect::<Vec<_>>().join(", "))
        }
        other => Escaped(other.line()).to_string(),
    }
}

/// A field of comma-separated values (RFC 4180 §2).
fn quoted(cell: &str) -> String {
    match cell.contains(['"', ',']) || cell.starts_with(' ') || cell.ends_with(' ') {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{OutputFormat, OutputRows, TableStyle, object_text};
    use definitions::Json;

    const PLAIN: TableStyle = TableStyle { has_heading: true, is_aligned: false };

    fn rows() -> OutputRows {
        let row = |name: &str, rest: &str| vec![Json::text(name), Json::read(rest.as_bytes()).expect("JSON")];
        let rows =
            vec![row("a", "5"), row("a,\"b\"", r#"["x","y"]"#), row("\x1b[2J\t\n", r#"{"k":[1]}"#), row("", "null")];
        OutputRows { columns: vec!["name", "value"], rows }
    }

    #[test]
    fn tables_have_a_row_a_line() {
        let expect = "name\tvalue\na\t5\na,\"b\"\t[x, y]\n\\u001b[2J\\t\\n\t{\"k\":[1]}\n\t\n";
        assert_eq!(rows().text(OutputFormat::Table, PLAIN), expect);
        let silent = TableStyle { has_heading: false, ..PLAIN };
        assert_eq!(rows().text(OutputFormat::Table, silent), expect.split_once('\n').expect("lines").1);
        let aligned = rows().text(OutputFormat::Table, TableStyle { is_aligned: true, ..PLAIN });
        assert!(aligned.starts_with("name           value\na              5\n"), "{aligned}");
    }

    #[test]
    fn comma_separated_values_are_quoted_where_they_have_to_be() {
        let expect = "name,value\na,5\n\"a,\"\"b\"\"\",\"[x, y]\"\n\\u001b[2J\\t\\n,\"{\"\"k\"\":[1]}\"\n,\n";
        assert_eq!(rows().text(OutputFormat::Csv, PLAIN), expect);
    }

    #[test]
    fn json_keeps_every_value() {
        let text = rows().text(OutputFormat::Json, PLAIN);
        let Json::List(read) = Json::read(text.as_bytes()).expect("JSON") else { panic!("a list") };
        assert_eq!(read[2].get("name"), Some(&Json::text("\x1b[2J\t\n")));
        assert_eq!(read[1].get("value"), Some(&Json::List(vec![Json::text("x"), Json::text("y")])));
        let none = OutputRows { columns: vec!["name"], rows: vec![] };
        assert_eq!(none.text(OutputFormat::Json, PLAIN), "[]\n");
        let object = Json::Object(vec![("a".to_owned(), Json::Int(1))]);
        assert_eq!(object_text(&object, OutputFormat::Csv, PLAIN), "key,value\na,1\n");
        assert_eq!(object_text(&object, OutputFormat::Json, PLAIN), "{\n  \"a\": 1\n}\n");
    }
}
