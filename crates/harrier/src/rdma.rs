//! `harrier rdma`: shows this machine's RDMA devices and tests them.
//!
//! Exit status: 0 if RDMA can be used, 1 if not, 2 for wrong usage.

mod calibrate;
mod findings;
mod message_paths;
mod self_test;
mod show;

use cli::{given, print};
use std::ffi::OsString;
use std::process::ExitCode;

const DESCRIPTION: &str = "\
check lists the RDMA devices of this machine with their ports, addresses and limits, and tries each path
over each address: a loopback connection, an inline send, an eager send, a READ. Failures are printed with a
remedy. Status 0 if at least one device works and none fails, 1 otherwise.

calibrate measures on the first device, or the named one, up to which size messages are faster inline, and
from which size bodies are faster read by the receiver than sent, and prints the resulting configuration line.";

/// The command as declared.
pub fn command() -> cli::Command {
    let json = || cli::flag("json", "print JSON");
    let check = cli::Command::new("check")
        .about("list the RDMA devices and try each path")
        .override_usage("harrier rdma check [--json]")
        .arg(json());
    let calibrate = cli::Command::new("calibrate")
        .about("measure from which sizes one path is faster than another")
        .override_usage("harrier rdma calibrate [--json] [--device NAME] [--rounds N]")
        .args([
            json(),
            cli::valued("device", "NAME", "the device; default: the first"),
            cli::valued("rounds", "N", format!("how often each path is measured; default: {}", calibrate::ROUNDS)),
        ]);
    cli::Command::new("rdma")
        .about("inspect and test this machine's RDMA devices")
        .long_about(DESCRIPTION)
        .override_usage("harrier rdma check [--json]\nharrier rdma calibrate [--json] [--device NAME] [--rounds N]")
        .subcommand_required(true)
        .subcommands([check, calibrate])
}

/// Runs `harrier rdma`.
pub fn main(words: &[OsString]) -> ExitCode {
    let given = match given(command(), words) {
        Ok(given) => given,
        Err(status) => return status,
    };
    let json = match given.subcommand() {
        Some(("calibrate", given)) => return calibrate::main(given),
        Some((_, given)) => cli::has(given, "json"),
        None => false,
    };
    let findings = findings::inspect();
    let text = if json { show::json(&findings) } else { show::lines(&findings) };
    let printed = print(&text);
    if findings.usable() { printed } else { ExitCode::FAILURE }
}
