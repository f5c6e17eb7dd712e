//! The query of a request: its parameters, decoded, and the columns that are asked for.
//!
//! Enters: what follows the question mark.  Leaves: values by name; an answer with fewer fields.

use crate::api_error::ApiError;
use crate::limits::{COLUMNS_MAX, PARAMETERS_MAX};
use crate::percent;
use definitions::Json;

/// The parameters of a request. Of one that is given twice, the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `a=b&c`; a plus sign is a space, as forms write it.
    ///
    /// # Errors
    /// There are too many, or an escape is none.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let decode = |text: &str| {
            percent::decode(&text.replace('+', " "))
                .ok_or_else(|| ApiError::bad_request("an escape in the query is malformed"))
        };
        let mut parameters = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(ApiError::bad_request(format!("a query has {PARAMETERS_MAX} parameters at most")));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((decode(name)?, decode(value)?));
        }
        Ok(Self(parameters))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// One that is not given, or not `true`, is false.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// All values of a parameter that may be repeated.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// A whole number of at least 1.
    ///
    /// # Errors
    /// It is something else.
    pub fn count(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        match text.parse() {
            Ok(number) if number >= 1 => Ok(Some(number)),
            _ => Err(ApiError::bad_request(format!("{name} takes a whole number of at least 1"))),
        }
    }
}

/// Which fields an answer has: all, or those whose dotted names were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(Vec<Vec<String>>);

impl Columns {
    /// Those of `columns=a,b.c`.
    ///
    /// # Errors
    /// There are too many.
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        let text = query.get("columns").unwrap_or_default();
        let names: Vec<_> = text.split(',').filter(|name| !name.is_empty()).take(COLUMNS_MAX + 1).collect();
        if names.len() > COLUMNS_MAX {
            return Err(ApiError::bad_request(format!("{COLUMNS_MAX} columns are the most")));
        }
        Ok(Self(names.into_iter().map(|name| name.split('.').map(str::to_owned).collect()).collect()))
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// An object with the columns alone, and a list of such.
    pub fn select(&self, value: Json) -> Json {
        match value {
            value if self.is_all() => value,
            Json::List(items) => Json::List(items.into_iter().map(|item| self.select(item)).collect()),
            Json::Object(fields) => {
                let names: Vec<&[String]> = self.0.iter().map(Vec::as_slice).collect();
                Json::Object(select(fields, &names))
            }
            other => other,
        }
    }
}

fn select(fields: Vec<(String, Json)>, names: &[&[String]]) -> Vec<(String, Json)> {
    let kept = fields.into_iter().filter_map(|(key, value)| {
        let below: Vec<&[String]> = names.iter().filter(|name| name[0] == key).map(|name| &name[1..]).collect();
        match value {
            _ if below.is_empty() => None,
            value if below.iter().any(|name| name.is_empty()) => Some((key, value)),
            Json::Object(fields) => Some((key, Json::Object(select(fields, &below)))),
            // A field of something that has none.
            _ => None,
        }
    });
    kept.collect()
}

/// The value under a dotted name.
pub fn dotted<'a>(value: &'a Json, name: &str) -> Option<&'a Json> {
    name.split('.').try_fold(value, |value, part| value.get(part))
}

#[cfg(test)]
mod tests {
    use super::{Columns, Query, dotted};
    use definitions::Json;

    #[test]
    fn parameters_are_decoded_once_and_bounded() {
        let query = Query::parse("a=1%2B1&b=x+y&&c&a=2&d=%2525").expect("a query");
        let get = |name| query.get(name);
        assert_eq!((get("a"), get("b"), get("c"), get("d")), (Some("1+1"), Some("x y"), Some(""), Some("%25")));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1+1", "2"]);
        assert!(Query::parse("a=%").is_err() && Query::parse(&"a&".repeat(65)).is_err());
        assert!(Query::parse(&"a&".repeat(64)).is_ok());
        for (text, count) in
            [("n=3", Ok(Some(3))), ("n=", Ok(None)), ("", Ok(None)), ("n=0", Err(())), ("n=-1", Err(()))]
        {
            assert_eq!(Query::parse(text).expect(text).count("n").map_err(drop), count, "{text}");
        }
    }

    #[test]
    fn columns_select_fields_and_fields_of_fields() {
        let value = Json::read(br#"[{"a":1,"b":{"c":2,"d":3},"e":4}]"#).expect("JSON");
        for (columns, expected) in [
            ("", r#"[{"a":1,"b":{"c":2,"d":3},"e":4}]"#),
            ("a", r#"[{"a":1}]"#),
            ("b.c,a", r#"[{"a":1,"b":{"c":2}}]"#),
            ("b.d,b.c", r#"[{"b":{"c":2,"d":3}}]"#),
            ("b", r#"[{"b":{"c":2,"d":3}}]"#),
            ("a.x,nothing", "[{}]"),
        ] {
            let query = Query::parse(&format!("columns={columns}")).expect("a query");
            let columns = Columns::of(&query).expect("columns");
            assert_eq!(columns.select(value.clone()).line(), expected, "{columns:?}");
        }
        let Json::List(rows) = &value else { panic!("a list") };
        assert_eq!((dotted(&rows[0], "b.c"), dotted(&rows[0], "a.c")), (Some(&Json::Int(2)), None));
    }
}
