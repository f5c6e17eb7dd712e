//! Child processes that run roles: started from this executable, controlled by lines, terminated when dropped.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::interrupt;
use crate::limits::CHILD_END_WAIT;
use crate::placement::CpuList;
use gauge::clock::{Deadline, pause};

/// The path of this executable, for starting roles.
pub fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot determine the path of this program: {error}"))
}

/// A command that pins itself to `cpus`, ends with its parent, and then executes `program arguments`.
pub fn launch_command(cpus: &CpuList, program: &str, arguments: &[String]) -> Result<Command, String> {
    let mut command = Command::new(this_program()?);
    command
        .args(["bench", "role", "launch", &cpus.to_string(), &std::process::id().to_string(), program])
        .args(arguments);
    Ok(command)
}

/// A running child process; terminated when dropped.
pub struct ChildProcess {
    child: Child,
    name: String,
}

impl ChildProcess {
    pub fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        let child = command.spawn().map_err(|error| format!("cannot start the {name}: {error}"))?;
        interrupt::add_child(child.id());
        Ok(Self { child, name: name.to_owned() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard error, if that is a pipe that nobody has taken.
    pub(crate) fn take_errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for its end, which is near, and says how it ended.
    pub(crate) fn await_end(&mut self) -> Result<String, String> {
        let deadline = Deadline::after(CHILD_END_WAIT);
        loop {
            match self.ended()? {
                Some(status) => return Ok(format!("the {} ended early ({status})", self.name)),
                None if deadline.passed() => {
                    return Ok(format!("the {} closed its output and does not end", self.name));
                }
                None => pause(Duration::from_millis(1)),
            }
        }
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("the {} cannot be watched: {error}", self.name))
    }

    /// Fails if the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the {} ended early ({status})", self.name)),
            Err(error) => Err(format!("the {} cannot be watched: {error}", self.name)),
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Deadline::after(CHILD_END_WAIT);
        // This fails only if it has already ended, which the wait below detects.
        let _ended = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        while matches!(self.child.try_wait(), Ok(None)) {
            if deadline.passed() {
                cli::print_error(&format!("harrier bench: the {} did not end on request and is killed", self.name));
                let _ended = self.child.kill();
                let _status = self.child.wait();
                break;
            }
            pause(Duration::from_millis(1));
        }
        interrupt::remove_child(self.child.id());
    }
}

/// Output of a role's process.
#[derive(Debug)]
pub enum RoleOutput {
    Line(String),
    /// End of output, with the read error if there was one.
    Ended(Option<String>),
}

/// A child process that runs a role: it reads commands and writes reports as lines.
pub(crate) struct RoleProcess {
    // Dropped first: a child with children of its own ends them at the end of its commands.
    commands: ChildStdin,
    process: ChildProcess,
}

impl RoleProcess {
    /// Starts the role `kind`, pinned to `cpus`. A reader thread passes its output to `output_sender` until that returns `false`.
    pub fn start(
        kind: &str,
        cpus: &CpuList,
        output_sender: impl FnMut(RoleOutput) -> bool + Send + 'static,
    ) -> Result<Self, String> {
        Self::start_within(&[], kind, cpus, output_sender)
    }

    /// The same behind a command that executes another (`ip netns exec NAME`).
    pub fn start_within(
        within: &[String],
        kind: &str,
        cpus: &CpuList,
        mut output_sender: impl FnMut(RoleOutput) -> bool + Send + 'static,
    ) -> Result<Self, String> {
        let own = this_program()?.to_string_lossy().into_owned();
        let words: Vec<String> =
            within.iter().cloned().chain([own]).chain(["bench", "role", kind].map(str::to_owned)).collect();
        let (program, arguments) = words.split_first().ok_or("a program without a name")?;
        let mut command = launch_command(cpus, program, arguments)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = ChildProcess::start(kind, &mut command)?;
        let (Some(commands), Some(output)) = (process.child.stdin.take(), process.child.stdout.take()) else {
            return Err(format!("the {kind} has no pipes"));
        };
        std::thread::spawn(move || {
            let mut why = None;
            for line in BufReader::new(output).lines() {
                match line {
                    Ok(line) => {
                        if !output_sender(RoleOutput::Line(line)) {
                            return;
                        }
                    }
                    Err(error) => {
                        why = Some(error.to_string());
                        break;
                    }
                }
            }
            output_sender(RoleOutput::Ended(why));
        });
        Ok(Self { commands, process })
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// After the end of its output: the reason if it failed.
    pub fn failure(&mut self) -> Option<String> {
        let deadline = Deadline::after(CHILD_END_WAIT);
        loop {
            match self.process.child.try_wait() {
                Ok(Some(status)) => return (!status.success()).then(|| format!("it ended early ({status})")),
                // The output is closed shortly before the process ends.
                Ok(None) if !deadline.passed() => pause(Duration::from_millis(1)),
                Ok(None) => return Some("it closed its output and does not end".to_owned()),
                Err(error) => return Some(format!("it cannot be watched: {error}")),
            }
        }
    }

    /// Sends a line to its standard input.
    pub(crate) fn send_line(&mut self, line: &str) -> Result<(), String> {
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        let name = &self.process.name;
        self.commands.write_all(text.as_bytes()).map_err(|error| format!("the {name} accepts no commands: {error}"))
    }
}
