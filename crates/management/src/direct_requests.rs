//! Requests that come without HTTP: from the program itself, for users whom it has authenticated.
//!
//! Enters: a user by name, and what a request line and a body would say.  Leaves: a status and a body.
//! Owns:   the queue of such requests. They pass the same checks and are answered by the same thread as those over HTTP.

use crate::answer::AnswerBody;
use crate::answer_bytes::SharedSource;
use crate::api_error::ApiError;
use crate::limits::DIRECT_REQUESTS_WAITING_MAX;
use tokio::sync::{mpsc, oneshot};

/// A request of a user whom the program has authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectRequest {
    pub user: String,
    /// `GET`, `PUT`, `POST` or `DELETE`.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Why connections are closed: the header `X-Reason` of a request over HTTP.
    pub reason: Option<String>,
    pub body: Vec<u8>,
    /// Bytes of the body of the answer; one that would be longer is answered 413.
    pub answer_bytes_max: usize,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectAnswer {
    pub status: u16,
    pub body: Vec<u8>,
    /// The body is JSON, or empty.
    pub is_json: bool,
}

/// A request with the place of its answer.
pub(crate) struct PendingDirectRequest {
    pub request: DirectRequest,
    pub answer: oneshot::Sender<DirectAnswer>,
}

/// Sends requests to the thread that serves the API.
#[derive(Clone, Debug)]
pub struct DirectRequests(mpsc::Sender<PendingDirectRequest>);

/// Where that thread takes them.
pub struct DirectRequestQueue(mpsc::Receiver<PendingDirectRequest>);

impl DirectRequests {
    /// With the end that [`serve`](crate::serve) takes requests from.
    pub fn channel() -> (Self, DirectRequestQueue) {
        let (sender, receiver) = mpsc::channel(DIRECT_REQUESTS_WAITING_MAX);
        (Self(sender), DirectRequestQueue(receiver))
    }

    /// Sends a request and waits for its answer. `None`: the API has stopped.
    ///
    /// # Panics
    /// On a thread that runs asynchronous tasks, which may not wait.
    pub fn ask(&self, request: DirectRequest) -> Option<DirectAnswer> {
        let (answer, answered) = oneshot::channel();
        self.0.blocking_send(PendingDirectRequest { request, answer }).ok()?;
        answered.blocking_recv().ok()
    }
}

impl DirectRequestQueue {
    /// The next request; `None` when there is nobody left to send one.
    pub(crate) async fn next(&mut self) -> Option<PendingDirectRequest> {
        self.0.recv().await
    }
}

/// The whole body of an answer. A list is made piece by piece, and other requests have their turn between two pieces.
pub(crate) async fn whole_body(body: AnswerBody, source: &SharedSource, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut whole = Vec::new();
    let mut body = body;
    loop {
        let piece = match &mut body {
            AnswerBody::Empty => None,
            AnswerBody::Text(text) => Some(std::mem::take(text)).filter(|text| !text.is_empty()),
            AnswerBody::Rows(rows) => rows.next_piece(&**source.borrow()),
            AnswerBody::Metrics(metrics) => metrics.next_piece(&**source.borrow()),
        };
        let Some(piece) = piece else { return Ok(whole) };
        if whole.len() + piece.len() > bytes_max {
            let reason =
                format!("the answer has more than {bytes_max} bytes: ask for fewer columns, or for one page of it");
            return Err(ApiError::new(413, "payload_too_large", reason));
        }
        match whole.is_empty() {
            true => whole = piece,
            false => whole.extend_from_slice(&piece),
        }
        tokio::task::yield_now().await;
    }
}
