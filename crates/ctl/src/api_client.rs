//! Requests to the management API of a running broker, over AMQP, as one of its administrators.

use crate::exit_status::{CtlError, SysExit};
use crate::limits::PIECE_BYTES;
use admin::AdminConnection;
use admin::limits::STEP_WAIT;
use client::Url;
use definitions::Json;
use std::time::Duration;

/// The API's answer.
pub struct ApiAnswer {
    pub status: i64,
    pub body: Json,
}

impl ApiAnswer {
    pub fn is_missing(&self) -> bool {
        self.status == 404
    }

    /// The reason of an answer that is an error.
    pub fn reason(&self) -> &str {
        self.text("reason")
    }

    /// What kind of error it is.
    pub fn error(&self) -> &str {
        self.text("error")
    }

    fn text(&self, key: &str) -> &str {
        match self.body.get(key) {
            Some(Json::Text(text)) => text,
            _ => "",
        }
    }

    /// The body of an answer that is none.
    pub fn into_result(self) -> Result<Json, CtlError> {
        let status = match self.status {
            200..=299 => return Ok(self.body),
            401 | 403 => SysExit::NoPermission,
            400..=404 | 409 | 412 | 413 | 414 => SysExit::Data,
            503 if self.reason().contains("too long") => SysExit::Temporary,
            503 => SysExit::Unavailable,
            _ => SysExit::Software,
        };
        let text = match self.reason() {
            "" => format!("the broker answers with status {}", self.status),
            reason => format!("the broker refuses: {reason}"),
        };
        Err(CtlError::new(status, text))
    }
}

/// A connection to a broker.
pub struct ApiClient {
    connection: AdminConnection,
    /// By which it is told apart from all others of the broker.
    pub connection_name: String,
}

impl ApiClient {
    /// # Errors
    /// No broker answers, or it refuses the login.
    pub fn connect(url: &Url, timeout: Duration) -> Result<Self, CtlError> {
        // Processes of two hosts may have the same id.
        let system = rustix::system::uname();
        let connection_name = format!("harrier ctl {} at {}", std::process::id(), system.nodename().to_string_lossy());
        let connection = AdminConnection::begin(url, &connection_name, STEP_WAIT.min(timeout))?;
        Ok(ApiClient { connection: connection.with_answer_wait(timeout), connection_name })
    }

    /// The version of the broker.
    pub fn version(&self) -> Option<String> {
        self.connection.server_property("harrier")
    }

    /// Sends an admin command of its own.
    pub fn command(&mut self, command: &str, arguments: Vec<(&str, Json)>) -> Result<Json, CtlError> {
        Ok(self.connection.ask(command, arguments)?)
    }

    pub fn get(&mut self, target: &str) -> Result<ApiAnswer, CtlError> {
        self.send("GET", target, None, None)
    }

    pub fn put(&mut self, target: &str, body: &Json) -> Result<ApiAnswer, CtlError> {
        self.send("PUT", target, Some(&body.line()), None)
    }

    pub fn delete(&mut self, target: &str) -> Result<ApiAnswer, CtlError> {
        self.send("DELETE", target, None, None)
    }

    /// Sends a request; a long body goes before it, in pieces.
    pub fn send(
        &mut self,
        method: &str,
        target: &str,
        body: Option<&str>,
        reason: Option<&str>,
    ) -> Result<ApiAnswer, CtlError> {
        let mut arguments = vec![("method", Json::text(method)), ("target", Json::text(target))];
        arguments.extend(reason.map(|reason| ("reason", Json::text(reason))));
        match body {
            None => {}
            Some(body) if body.len() <= PIECE_BYTES => arguments.push(("body", Json::text(body))),
            Some(body) => {
                for piece in pieces(body) {
                    self.connection.ask("api-body", vec![("piece", Json::text(piece))])?;
                }
                arguments.push(("uploaded", Json::Bool(true)));
            }
        }
        let answer = self.connection.ask("api", arguments)?;
        let Json::Object(fields) = answer else { return Err(strange("no object")) };
        let (mut status, mut body) = (None, Json::Null);
        for (key, value) in fields {
            match (&*key, value) {
                ("status", Json::Int(found)) => status = Some(found),
                ("body", found) => body = found,
                _ => {}
            }
        }
        Ok(ApiAnswer { status: status.ok_or_else(|| strange("no status"))?, body })
    }

    /// Closes the connection.
    pub fn end(self) {
        self.connection.end();
    }
}

fn strange(why: &str) -> CtlError {
    CtlError::new(SysExit::Software, format!("the broker sent an answer that is not understood: {why}"))
}

/// A text in pieces.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = PIECE_BYTES.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::{ApiAnswer, pieces};
    use crate::exit_status::SysExit;
    use crate::limits::PIECE_BYTES;
    use definitions::Json;

    #[test]
    fn pieces_are_short_and_make_the_whole() {
        for text in
            [String::new(), "a".repeat(PIECE_BYTES), "ä".repeat(PIECE_BYTES), format!("x{}", "日本".repeat(9_999))]
        {
            let all: Vec<_> = pieces(&text).collect();
            assert!(all.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE_BYTES));
            assert_eq!(all.concat(), text);
        }
    }

    #[test]
    fn an_answer_that_is_an_error_has_a_status_of_its_own() {
        for (status, reason, expect) in [
            (400, "bad", SysExit::Data),
            (401, "Not authorised", SysExit::NoPermission),
            (404, "Not Found", SysExit::Data),
            (412, "protected", SysExit::Data),
            (405, "Method Not Allowed", SysExit::Software),
            (503, "the broker stops", SysExit::Unavailable),
            (503, "the broker takes too long", SysExit::Temporary),
        ] {
            let body = Json::Object(vec![("reason".to_owned(), Json::text(reason))]);
            let error = ApiAnswer { status, body }.into_result().expect_err("an error");
            assert_eq!((error.status, error.text), (expect, format!("the broker refuses: {reason}")), "{status}");
        }
        assert_eq!(ApiAnswer { status: 204, body: Json::Null }.into_result(), Ok(Json::Null));
    }
}
