//! The log of a broker in a child process, read by a thread so that the broker never waits for a reader: whether it is ready,
//! what it said last, and what a user of this program is to see.

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::limits::LOG_LINE_BYTES_MAX;
use crate::ready_line::ReadyLine;

/// Levels of a log, the quietest first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
const WARN: usize = 1;
const INFO: usize = 2;

/// Who sees the lines of a broker's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogDisplay {
    /// The user of this program, on standard error: warnings and errors, or the level that the broker's options ask for.
    Shown,
    /// Nobody: the last line is kept, for the reason of a failure.
    Kept,
}

/// A level for a broker's log, and from which level on its lines are shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogLevels {
    /// Options for the broker. Without them it would not log that it is ready, or not so that it can be read.
    pub words: Vec<String>,
    shown: usize,
}

impl LogLevels {
    /// For a broker with these options.
    pub fn of(options: &[String]) -> Self {
        let mut asked = None;
        for (index, word) in options.iter().enumerate() {
            match word.strip_prefix("--log-level") {
                Some("") => asked = options.get(index + 1).map(String::as_str),
                Some(value) => asked = value.strip_prefix('=').or(asked),
                None => {}
            }
        }
        let level = asked.map(|text| LEVELS.iter().position(|&level| level == text));
        let mut words: Vec<String> = Vec::new();
        // The broker itself refuses a level that there is not.
        if level != Some(None) {
            let level = level.flatten().unwrap_or(INFO).max(INFO);
            words.extend(["--log-level", LEVELS[level]].map(str::to_owned));
        }
        words.extend(["--log-format", "json"].map(str::to_owned));
        Self { words, shown: level.flatten().unwrap_or(WARN) }
    }
}

/// The thread that reads a log.
pub(crate) struct BrokerLog {
    ready: Receiver<ReadyLine>,
    reader: JoinHandle<String>,
}

impl BrokerLog {
    /// Begins to read.
    pub fn read(errors: ChildStderr, display: LogDisplay, levels: &LogLevels) -> Result<Self, String> {
        let (sender, ready) = channel();
        let shown = (display == LogDisplay::Shown).then_some(levels.shown);
        let read = move || read_lines(errors, &sender, shown);
        let reader = std::thread::Builder::new().name("broker-log".to_owned()).spawn(read);
        Ok(Self { ready, reader: reader.map_err(|error| format!("a thread cannot be started: {error}"))? })
    }

    /// Waits that long for the line that says that the broker is ready.
    pub fn await_ready(&self, wait: Duration) -> Result<ReadyLine, RecvTimeoutError> {
        self.ready.recv_timeout(wait)
    }

    /// The last line, once the broker has ended and all of it is read.
    pub fn last_line(self) -> String {
        let last = self.reader.join().unwrap_or_default();
        match last.as_str() {
            "" => "the broker ended without a word".to_owned(),
            last => last.trim_start_matches("harrier: ").to_owned(),
        }
    }
}

/// Reads until the end, and returns the last line that is not empty.
fn read_lines(errors: impl Read, ready: &Sender<ReadyLine>, shown: Option<usize>) -> String {
    let (mut reader, mut last) = (BufReader::new(errors), String::new());
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(LOG_LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return last,
            Ok(_) => {}
            Err(error) => return format!("its log cannot be read: {error}"),
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() {
            continue;
        }
        if let Some(found) = ReadyLine::parse(&line) {
            // Fails only if nobody waits for it any more.
            let _told = ready.send(found);
        }
        if shown.is_some_and(|shown| is_shown(&line, shown)) {
            cli::print_error(&line);
        }
        last = line;
    }
}

/// Whether a line is of this level or a more important one. What is no line of a log, as the reason why a program does not
/// start, is the most important.
fn is_shown(line: &str, shown: usize) -> bool {
    let fields: Option<Value> = serde_json::from_str(line).ok();
    let level = fields.as_ref().and_then(|fields| fields.get("level")).and_then(Value::as_str);
    let level = level.and_then(|text| LEVELS.iter().position(|level| text.eq_ignore_ascii_case(level)));
    level.unwrap_or(0) <= shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_logs_that_it_is_ready_whatever_its_options_show() {
        let of = |line: &str| {
            let options: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let LogLevels { words, shown } = LogLevels::of(&options);
            format!("{} | {shown}", words.join(" "))
        };
        assert_eq!(of("--shards 2"), "--log-level info --log-format json | 1");
        assert_eq!(of("--log-level error"), "--log-level info --log-format json | 0");
        assert_eq!(of("--log-level=debug --shards 2"), "--log-level debug --log-format json | 3");
        assert_eq!(of("--log-level trace --log-level=warn"), "--log-level info --log-format json | 1");
        assert_eq!(of("--log-level loud"), "--log-format json | 1");
    }

    #[test]
    fn lines_are_shown_from_their_level_on() {
        let line = |level: &str| format!(r#"{{"level":"{level}","message":"m"}}"#);
        assert!(is_shown(&line("WARN"), WARN) && is_shown(&line("ERROR"), WARN) && !is_shown(&line("INFO"), WARN));
        assert!(is_shown("harrier broker: unknown option", 0));
    }

    #[test]
    fn a_log_tells_who_is_ready_and_what_came_last() {
        let (sender, ready) = channel();
        let log = "early\n{\"message\":\"harrier broker is ready\",\"addresses\":\"127.0.0.1:7\"}\n\nlast\n \n";
        assert_eq!(read_lines(log.as_bytes(), &sender, None), "last");
        assert_eq!(ready.recv().map(|line| line.addresses), Ok(vec!["127.0.0.1:7".to_owned()]));
        assert_eq!(read_lines(&b""[..], &sender, None), "");
        // A line without an end does not fill the memory.
        let long = vec![b'x'; LOG_LINE_BYTES_MAX as usize + 10];
        assert_eq!(read_lines(&*long, &sender, None), "x".repeat(10));
    }
}
