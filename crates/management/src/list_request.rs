//! What a client asks of a list: which rows, in which order, which page.
//!
//! Enters: a query.  Leaves: a filter of names, an order, a page; the numbers around a page.
//! Owns:   the bounds of each: what a filter costs is linear in the name, and a page has so many rows at most.

use crate::api_error::ApiError;
use crate::limits::{PAGE_ROWS, PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX};
use crate::query::{Columns, Query, dotted};
use definitions::Json;
use regex::{Regex, RegexBuilder};
use std::cmp::Ordering;

/// Which names a list has.
#[derive(Clone, Debug)]
pub enum NameFilter {
    All,
    /// In lower case, looked for in names in lower case.
    Contains(String),
    Pattern(Regex),
}

impl NameFilter {
    pub(crate) fn takes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Contains(text) => name.to_lowercase().contains(text),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }
}

/// A page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// From 1.
    pub number: usize,
    pub rows: usize,
}

/// What is asked of a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    pub filter: NameFilter,
    /// The dotted name of the field by which it is sorted.
    pub sort: Option<String>,
    pub is_reverse: bool,
    /// Without one, the whole list.
    pub page: Option<PageRequest>,
    pub columns: Columns,
}

impl ListRequest {
    /// Reads the parameters of any list, whose pages have so many rows at most.
    ///
    /// # Errors
    /// One of them is malformed, or too large.
    pub fn of(query: &Query, page_rows_max: usize) -> Result<Self, ApiError> {
        let rows = query.count("page_size")?.unwrap_or(PAGE_ROWS);
        // As in RabbitMQ, a size alone asks for no page.
        let page = query.count("page")?.map(|number| PageRequest { number, rows });
        if page.is_some() && rows > page_rows_max {
            return Err(ApiError::bad_request(format!("page_size is {page_rows_max} at most")));
        }
        let filter = match query.get("name").unwrap_or_default() {
            "" => NameFilter::All,
            text if text.len() > PATTERN_BYTES_MAX => {
                return Err(ApiError::bad_request(format!("name has {PATTERN_BYTES_MAX} bytes at most")));
            }
            text if query.is_set("use_regex") => {
                let pattern = RegexBuilder::new(text).size_limit(PATTERN_COMPILED_BYTES_MAX).build();
                NameFilter::Pattern(pattern.map_err(|error| ApiError::bad_request(format!("name: {error}")))?)
            }
            text => NameFilter::Contains(text.to_lowercase()),
        };
        Ok(Self {
            filter,
            sort: query.get("sort").filter(|name| !name.is_empty()).map(str::to_owned),
            is_reverse: query.is_set("sort_reverse"),
            page,
            columns: Columns::of(query)?,
        })
    }

    /// Sorts rendered rows by the field that was asked for. Rows without it come first.
    pub fn sort<T>(&self, rows: &mut [(Json, T)]) {
        if self.sort.is_some() {
            rows.sort_by(|(one, _), (other, _)| compare(one, other));
        }
        if self.is_reverse {
            rows.reverse();
        }
    }

    /// The field of a row by which it is sorted.
    pub fn key(&self, row: &Json) -> Json {
        self.sort.as_ref().and_then(|name| dotted(row, name)).cloned().unwrap_or(Json::Null)
    }
}

/// Where a page lies in a list, and the numbers that go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePlace {
    pub page: PageRequest,
    /// All rows, those that the filter takes, and those of this page.
    pub total: usize,
    pub filtered: usize,
    pub items: usize,
}

impl PageRequest {
    /// The place of this page among `filtered` rows out of `total`.
    ///
    /// # Errors
    /// It is beyond the end; the first page never is.
    pub fn place(self, total: usize, filtered: usize) -> Result<PagePlace, ApiError> {
        let begin = (self.number - 1).saturating_mul(self.rows);
        if begin >= filtered && self.number > 1 {
            let reason = format!("Page out of range, page: {} page size: {}, len: {filtered}", self.number, self.rows);
            return Err(ApiError::new(400, "page_out_of_range", reason));
        }
        Ok(PagePlace { page: self, total, filtered, items: (filtered - begin.min(filtered)).min(self.rows) })
    }
}

impl PagePlace {
    /// The rows before this page.
    pub fn begin(&self) -> usize {
        (self.page.number - 1) * self.page.rows
    }

