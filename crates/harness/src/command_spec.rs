//! A command of a tool as declared: the parser of its words, its help and its manual page come from it.

use crate::arguments::{OptionSpec, ParsedOptions, UsageError, known_once};
use crate::failure::CommandFailure;
use cli::Command;
use report::stdout::put;

/// A command's usage, description, options and examples.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    usage: String,
    about: String,
    options: Vec<OptionSpec>,
    examples: &'static [(&'static str, &'static str)],
    /// The words that it takes beside options, as `NAME...`; empty for none.
    words: &'static str,
}

impl CommandSpec {
    /// One without words beside its options. `usage` begins with `harrier`, the tool and the name.
    pub fn new(
        usage: impl Into<String>,
        about: impl Into<String>,
        lists: &[&[OptionSpec]],
        examples: &'static [(&'static str, &'static str)],
    ) -> Self {
        let (usage, about) = (usage.into(), about.into().trim().to_owned());
        CommandSpec { usage, about, options: known_once(lists), examples, words: "" }
    }

    /// The same with words: `NAME`, or `[NAME...]`.
    pub fn with_words(self, words: &'static str) -> Self {
        CommandSpec { words, ..self }
    }

    /// Parses the words behind the command, unless they ask for help, which is printed then.
    ///
    /// # Errors
    /// As [`ParsedOptions`]; standard output is closed.
    pub fn given(&self, words: &[String]) -> Result<Option<ParsedOptions>, CommandFailure> {
        let given = self.parse(words)?;
        if given.has("help") {
            put(&self.help())?;
            return Ok(None);
        }
        Ok(Some(given))
    }

    /// Parses the words behind the command.
    ///
    /// # Errors
    /// As [`ParsedOptions`].
    pub fn parse(&self, words: &[String]) -> Result<ParsedOptions, UsageError> {
        match self.words {
            "" => ParsedOptions::parse(words, &[&self.options]),
            _ => ParsedOptions::parse_with_bare(words, &[&self.options]),
        }
    }

    /// What `--help` prints.
    pub fn help(&self) -> String {
        let options = self.options.iter().map(OptionSpec::declared);
        cli::help(&self.described(Command::new("")).args(options))
    }

    /// The command for pages and shells, with one line about it.
    pub fn declared(&self, name: &'static str, does: &'static str) -> Command {
        // The help is an option of every command.
        let options = self.options.iter().filter(|option| option.name != "help").map(OptionSpec::declared);
        let command = self.described(Command::new(name).about(does)).args(options);
        if self.words.is_empty() { command } else { command.arg(cli::word(self.words, "")) }
    }

    fn described(&self, command: Command) -> Command {
        let tool = self.usage.split(' ').nth(1).unwrap_or_default();
        let mut behind = String::new();
        for (at, (command, what)) in self.examples.iter().enumerate() {
            let heading = if at == 0 { "Examples\n" } else { "" };
            behind.push_str(&format!("{heading}  harrier {tool} {command}\n      {what}\n"));
        }
        let command = command.override_usage(self.usage.clone());
        let command = if self.about.is_empty() { command } else { command.long_about(self.about.clone()) };
        if behind.is_empty() { command } else { command.after_help(behind) }
    }
}

/// A tool with its commands. One whose name has two words is below the first of them.
pub fn tool(
    name: &'static str,
    about: &'static str,
    commands: impl IntoIterator<Item = (&'static str, &'static str, CommandSpec)>,
) -> Command {
    let usage = |name: &str| format!("harrier {name} COMMAND [OPTIONS]");
    let mut tool = Command::new(name).about(about).override_usage(usage(name));
    for (words, does, spec) in commands {
        tool = match words.split_once(' ') {
            None => tool.subcommand(spec.declared(words, does)),
            Some((group, word)) => {
                let command = spec.declared(word, does);
                if tool.find_subcommand(group).is_none() {
                    let usage = usage(&format!("{name} {group}"));
                    tool = tool.subcommand(Command::new(group).about(does).override_usage(usage));
                }
                tool.mut_subcommand(group, |group| group.subcommand(command))
            }
        };
    }
    tool
}

#[cfg(test)]
mod tests {
    use super::{CommandSpec, tool};
    use crate::arguments::{OptionSpec, option};

    const KNOWN: &[OptionSpec] =
        &[option("sizes", Some('m'), "MIN:MAX", "sizes"), option("help", Some('h'), "", "this text")];

    fn spec() -> CommandSpec {
        CommandSpec::new("harrier bench x [OPTIONS]", "Does x.", &[KNOWN, KNOWN], &[("x -m 1:8", "small ones")])
    }

    #[test]
    fn help_has_everything() {
        let text = spec().help();
        for part in ["usage: harrier bench x", "Does x.", "-m, --sizes MIN:MAX", "Examples\n  harrier bench x -m 1:8\n"]
        {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_name_of_two_words_is_a_command_below_the_first() {
        let tool = tool("bench", "measure", [("x", "one", spec()), ("y a", "two", spec()), ("y b", "three", spec())]);
        let below =
            |path: &[&str]| path.iter().try_fold(&tool, |command, word| command.find_subcommand(word)).is_some();
        assert!(below(&["x"]) && below(&["y", "a"]) && below(&["y", "b"]) && !below(&["a"]));
        assert_eq!(tool.get_subcommands().count(), 2);
        assert_eq!(cli::manual_pages(tool).expect("in memory").len(), 5);
    }
}
