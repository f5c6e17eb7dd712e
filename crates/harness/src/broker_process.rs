//! A broker of this program in a child process. It binds port 0 and tells where it listens; dropping it ends it.

use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::broker_log::{BrokerLog, LogDisplay, LogLevels};
use crate::interrupt;
use crate::limits::LOG_LOOK_INTERVAL;
use crate::placement::CpuList;
use crate::ready_line::ReadyLine;
use crate::role_process::{ChildProcess, launch_command, this_program};
use gauge::clock::Deadline;

/// A running broker.
pub struct BrokerProcess {
    // Ended before its log is.
    process: ChildProcess,
    log: BrokerLog,
    is_ready: bool,
}

impl BrokerProcess {
    /// Starts this program's broker with these options, without a state folder unless they name one.
    pub fn start(options: &[String], cpus: &CpuList, display: LogDisplay) -> Result<Self, String> {
        let program = this_program()?.to_string_lossy().into_owned();
        Self::start_command(&[program, "broker".into(), "--state".into(), "none".into()], options, cpus, display)
    }

    /// Starts the broker of this command with these options.
    pub(crate) fn start_command(
        command: &[String],
        options: &[String],
        cpus: &CpuList,
        display: LogDisplay,
    ) -> Result<Self, String> {
        let (program, words) = command.split_first().ok_or("the broker's command is empty")?;
        let given = [words, options].concat();
        let levels = LogLevels::of(&given);
        let mut command = launch_command(cpus, program, &[given, levels.words.clone()].concat())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = ChildProcess::start("broker", &mut command)?;
        let errors = process.take_errors().ok_or("the broker has no pipe")?;
        Ok(Self { log: BrokerLog::read(errors, display, &levels)?, process, is_ready: false })
    }

    /// Waits until it is ready, and returns what it says then.
    ///
    /// # Errors
    /// An interruption, or a broker that has ended (which its log tells more of) or is late.
    pub fn await_ready(&mut self, wait: Duration) -> Result<ReadyLine, String> {
        let deadline = Deadline::after(wait);
        loop {
            if interrupt::requested() {
                return Err(interrupt::MESSAGE.to_owned());
            }
            match self.log.await_ready(LOG_LOOK_INTERVAL) {
                Ok(ready) => {
                    self.is_ready = true;
                    return Ok(ready);
                }
                // The log ends with its process.
                Err(RecvTimeoutError::Disconnected) => return Err(self.process.await_end()?),
                Err(RecvTimeoutError::Timeout) => self.process.check_alive()?,
            }
            if deadline.passed() {
                return Err(format!("the broker has not logged that it is ready after {} s", wait.as_secs()));
            }
        }
    }

    /// Whether it has logged that it is ready. Returns at once.
    pub fn is_ready(&mut self) -> bool {
        self.is_ready = self.is_ready || self.log.await_ready(Duration::ZERO).is_ok();
        self.is_ready
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.process.ended()
    }

    /// Fails if it has ended.
    pub(crate) fn check_alive(&mut self) -> Result<(), String> {
        self.process.check_alive()
    }

    /// Stops it and returns the last line of its log.
    pub fn end(self) -> String {
        let Self { process, log, .. } = self;
        drop(process);
        log.last_line()
    }
}
