//! Pins the process, ties its life to its parent's (`PR_SET_PDEATHSIG`), and becomes another program with `exec`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use harness::placement::CpuList;

/// `launch CPUS PARENT PROGRAM [ARGUMENTS…]`.
pub(super) fn become_program(arguments: &[String]) -> Result<(), String> {
    let [cpus, parent, program, rest @ ..] = arguments else {
        return Err("launch needs processors, a parent and a program".to_owned());
    };
    set_pdeathsig(Signal::SIGTERM).map_err(|error| format!("the parent-death signal cannot be set: {error}"))?;
    // The parent may have ended before the signal was requested.
    if getppid().to_string() != *parent {
        return Err("the parent has ended".to_owned());
    }
    if cpus != "any" {
        CpuList::parse(cpus)?.pin_self()?;
    }
    let error = Command::new(program).args(rest).exec();
    Err(format!("cannot start {program}: {error}"))
}
