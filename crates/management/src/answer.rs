//! An answer before it is bytes of HTTP.

use crate::api_error::ApiError;
use crate::metrics_stream::MetricsStream;
use crate::query::Columns;
use crate::row_list::RowList;
use crate::source::ActionOutcome;
use definitions::Json;

/// What is answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Beside those that every answer has.
    pub headers: Vec<(&'static str, String)>,
    pub body: AnswerBody,
}

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    Empty,
    /// JSON, or what `Content-Type` among the headers says.
    Text(Vec<u8>),
    Rows(Box<RowList>),
    Metrics(Box<MetricsStream>),
}

impl Answer {
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: AnswerBody::Empty }
    }

    pub fn json(value: Json, columns: &Columns) -> Self {
        let text = columns.select(value).line().into_bytes();
        Self { status: 200, headers: Vec::new(), body: AnswerBody::Text(text) }
    }

    pub fn rows(rows: RowList) -> Self {
        Self { status: 200, headers: Vec::new(), body: AnswerBody::Rows(Box::new(rows)) }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn of_error(error: &ApiError) -> Self {
        let body = AnswerBody::Text(error.body().into_bytes());
        let answer = Self { status: error.status, headers: Vec::new(), body };
        match &error.allow[..] {
            [] => answer,
            methods => answer.with_header("allow", crate::route_path::allow(methods)),
        }
    }

    pub fn of_outcome(outcome: Result<ActionOutcome, ApiError>) -> Self {
        match outcome {
            Ok(ActionOutcome::Created(None)) => Self::empty(201),
            Ok(ActionOutcome::Created(Some(location))) => Self::empty(201).with_header("location", location),
            Ok(ActionOutcome::Done) => Self::empty(204),
            Ok(ActionOutcome::Answer(value)) => Self::json(value, &Columns::default()),
            Err(error) => Self::of_error(&error),
        }
    }
}
