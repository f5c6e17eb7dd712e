//! All commands of `harrier ctl`, under the headings of the help.

use crate::change_table::CHANGES;
use crate::ctl_command::CtlCommand;
use crate::list_table::LISTS;
use crate::own_table::OWN_COMMANDS;

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
    use super::HEADINGS;
    use crate::ctl_command::CtlAction;
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
