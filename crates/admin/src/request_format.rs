//! What both sides of a request know of its form, which is in docs/operations/ctl.md.

/// Version of the request format. It changes when requests or answers change incompatibly.
pub const VERSION: i64 = 1;
/// MIME type of requests and answers.
pub const CONTENT_TYPE: &str = "application/json";
