//! The tools: what measures brokers, plans trees of them, and trades through one. Each is a feature of the program.

use std::ffi::OsString;
use std::process::ExitCode;

use cli::usage_error;

#[cfg(feature = "bench")]
pub(crate) fn bench(words: &[OsString]) -> ExitCode {
    with_text("bench", words, bench::main)
}

#[cfg(feature = "topology")]
pub(crate) fn topology(words: &[OsString]) -> ExitCode {
    with_text("topology", words, trees::main)
}

#[cfg(feature = "market")]
pub(crate) fn market(words: &[OsString]) -> ExitCode {
    with_text("market", words, trade::main)
}

/// Runs a role if the words ask for one: all tools start `harrier bench role …` for their processes.
pub(crate) fn role(words: &[OsString]) -> Option<ExitCode> {
    let is_role = matches!(words, [command, role, ..] if command == "bench" && role == "role");
    is_role.then(|| with_text("bench role", &words[2..], |words| load::role::run(words, ROLES)))
}

/// The roles that `load` does not have itself.
#[cfg(any(feature = "bench", feature = "market"))]
const ROLES: &[(&str, load::role::RoleMain)] = trade::ROLES;
#[cfg(not(any(feature = "bench", feature = "market")))]
const ROLES: &[(&str, load::role::RoleMain)] = &[];

/// The tools take text only.
fn with_text(tool: &str, words: &[OsString], run: fn(&[String]) -> ExitCode) -> ExitCode {
    match words.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>() {
        Some(words) => run(&words),
        None => usage_error(&format!("{tool} takes words of UTF-8 only")),
    }
}
