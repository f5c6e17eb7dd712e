//! Commands that close several connections, but for the one that they have.

use super::ctl_run::{CtlOutput, CtlRun};
use super::exit_status::{CtlError, SysExit};
use definitions::Json;
use management::percent;

/// Closes the connections that a path lists, but for its own.
fn close(run: &mut CtlRun<'_>, path: &str) -> Result<CtlOutput, CtlError> {
    let answer = run.client.get(&format!("{path}?columns=name,user_provided_name"))?;
    let found = run.check(answer, "there is no virtual host '{vhost}'")?;
    let Json::List(connections) = found else {
        return Err(CtlError::new(SysExit::Software, "the broker's answer is no list"));
    };
    let own = Json::text(&run.client.connection_name);
    let mut closed = 0;
    for connection in connections.iter().filter(|of| of.get("user_provided_name") != Some(&own)) {
        let Some(Json::Text(name)) = connection.get("name") else { continue };
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
    let path = match (run.arguments.has("--vhost"), run.arguments.has("--global")) {
        (true, true) => return Err(CtlError::usage("either --vhost or --global")),
        (true, false) => run.path("/api/vhosts/{vhost}/connections")?,
        (false, _) => "/api/connections".to_owned(),
    };
    run.progress("Closing connections ...");
    close(run, &path)
}

pub fn close_all_user_connections(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    if run.client.get(&run.path("/api/users/{USER}")?)?.is_missing() {
        return Err(run.no_user());
    }
    run.progress(&run.sentence("Closing connections of user '{USER}' ..."));
    let path = run.path("/api/connections/username/{USER}")?;
    close(run, &path)
}
