//! Commands about users that take more than one request: the API's `PUT` replaces all of a user.

use crate::ctl_run::{CtlOutput, CtlRun};
use crate::exit_status::{CtlError, SysExit};
use admin::limits::STEP_WAIT;
use admin::{AdminConnection, RequestErrorKind};
use definitions::Json;
use management::percent;
use secrets::read_password;
use std::io;

const USER: &str = "/api/users/{USER}";

/// The password of the command line, or of standard input.
fn password(run: &CtlRun<'_>) -> Result<String, CtlError> {
    if let Some(password) = run.arguments.get("PASSWORD") {
        return Ok(password.to_owned());
    }
    let bytes = read_password().map_err(CtlError::data)?;
    String::from_utf8(bytes).map_err(|_| CtlError::data("the password is not UTF-8"))
}

fn object(fields: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The user as it is; an error if there is none.
fn user(run: &mut CtlRun<'_>) -> Result<Json, CtlError> {
    let answer = run.client.get(&run.path(USER)?)?;
    if answer.is_missing() { Err(run.no_user()) } else { answer.into_result() }
}

/// A field of a user.
fn field(user: &Json, key: &str) -> Json {
    user.get(key).cloned().unwrap_or(Json::Null)
}

fn put(run: &mut CtlRun<'_>, body: &Json) -> Result<CtlOutput, CtlError> {
    run.client.put(&run.path(USER)?, body)?.into_result().map(|_| CtlOutput::Nothing)
}

pub fn add_user(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    if !run.client.get(&run.path(USER)?)?.is_missing() {
        let text = run.sentence("user '{USER}' exists already (change_password changes it)");
        return Err(CtlError::new(SysExit::Software, text));
    }
    let password = password(run)?;
    run.progress(&run.sentence("Adding user '{USER}' ..."));
    let key = if run.arguments.has("--pre-hashed-password") { "password_hash" } else { "password" };
    put(run, &object([(key, Json::Text(password)), ("tags", Json::List(Vec::new()))]))
}

pub fn change_password(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let tags = field(&user(run)?, "tags");
    let password = password(run)?;
    run.progress(&run.sentence("Changing the password of user '{USER}' ..."));
    put(run, &object([("password", Json::Text(password)), ("tags", tags)]))
}

pub fn clear_password(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let tags = field(&user(run)?, "tags");
    run.progress(&run.sentence("Clearing the password of user '{USER}' ..."));
    put(run, &object([("password_hash", Json::text("")), ("tags", tags)]))
}

pub fn set_user_tags(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let known = user(run)?;
    let tags = run.arguments.rest.iter().map(|tag| Json::text(tag)).collect();
    run.progress(&run.sentence("Setting the tags of user '{USER}' ..."));
    let kept = ["password_hash", "hashing_algorithm"].map(|key| (key, field(&known, key)));
    put(run, &object(kept.into_iter().chain([("tags", Json::List(tags))])))
}

/// Logs in as the user. The broker looks at the password first, so that a refused virtual host means that it is right.
pub fn authenticate_user(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    user(run)?;
    let mut url = run.url.clone();
    url.user = run.arguments.at("USER").to_owned();
    url.password = password(run)?;
    url.external = false;
    run.progress(&run.sentence("Authenticating user '{USER}' ..."));
    let done = || {
        let result = object([("result", Json::text("ok"))]);
        Ok(CtlOutput::Text("Success\n".to_owned(), Some(result)))
    };
    match AdminConnection::begin(&url, &run.client.connection_name, STEP_WAIT) {
        Ok(connection) => {
            connection.end();
            done()
        }
        Err(refused) if refused.kind == RequestErrorKind::Login && refused.text.contains(": 530 ") => done(),
        Err(refused) if refused.kind == RequestErrorKind::Login => {
            Err(CtlError::data(run.sentence("the password does not let user '{USER}' in")))
        }
        Err(other) => Err(other.into()),
    }
}

pub fn clear_topic_permissions(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    run.progress(&run.sentence("Clearing topic permissions of user '{USER}' in virtual host '{vhost}' ..."));
    let mut target = run.path("/api/topic-permissions/{vhost}/{USER}")?;
    if let Some(exchange) = run.arguments.get("EXCHANGE") {
        target.push_str(&format!("/{}", percent::encode(exchange.as_bytes())));
    }
    let answer = run.client.delete(&target)?;
    run.check(answer, "user '{USER}' has no such topic permissions in virtual host '{vhost}'")?;
    Ok(CtlOutput::Nothing)
}

/// What standard input has, up to a number of bytes.
pub fn read_input(bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(io::stdin().lock(), bytes_max as u64 + 1), &mut bytes)?;
    Ok(bytes)
}
