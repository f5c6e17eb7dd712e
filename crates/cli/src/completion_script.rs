//! What shells read to complete a command line.

use crate::help_text::with_help;
use clap::Command;
pub use clap_complete::Shell;

/// The script for a shell.
pub fn completion_script(shell: Shell, program: Command) -> String {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(shell, &mut with_help(program), name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
