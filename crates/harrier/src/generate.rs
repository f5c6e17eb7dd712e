//! `harrier generate`: manual pages, and what shells read to complete command lines, from the declarations of the commands.
//!
//! Never writes what differs between two runs of one program: a package that has these files can be reproduced.

use crate::program;
use cli::{Command, ManualPage, Shell};
use cli::{given, print, print_error, usage_error};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

const DESCRIPTION: &str = "\
Prints or writes manual pages and completions of all commands that this program has.";

const BEHIND: &str = "\
files writes DIR/usr/share/man/man1/harrier*.1, and for bash, zsh and fish
DIR/usr/share/bash-completion/completions/harrier, DIR/usr/share/zsh/vendor-completions/_harrier and
DIR/usr/share/fish/vendor_completions.d/harrier.fish.

Examples
  harrier generate completions bash > ~/.local/share/bash-completion/completions/harrier
  harrier generate completions fish > ~/.config/fish/completions/harrier.fish
  harrier generate man ctl list_queues | man -l -
  harrier generate files stage

Status: 0 for success, 1 for a file that cannot be written, 2 for wrong usage.";

/// The shells, and where each looks for completions below `usr/share`.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/harrier"),
    (Shell::Zsh, "zsh/vendor-completions/_harrier"),
    (Shell::Fish, "fish/vendor_completions.d/harrier.fish"),
];

/// The command as declared.
pub fn command() -> Command {
    let names = SHELLS.map(|(shell, _)| shell.to_string());
    let completions = Command::new("completions")
        .about("print what a shell reads to complete command lines")
        .override_usage("harrier generate completions bash|zsh|fish")
        .arg(cli::word("SHELL", "bash, zsh or fish").value_parser(names).hide_possible_values(true));
    let man = Command::new("man")
        .about("print the manual page of the program or of a command")
        .override_usage("harrier generate man [COMMAND...]")
        .arg(cli::word("[COMMAND...]", "the words of the command, as in ctl list_queues"));
    let files = Command::new("files")
        .about("write all pages and completions below a folder, in the places of a system")
        .override_usage("harrier generate files DIR")
        .arg(cli::word("DIR", "the folder; it is made if it is not there").value_parser(cli::value_parser!(PathBuf)));
    Command::new("generate")
        .about("print or write manual pages and completions for shells")
        .long_about(DESCRIPTION)
        .override_usage(
            "harrier generate completions bash|zsh|fish\nharrier generate man [COMMAND...]\nharrier generate files DIR",
        )
        .after_help(BEHIND)
        .subcommand_required(true)
        .subcommands([completions, man, files])
}

/// Runs `harrier generate`.
pub fn main(words: &[OsString]) -> ExitCode {
    let given = match given(command(), words) {
        Ok(given) => given,
        Err(status) => return status,
    };
    match given.subcommand() {
        Some(("completions", given)) => {
            let named = cli::text(given, "SHELL").unwrap_or_default();
            let shell = SHELLS.into_iter().find(|(shell, _)| shell.to_string() == named);
            shell.map_or_else(
                || usage_error("which shell?"),
                |(shell, _)| print(&cli::completion_script(shell, program())),
            )
        }
        Some(("man", given)) => {
            let words = cli::texts(given, "COMMAND");
            let name = [&["harrier"], &words[..]].concat().join("-");
            match page(&name) {
                Ok(Some(page)) => print(&page.text),
                Ok(None) => usage_error(&format!("there is no command '{}'", words.join(" "))),
                Err(error) => failure(&error.to_string()),
            }
        }
        Some((_, given)) => match given.get_one::<PathBuf>("DIR").map(|folder| write(folder)) {
            Some(Err(why)) => failure(&why),
            Some(Ok(())) | None => ExitCode::SUCCESS,
        },
        None => usage_error("generate needs a command"),
    }
}

fn page(name: &str) -> io::Result<Option<ManualPage>> {
    let file_name = format!("{name}.1");
    Ok(cli::manual_pages(program())?.into_iter().find(|page| page.file_name == file_name))
}

fn write(folder: &Path) -> Result<(), String> {
    let share = folder.join("usr/share");
    for page in cli::manual_pages(program()).map_err(|error| error.to_string())? {
        write_file(&share.join("man/man1").join(&page.file_name), &page.text)?;
    }
    for (shell, place) in SHELLS {
        write_file(&share.join(place), &cli::completion_script(shell, program()))?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text)).map_err(|error| format!("{}: {error}", path.display()))
}

fn failure(why: &str) -> ExitCode {
    print_error(&format!("harrier generate: {why}"));
    ExitCode::FAILURE
}
