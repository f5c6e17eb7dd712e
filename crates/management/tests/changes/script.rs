//! Requests in a row to one API, and what is expected of each.

use crate::support;
use definitions::Json;
use management::{
    Action, ActionKind, Answer, AnswerBody, Api, ApiError, ApiOptions, ApiReply, CatalogSource, PlannedChange,
    RequestBody, RequestHead, Source, plan,
};

/// User, method, path, body; status, and what the answer has in it: text of its body, or the value of `Location`.
pub type Line<'a> = (&'a str, &'a str, &'a str, &'a str, u16, &'a str);

/// An API over a catalog.
pub struct Script {
    pub source: CatalogSource,
    api: Api,
}

impl Script {
    /// Over the usual definitions.
    pub fn new() -> Self {
        Self::over(support::source())
    }

    pub fn over(mut source: CatalogSource) -> Self {
        let api = Api::new(ApiOptions::default(), &mut source);
        Self { source, api }
    }

    /// Asks, and answers with the status and the text of the body or of `Location`.
    pub fn ask(&mut self, user: &str, method: &str, target: &str, body: &[u8]) -> (u16, String) {
        let head = RequestHead { method: method.to_owned(), target: target.to_owned(), ..RequestHead::default() };
        let request = match self.api.route(&head) {
            Ok(request) => request,
            Err(answer) => return self.shown(answer),
        };
        let (id, _) = self.source.catalog.user_by_name(user).expect("the user is there");
        let viewer = match self.api.admit(&self.source, &request, id) {
            Ok(viewer) => viewer,
            Err(error) => return self.shown(Answer::of_error(&error)),
        };
        let answer = match self.api.answer(&mut self.source, &request, Some(&viewer), body) {
            ApiReply::Now(answer) => answer,
            ApiReply::Later(mut outcome) => Answer::of_outcome(outcome.try_recv().expect("it is answered at once")),
        };
        self.shown(answer)
    }

    fn shown(&self, answer: Answer) -> (u16, String) {
        let text = match answer.body {
            AnswerBody::Empty => answer.headers.iter().find(|(name, _)| *name == "location"),
            AnswerBody::Text(text) => return (answer.status, String::from_utf8(text).expect("text")),
            AnswerBody::Rows(mut rows) => {
                let pieces = std::iter::from_fn(|| rows.next_piece(&self.source)).flatten().collect();
                return (answer.status, String::from_utf8(pieces).expect("text"));
            }
            AnswerBody::Metrics(_) => panic!("metrics are no answer to a change"),
        };
        (answer.status, text.map(|(_, value)| value.clone()).unwrap_or_default())
    }

    /// Asks line by line. An empty expectation is an answer without a body.
    pub fn run(&mut self, lines: &[Line<'_>]) {
        for (user, method, target, body, status, expected) in lines {
            let (found, text) = self.ask(user, method, target, body.as_bytes());
            assert_eq!(found, *status, "{user} {method} {target} {body}: {text}");
            let is_right = if expected.is_empty() { text.is_empty() } else { text.contains(expected) };
            assert!(is_right, "{user} {method} {target} {body}: {text}, not {expected}");
        }
    }

    /// A file of all definitions.
    pub fn export(&mut self) -> Json {
        let (status, text) = self.ask("guest", "GET", "/api/definitions", b"");
        assert_eq!(status, 200, "{text}");
        Json::read(text.as_bytes()).expect("JSON")
    }

    /// Plans a change, with a header `X-Reason`.
    pub fn plan(
        &mut self,
        user: &str,
        method: &str,
        target: &str,
        body: &str,
        reason: Option<&str>,
    ) -> Result<PlannedChange, ApiError> {
        let head = RequestHead { method: method.to_owned(), target: target.to_owned(), ..RequestHead::default() };
        let request = self.api.route(&head).unwrap_or_else(|answer| panic!("{answer:?}"));
        let (id, found) = self.source.catalog().user_by_name(user).expect("the user is there");
        let user_name = found.name.clone();
        let kind = ActionKind::Route {
            matched: request.matched.clone(),
            query: request.query.clone(),
            body: RequestBody::parse(body.as_bytes())?,
            reason: reason.map(str::to_owned),
        };
        plan(&self.source, &Action { user: id, user_name, salt: [7; 4], kind })
    }
}
