//! Admin commands for the management API: a request as over HTTP, whose body may come in pieces before it.

use super::body_uploads::BodyUploads;
use super::{AdminCommand, AdminError, AdminServer, error};
use definitions::Json;
use management::DirectRequest;
use shard::ReplyAddress;
use shard::limits::ANSWER_BYTES_MAX;

/// Bytes of a reply around the body of the API's answer.
const ENVELOPE_BYTES: usize = 1 << 10;

impl AdminServer {
    /// Passes a request to the management API, with the rights of the user. Returns the text of the result.
    pub(super) fn api(&mut self, command: &AdminCommand<'_>, from: ReplyAddress) -> Result<String, AdminError> {
        let required = |key: &str| {
            let text = command.text(key)?;
            text.map(str::to_owned).ok_or_else(|| error("malformed", format!("argument '{key}' is missing")))
        };
        let (method, target) = (required("method")?, required("target")?);
        let body = match (command.text("body")?, command.flag("uploaded")?) {
            (Some(_), true) => return Err(error("malformed", "a body is either in the request or uploaded")),
            (Some(body), false) => body.as_bytes().to_vec(),
            (None, true) => self.uploads.take(from).ok_or_else(|| error("malformed", "no body was uploaded before"))?,
            (None, false) => Vec::new(),
        };
        let request = DirectRequest {
            user: command.user.to_owned(),
            method,
            target,
            reason: command.text("reason")?.map(str::to_owned),
            body,
            answer_bytes_max: ANSWER_BYTES_MAX - ENVELOPE_BYTES,
        };
        let requests = self.management.requests();
        let requests = requests.map_err(|why| error("failed", format!("the management API cannot start: {why}")))?;
        let answer = requests.and_then(|requests| requests.ask(request));
        let answer = answer.ok_or_else(|| error("stopping", "the broker stops"))?;
        let body = String::from_utf8_lossy(&answer.body);
        let body = match (answer.is_json, body.is_empty()) {
            (_, true) => "null".into(),
            (true, false) => body,
            (false, false) => Json::Text(body.into_owned()).line().into(),
        };
        Ok(format!(r#"{{"status":{},"body":{body}}}"#, answer.status))
    }

    /// Keeps a piece of a body that is too long for one request.
    pub(super) fn upload(&mut self, command: &AdminCommand<'_>, from: ReplyAddress) -> Result<String, AdminError> {
        let piece = command.text("piece")?.ok_or_else(|| error("malformed", "argument 'piece' is missing"))?;
        let bytes = self.uploads.add(from, piece.as_bytes()).ok_or_else(|| {
            let max = BodyUploads::BYTES_MAX;
            error("too-long", format!("a body has {max} bytes at most; what was uploaded is dropped"))
        })?;
        Ok(format!(r#"{{"bytes":{bytes}}}"#))
    }
}
