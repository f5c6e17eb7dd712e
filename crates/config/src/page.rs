//! The help and the reference page.
//!
//! Enters: the declaration.  Leaves: text.
//! Owns:   the words around the declaration.

use crate::broker::SETTINGS;
use crate::load::DEFAULT_FILE;
use crate::setting::Setting;
use crate::tables::TABLES;
use std::fmt::Write;

const COLUMNS: usize = 100;

/// What `harrier broker --help` prints.
pub fn help() -> String {
    let mut out = format!(
        "usage: harrier broker [OPTIONS]\n\nRuns a broker until SIGTERM or SIGINT.\n\n  \
         --config FILE             settings from this file of TOML; default {DEFAULT_FILE}, if it exists\n  \
         --print-config            print the configuration that results, as such a file, and end\n  \
         --help                    print this and end\n"
    );
    let mut section = "";
    for setting in SETTINGS {
        if section != setting.section {
            section = setting.section;
            let _infallible = write!(out, "\n{section}\n");
        }
        let list = if setting.kind.is_list() { " (repeatable)" } else { "" };
        let _infallible = writeln!(out, "  {} {}{list}", setting.option(), setting.kind.placeholder());
        for line in wrapped(&setting.help_line(), COLUMNS - 6) {
            let _infallible = writeln!(out, "      {line}");
        }
    }
    out.push_str(HELP_NOTES);
    out
}

/// What the help says behind the settings.
pub const HELP_NOTES: &str = "\nAn option is written --name VALUE or --name=VALUE, with - or _ between its words; one of true or false\nneeds no \
         VALUE to be true. Of an option given twice the last counts, unless it is repeatable.\nEach setting is also a variable, HARRIER_ and its name in capitals, with \
         commas\nbetween the items of a list; and a key of the file, where virtual hosts, users and policies are too.\n\
         The command line overrides the environment, and that the file.\n";

impl Setting {
    /// What it does, what it takes and what it is otherwise, for the help.
    pub fn help_line(&self) -> String {
        let default = if self.default.is_empty() { "none" } else { self.default };
        format!("{} {}; default {default}", self.help.trim(), capitalised(&self.kind.form()))
    }
}

/// The reference page, `docs/configuration.md`.
pub fn reference() -> String {
    let mut out = String::from(
        "# Configuration\n\n<!-- Generated from crates/config by `cargo run -p harrier-config --example reference`. -->\n\n",
    );
    let _infallible = write!(
        out,
        "`harrier broker` needs none. A setting comes from the command line, else from the environment, else from the file, \
         else it has its default.\n\n\
         | source | how `shards` is set there | how a list is |\n|---|---|---|\n\
         | command line | `--shards 4` or `--shards=4` | the option repeated; one empty value makes the list empty |\n\
         | environment | `HARRIER_SHARDS=4` | items with commas between them |\n\
         | file, TOML | `shards = 4` | `listen = [\"127.0.0.1:5672\", \"unix:/run/harrier.sock\"]` |\n\n\
         A setting of several words, such as `frame_bytes_max`, is written so in the file, in capitals behind `HARRIER_` in the \
         environment, and as `--frame-bytes-max` or `--frame_bytes_max` on the command line, where one that is true or false needs \
         no value to be true. Of an option given twice the last \
         counts, unless it is repeatable.\n\n\
         The file is named by `--config FILE` or by the variable `HARRIER_CONFIG`; otherwise it is `{DEFAULT_FILE}`, if that \
         exists. An unknown key or option and a value out of range are errors, told with file and line, and the broker does \
         not start: status 2 if the command line is at fault, 1 if the environment or the file is. An unknown variable is \
         logged and ignored.\n\n\
         Bytes are numbers, or texts with a unit: `128KiB`, `2GiB`, `1GB` (KiB, MiB, GiB, TiB are powers of 1,024; kB, MB, GB, \
         TB of 1,000).\n\n\
         `harrier broker --print-config` prints the configuration that results, with these explanations and where each value \
         came from, as a file that makes the same configuration again. It contains passwords.\n"
    );
    let mut section = "";
    for setting in SETTINGS {
        if section != setting.section {
            section = setting.section;
            let _infallible =
                write!(out, "\n## {section}\n| setting | default | takes | what it does |\n|---|---|---|---|\n");
        }
        let repeatable = if setting.kind.is_list() { ", repeatable" } else { "" };
        let default = setting.default_value().to_toml();
        let _infallible = writeln!(
            out,
            "| `{}` | `{default}` | {}{repeatable} | {} |",
            setting.name,
            setting.kind.form(),
            setting.help.trim()
        );
    }
    out.push_str("\n## Virtual hosts, users, permissions and policies\nIn the file only, below all settings; each table may be repeated.\n");
    for form in &TABLES {
        let _infallible = write!(out, "\n### `[[{}]]`\n{}\n\n| key | is | |\n|---|---|---|\n", form.name, form.help);
        for key in form.keys {
            let _infallible = writeln!(out, "| `{}` | {} | {} |", key.name, key.form, key.help);
        }
    }
    out.push_str(
        "\n## An example\n```toml\nlisten = [\"0.0.0.0:5672\", \"unix:/run/harrier.sock\"]\nshards = 4\nmemory_limit = \"2GiB\"\n\n\
         [[vhost]]\nname = \"/\"\n\n[[user]]\nname = \"orders\"\npassword = \"change me\"\n\n[[permission]]\nuser = \"orders\"\n\
         vhost = \"/\"\nconfigure = \"^orders\\\\.\"\nwrite = \"^orders\\\\.\"\nread = \"^orders\\\\.\"\n```\n",
    );
    out
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Lines of at most so many letters, broken at spaces.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
