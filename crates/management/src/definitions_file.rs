//! Definitions as a file: exported, and taken in.

use crate::answer::Answer;
use crate::api_error::ApiError;
use crate::broker_views::RABBITMQ_VERSION;
use crate::query::{Columns, Query};
use crate::source::Source;
use catalog::{Password, VhostId};
use definitions::{DefinitionsFile, Json};
use memchr::memmem;

/// Sections of the file of one virtual host.
const SECTIONS_OF_VHOST: [&str; 5] = ["parameters", "policies", "queues", "exchanges", "bindings"];

/// All definitions.
///
/// # Errors
/// The query is malformed.
pub fn whole(source: &dyn Source, query: &Query, key: &[u8; 32]) -> Result<Answer, ApiError> {
    download(head(snapshot(source, None, key)), query)
}

/// Sections of a virtual host's file whose entries name it nevertheless, as RabbitMQ's do.
const STAY_WHOLE: [&str; 2] = ["parameters", "policies"];

/// Those of one virtual host, whose name most entries leave out, as RabbitMQ writes them.
///
/// # Errors
/// The query is malformed.
pub fn of_vhost(source: &dyn Source, vhost: VhostId, query: &Query, key: &[u8; 32]) -> Result<Answer, ApiError> {
    let Json::Object(sections) = snapshot(source, Some(vhost), key) else {
        unreachable!("a snapshot is an object");
    };
    let sections = sections.into_iter().filter(|(name, _)| name != "vhosts").map(|(name, section)| {
        let entries = match section {
            Json::List(entries) if !STAY_WHOLE.contains(&&*name) => {
                Json::List(entries.into_iter().map(without_vhost).collect())
            }
            other => other,
        };
        (name, entries)
    });
    download(head(Json::Object(sections.collect())), query)
}

/// Plain passwords are hashed with one salt for all, which only this process knows the origin of: an export twice is the same.
fn snapshot(source: &dyn Source, only: Option<VhostId>, key: &[u8; 32]) -> Json {
    let mark = Password::Never.mark(b"", key);
    let salt = || [mark[0], mark[1], mark[2], mark[3]];
    definitions::snapshot(source.catalog(), only, source.kept(), &source.facts().product_version, salt)
}

fn head(snapshot: Json) -> Json {
    let Json::Object(sections) = snapshot else { return snapshot };
    let version = |key: &str| (key.to_owned(), Json::text(RABBITMQ_VERSION));
    Json::Object([version("rabbit_version"), version("rabbitmq_version")].into_iter().chain(sections).collect())
}

fn without_vhost(entry: Json) -> Json {
    match entry {
        Json::Object(fields) => Json::Object(fields.into_iter().filter(|(key, _)| key != "vhost").collect()),
        other => other,
    }
}

fn download(file: Json, query: &Query) -> Result<Answer, ApiError> {
    let answer = Answer::json(file, &Columns::of(query)?);
    let Some(name) = query.get("download") else { return Ok(answer) };
    // What could end the header's text is left out.
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.@".contains(*c)).collect();
    Ok(answer.with_header("content-disposition", format!("attachment; filename=\"{name}\"")))
}

/// Checks a file that a client sends, into one virtual host or as it stands. A form's upload is its file.
///
/// # Errors
/// The file's faults.
pub fn read(body: &[u8], content_type: Option<&str>, vhost: Option<&str>) -> Result<DefinitionsFile, ApiError> {
    let text = match content_type.and_then(boundary) {
        Some(boundary) => {
            upload(body, boundary).ok_or_else(|| ApiError::bad_request("the form has no file with definitions"))?
        }
        None => body,
    };
    let faults = |faults: Vec<definitions::DefinitionsFault>| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        ApiError::bad_request(faults.join("; "))
    };
    let Some(vhost) = vhost else { return definitions::read(text).map_err(faults) };
    let Json::Object(sections) = Json::read(text).map_err(|why| ApiError::new(400, "not_json", why))? else {
        return Err(ApiError::bad_request("a definitions file is an object"));
    };
    let sections = sections.into_iter().filter(|(name, _)| SECTIONS_OF_VHOST.contains(&&**name));
    let sections = sections.map(|(name, section)| match section {
        Json::List(entries) => (name, Json::List(entries.into_iter().map(|entry| with_vhost(entry, vhost)).collect())),
        other => (name, other),
    });
    definitions::read(Json::Object(sections.collect()).line().as_bytes()).map_err(faults)
}

fn with_vhost(entry: Json, vhost: &str) -> Json {
    match without_vhost(entry) {
        Json::Object(fields) => {
            Json::Object(fields.into_iter().chain([("vhost".to_owned(), Json::text(vhost))]).collect())
        }
        other => other,
    }
}

/// The boundary of a form with files (RFC 7578).
fn boundary(content_type: &str) -> Option<&str> {
    let rest = content_type.strip_prefix("multipart/form-data")?;
    let boundary = rest.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let boundary = boundary.trim_matches('"');
    (!boundary.is_empty()).then_some(boundary)
}

/// The first part of a form that names a file.
fn upload<'a>(body: &'a [u8], boundary: &str) -> Option<&'a [u8]> {
    let line = format!("--{boundary}").into_bytes();
    let mut rest = &body[memmem::find(body, &line)? + line.len()..];
    loop {
        let head_end = memmem::find(rest, b"\r\n\r\n")?;
        let (head, after) = (&rest[..head_end], &rest[head_end + 4..]);
        let end = memmem::find(after, &line)?;
        let content = after[..end].strip_suffix(b"\r\n").unwrap_or(&after[..end]);
        if memmem::find(head, b"filename=").is_some() {
            return Some(content);
        }
        rest = &after[end + line.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_file_may_be_the_body_or_the_upload_of_a_form() {
        let json = r#"{"vhosts":[{"name":"v"}],"queues":[{"name":"q","vhost":"v","durable":true}]}"#;
        let form = format!(
            "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nnothing\r\n--xyz\r\nContent-Disposition: form-data; \
             name=\"file\"; filename=\"d.json\"\r\nContent-Type: application/json\r\n\r\n{json}\r\n--xyz--\r\n"
        );
        let typed = Some("multipart/form-data; boundary=xyz");
        let counts = |body: &str, content_type: Option<&str>, vhost: Option<&str>| {
            read(body.as_bytes(), content_type, vhost)
                .map(|file| file.counts().iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>())
                .map_err(|error| error.reason)
        };
        let both = Ok(vec!["vhosts 1".to_owned(), "queues 1".to_owned()]);
        assert_eq!(counts(json, None, None), both);
        assert_eq!(counts(json, Some("text/plain"), None), both);
        assert_eq!(counts(&form, typed, None), both);
        assert_eq!(counts(json, None, Some("w")), Ok(vec!["queues 1".to_owned()]), "users and virtual hosts stay");
        for wrong in ["", "--xyz", "--xyz\r\n\r\nx", "--xyz\r\nfilename=\r\n\r\n{}"] {
            assert!(counts(wrong, typed, None).is_err(), "{wrong}");
        }
        assert!(counts("{", None, Some("w")).is_err() && counts("[]", None, Some("w")).is_err());
    }
}
