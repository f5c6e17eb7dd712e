//! The command line of `harrier broker` as declared, for its manual page and for shells.
//!
//! `config` parses it, from the same declaration, since it names all that is wrong at once and not the first fault.

use cli::Command;
use config::{DEFAULT_FILE, SETTINGS, Setting, SettingKind};

/// The command as declared.
pub fn command() -> Command {
    Command::new("broker")
        .about("run a broker")
        .long_about("Runs a broker until SIGTERM or SIGINT.")
        .override_usage("harrier broker [OPTIONS]")
        .after_help(config::HELP_NOTES)
        .args([
            cli::valued(
                "config",
                "FILE",
                format!("settings from this file of TOML; default {DEFAULT_FILE}, if it exists"),
            ),
            cli::flag("print-config", "print the configuration that results, as such a file, and end"),
        ])
        .args(SETTINGS.iter().map(option))
}

fn option(setting: &'static Setting) -> cli::Arg {
    let name = setting.option().trim_start_matches('-').to_owned();
    let option = cli::valued(name, setting.kind.placeholder(), setting.help_line());
    let option = if setting.kind.is_list() { option.action(cli::ArgAction::Append) } else { option };
    let option = match setting.kind {
        SettingKind::Choice(words) => option.value_parser(words.to_vec()).hide_possible_values(true),
        SettingKind::Flag => option.value_parser(["true", "false"]).num_args(0..=1).hide_possible_values(true),
        _ => option,
    };
    option.help_heading(setting.section)
}

#[cfg(test)]
mod tests {
    use super::command;
    use config::SETTINGS;

    #[test]
    fn every_setting_is_an_option_under_its_heading() {
        let command = command();
        for setting in SETTINGS {
            let option = setting.option();
            let found = command.get_arguments().find(|arg| arg.get_long() == option.strip_prefix("--"));
            assert_eq!(found.and_then(|arg| arg.get_help_heading()), Some(setting.section), "{option}");
        }
    }
}
