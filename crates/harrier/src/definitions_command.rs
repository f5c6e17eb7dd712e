//! `harrier definitions`: checks and writes definitions files without a broker.

use crate::initial_definitions::{initial, read, salted};
use crate::options::limits;
use crate::process::seed;
use crate::{USAGE_STATUS, greeting, print, print_error, usage_error};
use catalog::{Catalog, CatalogLimits};
use config::{BrokerConfig, BrokerInvocation, Machine};
use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "usage: harrier definitions check FILE
       harrier definitions export [OPTIONS OF harrier broker]

check reads a definitions file, as RabbitMQ exports it, and prints what it contains, or everything that is wrong with it.
export prints the initial definitions of a broker with these options as such a file. The definitions of a running broker
are printed by harrier ctl definitions.
";

/// Runs `harrier definitions`.
pub fn main(words: &[OsString]) -> ExitCode {
    let texts: Vec<_> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let outcome = match texts[..] {
        ["check", file] => check(file),
        ["export", ..] => export(&words[1..]),
        ["--help" | "-h"] => return print(USAGE),
        _ => return usage_error(USAGE),
    };
    match outcome {
        Ok(text) => print(&text),
        Err((why, status)) => {
            for line in why.lines() {
                print_error(&format!("harrier definitions: {line}"));
            }
            status
        }
    }
}

type CommandResult = Result<String, (String, ExitCode)>;

fn check(path: &str) -> CommandResult {
    let failed = |why: String| (why, ExitCode::FAILURE);
    let file = read(path).map_err(failed)?;
    let mut catalog = Catalog::new(CatalogLimits::default());
    file.load(&mut catalog, 1, |_| false).map_err(|fault| failed(format!("{path}: {fault}")))?;
    let mut text: String = file.warnings.iter().map(|odd| format!("warning: {odd}\n")).collect();
    for (section, count) in file.counts() {
        text.push_str(&format!("{section}: {count}\n"));
    }
    Ok(text + "sound\n")
}

fn export(words: &[OsString]) -> CommandResult {
    let failed = |why: String| (why, ExitCode::FAILURE);
    let told = |error: config::ConfigError| {
        let status = if error.is_usage() { ExitCode::from(USAGE_STATUS) } else { ExitCode::FAILURE };
        (error.to_string(), status)
    };
    let config = match BrokerConfig::load(words.iter().cloned(), std::env::vars_os()).map_err(told)? {
        BrokerInvocation::Run(config) => config,
        BrokerInvocation::Print(_) | BrokerInvocation::Help => return Ok(USAGE.to_owned()),
    };
    let seed = seed().map_err(|error| failed(error.to_string()))?;
    let shards = config.shard_count(&Machine::here());
    let beginning = initial(&config, &limits(&config, seed), shards).map_err(told)?;
    let kept = beginning.file.map(|file| file.kept()).unwrap_or_default();
    let written = salted(|salt| definitions::write(&beginning.catalog, &kept, greeting::VERSION, salt));
    Ok(written.map_err(failed)? + "\n")
}
