//! Reads a role's task and commands: lines of JSON on standard input.
//!
//! It starts no thread, so that the role's processor time is that of its work, and sends keep-alives while it waits.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::de::DeserializeOwned;

use crate::limits::{COMMAND_READ_BYTES, ROLE_IDLE_MS};

/// Commands on standard input, one per line.
pub struct CommandReader {
    input: File,
    read: Vec<u8>,
}

impl CommandReader {
    /// Reads nothing in advance.
    pub fn open() -> std::io::Result<Self> {
        Ok(Self { input: File::from(std::io::stdin().as_fd().try_clone_to_owned()?), read: Vec::new() })
    }

    /// The next command; `None` at the end of the run.
    pub fn next_command<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        self.next_while(|| Ok(()))
    }

    /// The next command. While there is none, `idle` is called periodically, so that connections stay alive while other brokers
    /// are measured.
    pub fn next_while<T: DeserializeOwned>(
        &mut self,
        idle: impl FnMut() -> Result<(), String>,
    ) -> Result<Option<T>, String> {
        let Some(line) = self.line(idle)? else { return Ok(None) };
        serde_json::from_slice(&line).map(Some).map_err(|error| format!("invalid command: {error}"))
    }

    /// The first line: the task.
    pub fn task<T: DeserializeOwned>(&mut self) -> Result<T, String> {
        self.next_command()?.ok_or_else(|| "no task was given".to_owned())
    }

    fn line(&mut self, mut idle: impl FnMut() -> Result<(), String>) -> Result<Option<Vec<u8>>, String> {
        let unreadable = |error: std::io::Error| format!("commands cannot be read: {error}");
        let mut searched = 0;
        loop {
            if let Some(at) = self.read[searched..].iter().position(|&byte| byte == b'\n') {
                return Ok(Some(self.read.drain(..=searched + at).collect()));
            }
            searched = self.read.len();
            let mut waited = [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waited, PollTimeout::from(ROLE_IDLE_MS)) {
                Ok(0) => {
                    idle()?;
                    continue;
                }
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(unreadable(error.into())),
            }
            self.read.resize(searched + COMMAND_READ_BYTES, 0);
            let count = self.input.read(&mut self.read[searched..]);
            self.read.truncate(searched + count.as_ref().map_or(0, |&bytes| bytes));
            match count {
                Ok(0) if searched == 0 => return Ok(None),
                Ok(0) => return Err("the commands end in the middle of a line".to_owned()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn orders_come_one_at_a_time_and_end() {
        let path = std::env::temp_dir().join(format!("harrier-orders-{}", std::process::id()));
        let mut input = File::options().create(true).truncate(true).read(true).write(true).open(&path).expect("a file");
        let long = "x".repeat(3 * COMMAND_READ_BYTES);
        write!(input, "1\n2\n\"{long}\"\n").expect("written");
        input.rewind().expect("a file");
        let mut commands = CommandReader { input, read: Vec::new() };
        assert_eq!(commands.next_command::<u32>(), Ok(Some(1)));
        assert_eq!(commands.task::<u32>(), Ok(2));
        assert_eq!(commands.next_command::<String>(), Ok(Some(long)));
        assert_eq!(commands.next_command::<u32>(), Ok(None));
        std::fs::remove_file(&path).expect("it is there");
    }
}
