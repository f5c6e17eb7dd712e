//! A line for each thing checked.

use crate::Outcome;
use std::error::Error;
use std::process::ExitCode;

#[derive(Default)]
pub struct Report {
    failed: u64,
}

impl Report {
    pub fn check(&mut self, name: &str, body: impl FnOnce() -> Outcome) {
        match body() {
            Ok(()) => println!("ok clients-crate-{name}"),
            Err(why) => {
                self.failed += 1;
                println!("not ok clients-crate-{name} - {}", reasons(&*why));
            }
        }
    }

    pub fn end(&self) -> ExitCode {
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// An error with what caused it, in one line.
fn reasons(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said += &format!(": {error}");
        cause = error.source();
    }
    said
}