    /// The fields beside `items`.
    pub fn fields(&self) -> [(&'static str, usize); 6] {
        [
            ("total_count", self.total),
            ("item_count", self.items),
            ("filtered_count", self.filtered),
            ("page", self.page.number),
            ("page_size", self.page.rows),
            ("page_count", self.filtered.div_ceil(self.page.rows).max(1)),
        ]
    }
}

fn rank(value: &Json) -> u8 {
    match value {
        Json::Null => 0,
        Json::Bool(_) => 1,
        Json::Int(_) | Json::Float(_) => 2,
        Json::Text(_) => 3,
        Json::List(_) | Json::Object(_) => 4,
    }
}

fn number(value: &Json) -> f64 {
    match value {
        Json::Int(number) => *number as f64,
        Json::Float(number) => *number,
        _ => 0.0,
    }
}

fn compare(one: &Json, other: &Json) -> Ordering {
    match (one, other) {
        (Json::Int(one), Json::Int(other)) => one.cmp(other),
        (Json::Text(one), Json::Text(other)) => one.cmp(other),
        (Json::Bool(one), Json::Bool(other)) => one.cmp(other),
        _ => rank(one).cmp(&rank(other)).then_with(|| number(one).total_cmp(&number(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::{ListRequest, PageRequest};
    use crate::limits::PAGE_ROWS_MAX;
    use crate::query::Query;
    use definitions::Json;

    fn request(query: &str) -> Result<ListRequest, String> {
        ListRequest::of(&Query::parse(query).expect(query), PAGE_ROWS_MAX).map_err(|error| error.reason)
    }

    #[test]
    fn a_filter_contains_in_any_case_or_is_a_regular_expression() {
        let long = format!("name={}", "a".repeat(1025));
        let costly = "name=((a{1,100}){1,100}){1,100}&use_regex=true";
        for (query, name, takes) in [
            ("", "anything", true),
            ("name=", "anything", true),
            ("name=ORD", "my-orders", true),
            ("name=^ord", "orders", false),
            ("name=%5Eord&use_regex=true", "orders", true),
            ("name=%5Eord&use_regex=true", "my-orders", false),
            ("name=%5Eord&use_regex=false", "orders", false),
            ("name=.%2B&use_regex=true", "", false),
        ] {
            assert_eq!(request(query).expect(query).filter.takes(name), takes, "{query} {name}");
        }
        for query in [&long, costly, "name=(&use_regex=true"] {
            assert!(request(query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_page_has_its_place_and_its_numbers() {
        let page = |query| request(query).map(|request| request.page);
        assert_eq!(page(""), Ok(None));
        assert_eq!(page("pagination=false"), Ok(None));
        assert_eq!(page("page=2"), Ok(Some(PageRequest { number: 2, rows: 100 })));
        assert_eq!(page("page=1&page_size=500&pagination=false"), Ok(Some(PageRequest { number: 1, rows: 500 })));
        assert_eq!(page("page_size=7"), Ok(None), "the whole list");
        for query in ["page=0", "page=x", "page=1&page_size=0", "page=1&page_size=501"] {
            assert!(page(query).is_err(), "{query}");
        }
        let place = |number, rows, total, filtered| {
            let place = PageRequest { number, rows }.place(total, filtered).map_err(|error| error.error)?;
            Ok((place.begin(), place.fields().map(|(_, value)| value)))
        };
        assert_eq!(place(1, 10, 0, 0), Ok((0, [0, 0, 0, 1, 10, 1])));
        assert_eq!(place(1, 10, 25, 25), Ok((0, [25, 10, 25, 1, 10, 3])));
        assert_eq!(place(3, 10, 99, 25), Ok((20, [99, 5, 25, 3, 10, 3])));
        assert_eq!(place(4, 10, 99, 25), Err("page_out_of_range"));
        assert_eq!(place(usize::MAX, 500, 99, 25), Err("page_out_of_range"));
    }

    #[test]
    fn rows_are_sorted_by_a_dotted_field_of_any_kind() {
        let sorted = |query: &str, rows: &str| {
            let request = request(query).expect(query);
            let Json::List(rows) = Json::read(rows.as_bytes()).expect("JSON") else { panic!("a list") };
            let mut rows: Vec<_> = rows.into_iter().map(|row| (request.key(&row), row)).collect();
            request.sort(&mut rows);
            Json::List(rows.into_iter().map(|(_, row)| row).collect()).line()
        };
        assert_eq!(sorted("sort=a", r#"[{"a":10},{"a":9.5},{},{"a":"x"}]"#), r#"[{},{"a":9.5},{"a":10},{"a":"x"}]"#);
        assert_eq!(
            sorted("sort=a.b&sort_reverse=true", r#"[{"a":{"b":1}},{"a":{"b":2}}]"#),
            r#"[{"a":{"b":2}},{"a":{"b":1}}]"#
        );
        assert_eq!(sorted("", "[{\"a\":2},{\"a\":1}]"), "[{\"a\":2},{\"a\":1}]");
    }
}
