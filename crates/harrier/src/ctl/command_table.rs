//! The commands of `harrier ctl` as data: words, arguments, options, and what each does.
//!
//! Owns: the form of the table; `--help`, the parser and the page of commands come from it.

use super::change_table::CHANGES;
use super::ctl_run::{CtlOutput, CtlRun};
use super::exit_status::CtlError;
use super::list_table::LISTS;
use super::own_table::OWN_COMMANDS;

/// A command.
#[derive(Clone, Copy)]
pub struct CtlCommand {
    pub name: &'static str,
    /// What stands behind it: `NAME` has to, `[NAME]` may, and `[NAME...]` takes the rest.
    pub arguments: &'static str,
    pub options: &'static [CtlOption],
    /// One sentence for people.
    pub does: &'static str,
    pub action: CtlAction,
    /// Under which names the configuration may state what it shows or changes.
    pub stated: Option<StatedKeys>,
}

/// An option that not every command has.
#[derive(Clone, Copy, Debug)]
pub struct CtlOption {
    pub long: &'static str,
    pub short: Option<&'static str>,
    /// The value, if it has one.
    pub value: Option<&'static str>,
    pub does: &'static str,
}

/// How the configuration names something: a section, and its keys. The second of a pair is the field of a row, or the value that
/// a change is given.
#[derive(Clone, Copy, Debug)]
pub struct StatedKeys {
    pub section: &'static str,
    pub keys: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
pub enum CtlAction {
    List(ListCommand),
    Change(ChangeCommand),
    /// Anything else, with a connection to the broker.
    Own(fn(&mut CtlRun<'_>) -> Result<CtlOutput, CtlError>),
    /// Without one.
    Offline(fn(&super::CtlArguments) -> Result<CtlOutput, CtlError>),
}

/// Shows rows that a route of the API answers.
#[derive(Clone, Copy)]
pub struct ListCommand {
    /// With `{NAME}` for arguments and options, and `{vhost}`.
    pub path: &'static str,
    /// An option, and the path with it.
    pub other_path: Option<(&'static str, &'static str)>,
    /// `NAME`, `NAME=FIELD`, or `NAME='TEXT` for one that is always the same.
    pub columns: &'static [&'static str],
    /// Of these, what is shown if no column is named.
    pub defaults: &'static [&'static str],
    /// Rows of other virtual hosts are left out here, since the route has all.
    pub is_filtered: bool,
}

/// Sends one request that changes something.
#[derive(Clone, Copy)]
pub struct ChangeCommand {
    pub method: &'static str,
    pub path: &'static str,
    /// Parameters of the query, and the options that set them.
    pub query: &'static [(&'static str, &'static str)],
    pub body: &'static [(&'static str, BodyField)],
    /// The argument that is the reason of the request.
    pub reason: Option<&'static str>,
    /// For a terminal, before it begins.
    pub progress: &'static str,
    /// What is not there, if the answer is 404.
    pub missing: &'static str,
}

/// A field of a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyField {
    /// An argument, or an option that is given, as it is.
    Text(&'static str),
    /// The same, read as JSON.
    Json(&'static str),
    /// The same, read as a whole number.
    Number(&'static str),
    /// Whether an option is given.
    Flag(&'static str),
}

pub const VHOST: CtlOption = CtlOption {
    long: "--vhost",
    short: Some("-p"),
    value: Some("VHOST"),
    does: "the virtual host; default: that of the address",
};

impl CtlCommand {
    pub const fn new(name: &'static str, arguments: &'static str, does: &'static str, action: CtlAction) -> Self {
        CtlCommand { name, arguments, options: &[], does, action, stated: None }
    }

    pub const fn with_options(self, options: &'static [CtlOption]) -> Self {
        CtlCommand { options, ..self }
    }

    pub const fn with_stated(self, section: &'static str, keys: &'static [(&'static str, &'static str)]) -> Self {
        CtlCommand { stated: Some(StatedKeys { section, keys }), ..self }
    }

    /// `NAME ARGUMENTS`, with its options.
    pub fn usage(&self) -> String {
        let options = self.options.iter().map(|option| {
            let word = option.short.unwrap_or(option.long);
            let value = option.value.map(|value| format!(" {value}")).unwrap_or_default();
            format!(" [{word}{value}]")
        });
        let arguments = if self.arguments.is_empty() { String::new() } else { format!(" {}", self.arguments) };
        format!("{}{}{arguments}", self.name, options.collect::<String>())
    }
}

/// All commands, under their headings.
pub const HEADINGS: [(&str, &[CtlCommand]); 3] =
    [("Show", LISTS), ("Change", CHANGES), ("The broker, and what has steps of its own", OWN_COMMANDS)];

/// The command of a word.
pub fn find(word: &str) -> Option<&'static CtlCommand> {
    let mut all = HEADINGS.iter().flat_map(|(_, commands)| commands.iter());
    all.find(|command| command.name == word)
}

#[cfg(test)]
mod tests {
    use super::{CtlAction, HEADINGS};
    use std::collections::BTreeSet;

    #[test]
    fn words_are_unique_and_placeholders_are_arguments_or_options() {
        let mut words = BTreeSet::new();
        for command in HEADINGS.iter().flat_map(|(_, commands)| commands.iter()) {
            assert!(words.insert(command.name), "{} is there twice", command.name);
            let names: Vec<_> = command
                .arguments
                .split(' ')
                .map(|word| word.trim_matches(['[', ']']).trim_end_matches("..."))
                .collect();
            let options: Vec<_> = command.options.iter().map(|option| option.long).collect();
            let is_known = |name: &str| match name {
                "vhost" => options.contains(&"--vhost"),
                name => names.contains(&name) || options.contains(&name),
            };
            let check = |template: &str| {
                for part in template.split('{').skip(1) {
                    let name = part.split_once('}').expect("it ends").0;
                    assert!(is_known(name), "{}: {name} in {template}", command.name);
                }
            };
            match command.action {
                CtlAction::List(list) => {
                    check(list.path);
                    list.other_path.iter().for_each(|(option, path)| {
                        assert!(options.contains(option));
                        check(path);
                    });
                    let columns: Vec<_> =
                        list.columns.iter().map(|column| column.split('=').next().expect("a name")).collect();
                    assert!(!list.defaults.is_empty() && list.defaults.iter().all(|name| columns.contains(name)));
                }
                CtlAction::Change(change) => {
                    [change.path, change.progress, change.missing].into_iter().for_each(check);
                    assert!(change.query.iter().all(|(_, option)| options.contains(option)), "{}", command.name);
                    assert!(change.reason.is_none_or(is_known), "{}", command.name);
                }
                CtlAction::Own(_) | CtlAction::Offline(_) => {}
            }
        }
    }
}
