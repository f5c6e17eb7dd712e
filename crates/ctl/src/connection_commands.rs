//! Commands that close several connections, but for the one that they have.

use crate::ctl_run::{CtlOutput, CtlRun};
use crate::exit_status::{CtlError, SysExit};
use crate::limits::ANSWER_TIMEOUT;
use crate::time_limit::TimeLimit;
use definitions::Json;
use management::percent;

/// All connections of the broker, with the one of this command among them: a listing is up to a second old and tells the name
/// that a client gave itself only once it has logged in, and without that name this connection cannot be spared.
fn connections(run: &mut CtlRun<'_>) -> Result<Vec<Json>, CtlError> {
    let limit = TimeLimit::begin(run.arguments.timeout.unwrap_or(ANSWER_TIMEOUT));
    loop {
        let found = run.items("/api/connections?columns=name,user_provided_name,user,vhost")?.unwrap_or_default();
        if found.iter().any(|connection| is_own(run, connection)) {
            return Ok(found);
        }
        if !limit.pause() {
            return Err(CtlError::new(SysExit::Temporary, "the broker does not list the connection of this command"));
        }
    }
}

fn is_own(run: &CtlRun<'_>, connection: &Json) -> bool {
    matches!(connection.get("user_provided_name"), Some(Json::Text(name)) if *name == run.client.connection_name)
}

/// Closes connections, but for its own: all, or those of whose fields one has this value.
fn close(run: &mut CtlRun<'_>, only: Option<(&str, &str)>) -> Result<CtlOutput, CtlError> {
    let mut closed = 0;
    for connection in connections(run)? {
        let is_meant = only.is_none_or(|(key, value)| connection.get(key) == Some(&Json::text(value)));
        let Some(Json::Text(name)) = connection.get("name") else { continue };
        if !is_meant || is_own(run, &connection) {
            continue;
        }
        let target = format!("/api/connections/{}", percent::encode(name.as_bytes()));
        let answer = run.client.send("DELETE", &target, None, Some(run.arguments.at("EXPLANATION")))?;
        // One that has gone meanwhile needs no closing.
        if !answer.is_missing() {
            answer.into_result()?;
            closed += 1;
        }
    }
    let result = Json::Object(vec![("closed".to_owned(), Json::Int(closed))]);
    Ok(CtlOutput::Text(format!("closed {closed} connections\n"), Some(result)))
}

pub fn close_all_connections(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let is_of_vhost = match (run.arguments.has("--vhost"), run.arguments.has("--global")) {
        (true, true) => return Err(CtlError::usage("either --vhost or --global")),
        (is_of_vhost, _) => is_of_vhost,
    };
    if is_of_vhost {
        let answer = run.client.get(&run.path("/api/vhosts/{vhost}")?)?;
        run.check(answer, "there is no virtual host '{vhost}'")?;
    }
    run.progress("Closing connections ...");
    let vhost = run.vhost().to_owned();
    close(run, is_of_vhost.then_some(("vhost", &*vhost)))
}

pub fn close_all_user_connections(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    if run.client.get(&run.path("/api/users/{USER}")?)?.is_missing() {
        return Err(run.no_user());
    }
    run.progress(&run.sentence("Closing connections of user '{USER}' ..."));
    let user = run.arguments.at("USER").to_owned();
    close(run, Some(("user", &*user)))
}
