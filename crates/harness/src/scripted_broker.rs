//! A broker that is started and stopped by the scripts `start DIR PORT` and `stop DIR` of a folder (`tests/rabbitmq`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the script `start` prints.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartedBroker {
    pub url: Option<String>,
    pub pid: Option<u32>,
}

impl StartedBroker {
    /// From its lines `url URL` and `pid NUMBER`.
    pub fn parse(output: &str) -> Self {
        let value = |key: &str| output.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        Self { url: value("url ").map(str::to_owned), pid: value("pid ").and_then(|pid| pid.parse().ok()) }
    }
}

/// Runs the script `stop` for a broker's folder; with the word `--wipe` it deletes what the folder has.
pub fn stop(scripts: &Path, folder: &Path, words: &[&str]) -> Result<(), String> {
    let script = scripts.join("stop");
    let status = Command::new(&script).arg(folder).args(words).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} failed ({status})", script.display())),
        Err(error) => Err(format!("{}: {error}", script.display())),
    }
}

/// Stops the broker when it is dropped, and wipes its folder.
pub(crate) struct ScriptedBroker {
    pub scripts: PathBuf,
    pub directory: PathBuf,
}

impl Drop for ScriptedBroker {
    fn drop(&mut self) {
        if let Err(why) = stop(&self.scripts, &self.directory, &["--wipe"]) {
            cli::print_error(&format!("harrier bench: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StartedBroker;

    #[test]
    fn a_script_tells_what_it_has_started() {
        let broker = StartedBroker::parse("starting\nurl amqp://127.0.0.1:5672 \npid 12\n");
        assert_eq!((broker.url.as_deref(), broker.pid), (Some("amqp://127.0.0.1:5672"), Some(12)));
        assert_eq!(StartedBroker::parse("pid x\n"), StartedBroker::default());
    }
}
