//! The numbers of the durable store as a table for people.

use cli::{Column, table};
use definitions::Json;

/// Headings, and the numbers below them.
const COLUMNS: [(&str, &str, ColumnUnit); 16] = [
    ("groups", "groups_written", ColumnUnit::Count),
    ("messages", "messages_written", ColumnUnit::Count),
    ("written", "bytes_written", ColumnUnit::Bytes),
    ("syncs", "syncs", ColumnUnit::Count),
    ("write p50 us", "write_us_p50", ColumnUnit::Count),
    ("p99", "write_us_p99", ColumnUnit::Count),
    ("max", "write_us_max", ColumnUnit::Count),
    ("segments", "segments_in_use", ColumnUnit::Count),
    ("spare", "segments_spare", ColumnUnit::Count),
    ("log", "log_bytes", ColumnUnit::Bytes),
    ("alive", "live_bytes", ColumnUnit::Bytes),
    ("pending", "pending_bytes", ColumnUnit::Bytes),
    ("moved", "messages_moved", ColumnUnit::Count),
    ("moved bytes", "bytes_moved", ColumnUnit::Bytes),
    ("scrubbed", "bytes_scrubbed", ColumnUnit::Bytes),
    ("damaged", "damage_found", ColumnUnit::Count),
];

#[derive(Clone, Copy)]
enum ColumnUnit {
    Count,
    Bytes,
}

/// The table of what a broker answers.
pub fn text(answer: &Json) -> String {
    let headings = std::iter::once("log").chain(COLUMNS.map(|(heading, ..)| heading));
    let mut rows = vec![headings.map(str::to_owned).collect::<Vec<_>>()];
    if let Some(Json::List(shards)) = answer.get("shards") {
        for shard in shards {
            let number = shard.get("shard").map_or_else(String::new, Json::line);
            rows.push(row(&format!("shard {number}"), shard));
        }
        if shards.len() > 1 {
            rows.extend(answer.get("all_shards").map(|all| row("all shards", all)));
        }
    }
    rows.extend(answer.get("spilled").map(|spilled| row("spilled", spilled)));
    rows.extend(answer.get("definitions").filter(|found| **found != Json::Null).map(|found| row("definitions", found)));
    let columns: Vec<Column> = std::iter::once(Column::Name).chain(COLUMNS.iter().map(|_| Column::Number)).collect();
    table(&columns, &rows)
}

fn row(name: &str, numbers: &Json) -> Vec<String> {
    let cell = |(_, key, unit): &(&str, &str, ColumnUnit)| match (numbers.get(key), unit) {
        (Some(Json::Int(number)), ColumnUnit::Count) => number.to_string(),
        (Some(Json::Int(number)), ColumnUnit::Bytes) => bytes(*number),
        // A broker of another version, or no write yet.
        _ => "-".to_owned(),
    };
    std::iter::once(name.to_owned()).chain(COLUMNS.iter().map(cell)).collect()
}

/// A number of bytes in the largest binary unit of which there are ten.
fn bytes(bytes: i64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    let mut rest = bytes;
    while rest >= 10 << 10 && unit + 1 < UNITS.len() {
        (rest, unit) = (rest >> 10, unit + 1);
    }
    format!("{rest} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_a_row_and_bytes_have_a_unit() {
        let numbers = |groups: i64| {
            format!(
                r#""groups_written":{groups},"bytes_written":{},"live_bytes":10239,"write_us_p50":null"#,
                groups << 20
            )
        };
        let answer = format!(
            r#"{{"shards":[{{"shard":0,{}}},{{"shard":1,{}}}],"all_shards":{{{}}},"spilled":{{{}}},"definitions":null}}"#,
            numbers(9),
            numbers(11),
            numbers(20),
            numbers(1)
        );
        let text = text(&Json::read(answer.as_bytes()).expect("JSON"));
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(rows.len(), 5, "{text}");
        assert_eq!(rows[1][..5], ["shard 0", "9", "-", "9216 KiB", "-"]);
        assert_eq!(rows[2][..4], ["shard 1", "11", "-", "11 MiB"]);
        assert_eq!(rows[3][..4], ["all shards", "20", "-", "20 MiB"]);
        assert_eq!(rows[3][11], "10239 B");
        assert_eq!(rows[4][..4], ["spilled", "1", "-", "1024 KiB"]);
    }

    #[test]
    fn units() {
        assert_eq!([0, 10_239, 10_240, 50 << 30].map(bytes), ["0 B", "10239 B", "10 KiB", "50 GiB"]);
    }
}
