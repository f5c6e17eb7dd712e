//! `harrier rdma`: shows this machine's RDMA devices and tests them.
//!
//! Exit status: 0 if RDMA can be used, 1 if not, 2 for wrong usage.

mod calibrate;
mod findings;
mod message_paths;
mod self_test;
mod show;

use crate::{print, usage_error};
use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "usage: harrier rdma check [--json]
       harrier rdma calibrate [--json] [--device NAME] [--rounds N]

check lists the RDMA devices of this machine with their ports, addresses and limits, and tries each path
over each address: a loopback connection, an inline send, an eager send, a READ. Failures are printed with a
remedy. Status 0 if at least one device works and none fails, 1 otherwise.

calibrate measures on the first device, or the named one, up to which size messages are faster inline, and
from which size bodies are faster read by the receiver than sent, and prints the resulting configuration line.
";

/// Runs `harrier rdma`.
pub fn main(words: &[OsString]) -> ExitCode {
    let texts: Vec<_> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let json = match texts[..] {
        ["check"] => false,
        ["check", "--json"] => true,
        ["--help" | "-h"] | ["check" | "calibrate", "--help" | "-h"] => return print(USAGE),
        ["calibrate", ref rest @ ..] => return calibrate::main(rest, USAGE),
        _ => return usage_error(USAGE),
    };
    let findings = findings::inspect();
    let text = if json { show::json(&findings) } else { show::lines(&findings) };
    let printed = print(&text);
    if findings.usable() { printed } else { ExitCode::FAILURE }
}
