//! Commands about the broker as a whole.

use crate::ctl_run::{CtlOutput, CtlRun};
use crate::exit_status::CtlError;
use crate::{status_text, store_table};
use definitions::Json;

/// That of the program, which has the version of its workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub fn status(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let overview = run.client.get("/api/overview")?.into_result()?;
    let nodes = run.client.get("/api/nodes")?.into_result()?;
    let status = status_text::status(&overview, &nodes);
    Ok(CtlOutput::Text(status_text::text(&status), Some(status)))
}

pub fn ping(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    run.client.get("/api/whoami")?.into_result()?;
    let result = Json::Object(vec![("result".to_owned(), Json::text("ok"))]);
    Ok(CtlOutput::Text("Ping succeeded\n".to_owned(), Some(result)))
}

pub fn server_version(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    Ok(version_output(&run.client.version().unwrap_or_default()))
}

pub fn version() -> CtlOutput {
    version_output(VERSION)
}

fn version_output(version: &str) -> CtlOutput {
    let object = Json::Object(vec![("version".to_owned(), Json::text(version))]);
    CtlOutput::Text(format!("{version}\n"), Some(object))
}

pub fn set_log_level(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    run.progress(&run.sentence("Setting the level of the log to '{LEVEL}' ..."));
    run.client.command("set-log-level", vec![("level", Json::text(run.arguments.at("LEVEL")))])?;
    Ok(CtlOutput::Nothing)
}

pub fn store(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let found = run.client.command("store", Vec::new())?;
    Ok(CtlOutput::Text(store_table::text(&found), Some(found)))
}
