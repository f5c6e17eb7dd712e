//! Commands that set and clear limits, each of which the API has by itself.

use crate::ctl_run::{CtlOutput, CtlRun, json};
use crate::exit_status::{CtlError, SysExit};
use definitions::Json;
use management::percent;

const OF_VHOST: &str = "/api/vhost-limits/{vhost}";
const OF_USER: &str = "/api/user-limits/{USER}";

/// What has limits.
struct LimitOwner {
    path: &'static str,
    missing: &'static str,
}

const VHOST: LimitOwner = LimitOwner { path: OF_VHOST, missing: "there is no virtual host '{vhost}'" };
const USER: LimitOwner = LimitOwner { path: OF_USER, missing: "there is no user '{USER}'" };

impl LimitOwner {
    /// The limits that there are.
    fn limits(&self, run: &mut CtlRun<'_>) -> Result<Vec<(String, Json)>, CtlError> {
        let answer = run.client.get(&run.path(self.path)?)?;
        let Json::List(entries) = run.check(answer, self.missing)? else {
            return Err(CtlError::new(SysExit::Software, "the broker's answer is no list"));
        };
        match entries.into_iter().next() {
            Some(entry) => match entry.get("value") {
                Some(Json::Object(limits)) => Ok(limits.clone()),
                _ => Err(CtlError::new(SysExit::Software, "the broker's answer has no limits")),
            },
            None => Ok(Vec::new()),
        }
    }

    fn target(&self, run: &CtlRun<'_>, limit: &str) -> Result<String, CtlError> {
        Ok(format!("{}/{}", run.path(self.path)?, percent::encode(limit.as_bytes())))
    }

    fn set(&self, run: &mut CtlRun<'_>, limits: &[(String, Json)]) -> Result<(), CtlError> {
        for (limit, value) in limits {
            let body = Json::Object(vec![("value".to_owned(), value.clone())]);
            let answer = run.client.put(&self.target(run, limit)?, &body)?;
            run.check(answer, self.missing)?;
        }
        Ok(())
    }

    fn clear(&self, run: &mut CtlRun<'_>, limit: &str) -> Result<(), CtlError> {
        let answer = run.client.delete(&self.target(run, limit)?)?;
        run.check(answer, self.missing).map(drop)
    }
}

/// The limits of the command line.
fn definition(run: &CtlRun<'_>) -> Result<Vec<(String, Json)>, CtlError> {
    let limits = match json("DEFINITION", run.arguments.at("DEFINITION"))? {
        Json::Object(limits) => limits,
        other => return Err(CtlError::data(format!("DEFINITION is an object, not {}", other.kind()))),
    };
    match limits.iter().find(|(_, value)| !matches!(value, Json::Int(_))) {
        Some((limit, _)) => Err(CtlError::data(format!("limit '{limit}' takes a whole number"))),
        None if limits.is_empty() => Err(CtlError::data("DEFINITION has no limit")),
        None => Ok(limits),
    }
}

/// As in RabbitMQ, these take the place of all that there are.
pub fn set_vhost_limits(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let limits = definition(run)?;
    run.progress(&run.sentence("Setting limits of virtual host '{vhost}' ..."));
    let before = VHOST.limits(run)?;
    VHOST.set(run, &limits)?;
    for (limit, _) in before.iter().filter(|(limit, _)| limits.iter().all(|(known, _)| known != limit)) {
        VHOST.clear(run, limit)?;
    }
    Ok(CtlOutput::Nothing)
}

pub fn clear_vhost_limits(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    run.progress(&run.sentence("Clearing limits of virtual host '{vhost}' ..."));
    for (limit, _) in VHOST.limits(run)? {
        VHOST.clear(run, &limit)?;
    }
    Ok(CtlOutput::Nothing)
}

/// As in RabbitMQ, other limits of the user stay.
pub fn set_user_limits(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let limits = definition(run)?;
    run.progress(&run.sentence("Setting limits of user '{USER}' ..."));
    USER.set(run, &limits)?;
    Ok(CtlOutput::Nothing)
}

pub fn clear_user_limits(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    run.progress(&run.sentence("Clearing limits of user '{USER}' ..."));
    match run.arguments.at("LIMIT") {
        "all" => {
            for (limit, _) in USER.limits(run)? {
                USER.clear(run, &limit)?;
            }
        }
        limit => USER.clear(run, limit)?,
    }
    Ok(CtlOutput::Nothing)
}
