//! Converts the times in a line of JSON from one rank's clock to another's.
//!
//! Times are the fields listed in `TIMES` and those whose names end in `_at_ns`; any other `_ns` field is a duration.

use serde_json::Value;

const TIMES: [&str; 5] = ["begin_ns", "began_ns", "end_ns", "ended_ns", "last_ns"];

fn is_time(name: &str) -> bool {
    TIMES.contains(&name) || name.ends_with("_at_ns")
}

/// Whether a line may contain a time.
pub fn has_times(line: &str) -> bool {
    TIMES.iter().any(|name| line.contains(name)) || line.contains("_at_ns\"")
}

/// Applies a function to every time in the line.
///
/// # Errors
/// The line is not JSON.
pub fn map_times(line: &str, shift: &dyn Fn(u64) -> u64) -> Result<String, String> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| format!("{error} in '{line}'"))?;
    map_value(&mut value, false, shift);
    Ok(value.to_string())
}

fn map_value(value: &mut Value, is_a_time: bool, shift: &dyn Fn(u64) -> u64) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| map_value(value, is_time(name), shift)),
        // An array of times has the field name of a time.
        Value::Array(values) => values.iter_mut().for_each(|value| map_value(value, is_a_time, shift)),
        Value::Number(number) if is_a_time => {
            if let Some(time_ns) = number.as_u64() {
                *value = shift(time_ns).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role_protocol::RoleReport;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(has_times(line), line != expected, "{line}");
        assert_eq!(map_times(line, &|time_ns| time_ns + 1_000).as_deref(), Ok(expected));
    }

    #[test]
    fn only_times_are_moved() {
        check(r#"{"began_ns":5,"elapsed_ns":7}"#, r#"{"began_ns":1005,"elapsed_ns":7}"#);
        check(r#"{"Published":{"ended_ns":9,"count":1}}"#, r#"{"Published":{"count":1,"ended_ns":1009}}"#);
        check(r#"{"Begin":{"begin_ns":1}}"#, r#"{"Begin":{"begin_ns":1001}}"#);
        check(r#"{"sent_at_ns":[1,2],"delay_ns":[1,2]}"#, r#"{"delay_ns":[1,2],"sent_at_ns":[1001,1002]}"#);
        check(r#"{"start_at_ns":null}"#.replace("null", "3").as_str(), r#"{"start_at_ns":1003}"#);
        check("\"Armed\"", "\"Armed\"");
        assert!(map_times("no JSON", &|time_ns| time_ns).is_err());
    }

    #[test]
    fn a_report_keeps_its_form() {
        let report = RoleReport::Ready { port: 7 };
        let line = serde_json::to_string(&report).expect("it has a form");
        let moved = map_times(&line, &|time_ns| time_ns + 1).expect("it is JSON");
        assert!(matches!(serde_json::from_str(&moved), Ok(RoleReport::Ready { port: 7 })));
    }
}
