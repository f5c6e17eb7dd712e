//! Why a request fails: the status, and the two words of the body.

use crate::route::HttpMethod;
use catalog::Refusal;
use definitions::Json;
use wire::ReplyCode;

/// An answer that is an error. `reason` is for people, and never has a secret in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub status: u16,
    /// For programs, as RabbitMQ has it.
    pub error: &'static str,
    pub reason: String,
    /// The value of `Allow`, for 405.
    pub allow: Vec<HttpMethod>,
}

impl ApiError {
    pub fn new(status: u16, error: &'static str, reason: impl Into<String>) -> Self {
        Self { status, error, reason: reason.into(), allow: Vec::new() }
    }

    pub fn bad_request(reason: impl Into<String>) -> Self {
        Self::new(400, "bad_request", reason)
    }

    /// As RabbitMQ words it, for paths and objects alike.
    pub fn not_found() -> Self {
        Self::new(404, "Object Not Found", "Not Found")
    }

    /// A login that is missing or wrong.
    pub(crate) fn login_failed() -> Self {
        Self::new(401, "not_authorized", "Login failed")
    }

    /// A user who may not do it.
    pub(crate) fn not_authorised(reason: impl Into<String>) -> Self {
        Self::new(401, "not_authorised", reason)
    }

    pub(crate) fn other_methods(allow: Vec<HttpMethod>) -> Self {
        Self { allow, ..Self::new(405, "method_not_allowed", "Method Not Allowed") }
    }

    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(503, "service_unavailable", reason)
    }

    /// What RabbitMQ's management makes of a refusal of the broker: 401 where AMQP says ACCESS_REFUSED, 404 for NOT_FOUND,
    /// and 400 for the rest. The reason is the text without the name of its code.
    pub fn of_refusal(refusal: &Refusal) -> Self {
        let prefix = format!("{} - ", refusal.code.name());
        let reason = refusal.text.strip_prefix(&prefix).unwrap_or(&refusal.text);
        match refusal.code {
            ReplyCode::AccessRefused => Self::not_authorised(reason),
            ReplyCode::NotFound => Self::new(404, "not_found", reason),
            _ => Self::bad_request(reason),
        }
    }

    /// The body.
    pub fn body(&self) -> String {
        let fields = [("error", Json::text(self.error)), ("reason", Json::text(&self.reason))];
        Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()).line()
    }
}

#[cfg(test)]
mod tests {
    use super::ApiError;
    use catalog::Refusal;
    use wire::ReplyCode;

    #[test]
    fn refusals_of_the_broker_have_the_status_that_rabbitmq_gives_them() {
        for (code, status, error) in [
            (ReplyCode::AccessRefused, 401, "not_authorised"),
            (ReplyCode::NotFound, 404, "not_found"),
            (ReplyCode::PreconditionFailed, 400, "bad_request"),
            (ReplyCode::ResourceLocked, 400, "bad_request"),
            (ReplyCode::CommandInvalid, 400, "bad_request"),
        ] {
            let found = ApiError::of_refusal(&Refusal::detail(code, "it is \"so\""));
            assert_eq!((found.status, found.error, &*found.reason), (status, error, "it is \"so\""));
            assert_eq!(found.body(), format!(r#"{{"error":"{error}","reason":"it is \"so\""}}"#));
        }
    }
}
