//! Manual pages: one for a program, and one for each command below it.

use crate::help_text::with_help;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;

/// A page and the name of its file, as in `harrier-ctl.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManualPage {
    pub file_name: String,
    pub text: String,
}

/// The pages of a program and of all commands that it shows.
///
/// # Errors
/// None is known: the text goes into memory.
pub fn manual_pages(program: Command) -> io::Result<Vec<ManualPage>> {
    let mut program = with_help(program);
    program.build();
    let mut pages = Vec::new();
    let mut waiting = vec![&program];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
        pages.push(page(command, &program)?);
    }
    pages.sort_by(|one, other| one.file_name.cmp(&other.file_name));
    Ok(pages)
}

fn page(command: &Command, program: &Command) -> io::Result<ManualPage> {
    let man = Man::new(command.clone());
    let file_name = man.get_filename();
    let name = file_name.trim_end_matches(".1");
    let (program, version) = (program.get_name(), program.get_version().unwrap_or_default());
    // With an empty date, which clap_mangen leaves out and so makes the version the date. One of now would differ between builds.
    let mut text = format!(".TH {name} 1 \"\" \"{program} {version}\" \"Manual of {program}\"\n").into_bytes();
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    behind(&after).to_writer(&mut text)?;
    Ok(ManualPage { file_name, text: ascii(&String::from_utf8_lossy(&text)) })
}

/// With roff's names for other characters: whether a page is read as UTF-8 depends on the reader.
fn ascii(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii() {
            true => page.push(letter),
            false => page.push_str(&format!("\\[u{:04X}]", u32::from(letter))),
        }
    }
    page
}

/// What is behind the options: a paragraph whose lines are indented below a heading is a section as it is written, any other
/// is text.
fn behind(after: &str) -> Roff {
    let mut page = Roff::new();
    let mut has_notes = false;
    for paragraph in after.trim().split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        match paragraph.split_once('\n') {
            Some((heading, lines)) if lines.lines().all(|line| line.starts_with(' ')) => {
                page.control("SH", [heading.trim_end_matches(':').to_uppercase().as_str()]);
                page.control("nf", []);
                lines.lines().for_each(|line| {
                    page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
                });
                page.control("fi", []);
                has_notes = false;
            }
            _ => {
                let control = if has_notes { "PP" } else { "SH" };
                page.control(control, (!has_notes).then_some("NOTES"));
                paragraph.lines().for_each(|line| {
                    page.text([roman(line.trim())]);
                });
                has_notes = true;
            }
        }
    }
    page
}
