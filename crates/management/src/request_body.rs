//! The body of a request: JSON, forgiving where clients are not exact.
//!
//! Enters: bytes, whatever content type they say.  Leaves: fields by name.
//! Owns:   what counts for a boolean, a number and arguments.

use crate::api_error::ApiError;
use definitions::Json;
use wire::Table;

/// An object. An empty body is one without fields; keys that nobody asks for are ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestBody(Json);

impl RequestBody {
    /// Reads a body.
    ///
    /// # Errors
    /// It is no JSON, or no object.
    pub fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Json::Object(Vec::new())));
        }
        match Json::read(bytes) {
            Ok(object @ Json::Object(_)) => Ok(Self(object)),
            Ok(other) => Err(ApiError::bad_request(format!("the body is an object, not {}", other.kind()))),
            Err(why) => Err(ApiError::new(400, "not_json", why)),
        }
    }

    /// A field that is there and is not null.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.get(key).filter(|value| **value != Json::Null)
    }

    /// A list of texts, or one text with commas.
    ///
    /// # Errors
    /// It is something else.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, ApiError> {
        let wrong = || ApiError::bad_request(format!("{key} is a list of strings"));
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Json::Text(text)) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                Ok(parts.map(str::to_owned).collect())
            }
            Some(Json::List(items)) => {
                let text = |item: &Json| if let Json::Text(text) = item { Some(text.clone()) } else { None };
                items.iter().map(text).collect::<Option<_>>().ok_or_else(wrong)
            }
            Some(_) => Err(wrong()),
        }
    }

    /// An object that must be there; an empty list is one without fields.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn required_object(&self, key: &str) -> Result<Self, ApiError> {
        match self.get(key) {
            Some(object @ Json::Object(_)) => Ok(Self(object.clone())),
            Some(Json::List(items)) if items.is_empty() => Ok(Self(Json::Object(Vec::new()))),
            Some(other) => Err(ApiError::bad_request(format!("{key} is an object, not {}", other.kind()))),
            None => Err(ApiError::bad_request(format!("key_missing: {key}"))),
        }
    }

    /// The whole object.
    pub fn fields(&self) -> &Json {
        &self.0
    }

    /// A text; nothing if it is not given.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, key: &str) -> Result<Option<&str>, ApiError> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(text)),
            Some(other) => Err(ApiError::bad_request(format!("{key} is a string, not {}", other.kind()))),
        }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// It is missing, or something else.
    pub(crate) fn required_text(&self, key: &str) -> Result<&str, ApiError> {
        self.text(key)?.ok_or_else(|| ApiError::bad_request(format!("key_missing: {key}")))
    }

    /// A boolean, which may be written as text.
    ///
    /// # Errors
    /// It is something else.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, ApiError> {
        match self.get(key) {
            None => Ok(default),
            Some(Json::Bool(flag)) => Ok(*flag),
            Some(Json::Text(text)) if text == "true" => Ok(true),
            Some(Json::Text(text)) if text == "false" => Ok(false),
            // A form sends what was not filled in.
            Some(Json::Text(text)) if text.is_empty() => Ok(default),
            Some(other) => Err(ApiError::bad_request(format!("{key} is true or false, not {}", other.line()))),
        }
    }

    /// A whole number, which may be written as text.
    ///
    /// # Errors
    /// It is something else.
    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let wrong = |value: &Json| ApiError::bad_request(format!("{key} is a whole number, not {}", value.line()));
        match self.get(key) {
            None => Ok(None),
            Some(Json::Int(number)) => Ok(Some(*number)),
            Some(Json::Float(number)) if number.fract() == 0.0 && number.abs() < 2f64.powi(53) => {
                Ok(Some(*number as i64))
            }
            Some(Json::Text(text)) if text.is_empty() => Ok(None),
            Some(value @ Json::Text(text)) => text.trim().parse().map(Some).map_err(|_| wrong(value)),
            Some(value) => Err(wrong(value)),
        }
    }

    /// Arguments; an empty list is an object without fields.
    ///
    /// # Errors
    /// It is something else, or a key is too long.
    pub fn table(&self, key: &str) -> Result<Table, ApiError> {
        match self.get(key) {
            None => Ok(Table::new()),
            Some(value) => definitions::table_of_json(value)
                .map_err(|(place, why)| ApiError::bad_request(format!("{key}{place}: {why}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RequestBody;
    use wire::Value;

    #[test]
    fn a_body_is_an_object_or_empty() {
        for (body, error) in [
            ("", None),
            (" \r\n", None),
            ("{}", None),
            (r#"{"a":1}"#, None),
            ("[]", Some("bad_request")),
            ("null", Some("bad_request")),
            ("{", Some("not_json")),
            ("a=b", Some("not_json")),
            (r#"{"a":1,"a":2}"#, Some("not_json")),
        ] {
            assert_eq!(RequestBody::parse(body.as_bytes()).err().map(|error| error.error), error, "{body}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(RequestBody::parse(deep.as_bytes()).is_err(), "JSON is nested so deep only");
    }

    #[test]
    fn booleans_and_numbers_may_be_texts() {
        let body =
            br#"{"t":true,"st":"true","sf":"false","e":"","n":null,"x":"yes","i":5,"s":" 7","f":2.0,"h":1.5,"l":[]}"#;
        let body = RequestBody::parse(body).expect("a body");
        let flag = |key| body.flag(key, true).map_err(drop);
        for (key, expected) in [
            ("t", Ok(true)),
            ("st", Ok(true)),
            ("sf", Ok(false)),
            ("e", Ok(true)),
            ("n", Ok(true)),
            ("x", Err(())),
            ("i", Err(())),
        ] {
            assert_eq!(flag(key), expected, "{key}");
        }
        let number = |key| body.number(key).map_err(drop);
        for (key, expected) in [
            ("i", Ok(Some(5))),
            ("s", Ok(Some(7))),
            ("f", Ok(Some(2))),
            ("h", Err(())),
            ("e", Ok(None)),
            ("n", Ok(None)),
            ("x", Err(())),
            ("missing", Ok(None)),
        ] {
            assert_eq!(number(key), expected, "{key}");
        }
        assert_eq!((body.text("x"), body.text("n")), (Ok(Some("yes")), Ok(None)));
        assert!(body.text("i").is_err() && body.required_text("missing").is_err());
        assert!(body.table("l").is_ok_and(|table| table.is_empty()) && body.table("i").is_err());
    }

    #[test]
    fn numbers_of_arguments_stay_whole_or_not() {
        let body = RequestBody::parse(br#"{"arguments":{"a":1,"b":1.0,"c":{"d":["x"]}}}"#).expect("a body");
        let table = body.table("arguments").expect("arguments");
        assert!(matches!((table.get("a"), table.get("b")), (Some(Value::I64(1)), Some(Value::F64(_)))));
        assert_eq!(definitions::table_to_json(Some(&table)).line(), r#"{"a":1,"b":1.0,"c":{"d":["x"]}}"#);
    }
}
