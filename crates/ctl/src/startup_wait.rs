//! `await_startup`: waits until a broker answers.

use crate::api_client::ApiClient;
use crate::ctl_arguments::CtlArguments;
use crate::ctl_run::CtlOutput;
use crate::exit_status::{CtlError, SysExit};
use crate::limits::STARTUP_TIMEOUT;
use crate::time_limit::TimeLimit;
use admin::broker_url;
use client::Url;
use std::time::Duration;

pub fn await_startup(arguments: &CtlArguments) -> Result<CtlOutput, CtlError> {
    let url = broker_url(arguments.get("--url")).map_err(CtlError::usage)?;
    let timeout = arguments.timeout.unwrap_or(STARTUP_TIMEOUT);
    let limit = TimeLimit::begin(timeout);
    loop {
        let why = match attempt(&url, limit.left()) {
            Ok(()) => return Ok(CtlOutput::Nothing),
            // Waiting changes none of the others.
            Err(error) if ![SysExit::Unavailable, SysExit::Temporary].contains(&error.status) => return Err(error),
            Err(error) => error.text,
        };
        if !limit.pause() {
            let text = format!("the broker has not answered for {} s: {why}", timeout.as_secs());
            return Err(CtlError::new(SysExit::Temporary, text));
        }
    }
}

/// Whether the broker serves clients.
fn attempt(url: &Url, timeout: Duration) -> Result<(), CtlError> {
    let mut client = ApiClient::connect(url, timeout)?;
    client.get("/api/health/checks/ready-to-serve-clients")?.into_result()?;
    client.end();
    Ok(())
}
