//! Loading: the sources, and which overrides which.
//!
//! Enters: words, variables, the default file.  Leaves: what was asked for, or all that is wrong.
//! Owns:   the order: command line over environment over file over default.

use crate::accounts::Accounts;
use crate::broker::{BrokerConfig, SETTINGS};
use crate::origin::{ConfigError, ConfigFault, Origin};
use crate::setting::SettingValue;
use crate::{command_line, environment, file};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that is read if it exists and no other is named.
pub const DEFAULT_FILE: &str = "/etc/harrier/harrier.toml";

/// What the command line asks for.
#[derive(Debug)]
pub enum BrokerInvocation {
    /// Run a broker with this configuration.
    Run(Box<BrokerConfig>),
    /// Print this configuration ([`BrokerConfig::to_toml`]).
    Print(Box<BrokerConfig>),
    /// Print the help ([`help`](crate::help)).
    Help,
}

/// The values of one source, a place a setting.
pub(crate) struct SourceValues(Vec<Option<(SettingValue, Origin)>>);

impl SourceValues {
    fn new() -> Self {
        SourceValues(SETTINGS.iter().map(|_| None).collect())
    }

    /// Sets the value of the setting at a place of [`SETTINGS`]; the last one stays.
    pub fn set(&mut self, at: usize, value: SettingValue, origin: Origin) {
        if let Some(place) = self.0.get_mut(at) {
            *place = Some((value, origin));
        }
    }
}

impl BrokerConfig {
    /// From the words behind `harrier broker`, the environment, and the file that they name or `DEFAULT_FILE`.
    ///
    /// # Errors
    /// Everything that is wrong in any of the sources, also where another source overrides it.
    pub fn load(
        words: impl IntoIterator<Item = OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<BrokerInvocation, ConfigError> {
        Self::load_with(words, variables, Path::new(DEFAULT_FILE))
    }

    /// The same with another default file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(
        words: impl IntoIterator<Item = OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        default_file: &Path,
    ) -> Result<BrokerInvocation, ConfigError> {
        let (mut faults, mut warnings) = (Vec::new(), Vec::new());
        let (mut from_words, mut from_variables, mut from_file) =
            (SourceValues::new(), SourceValues::new(), SourceValues::new());
        let asked = command_line::take(words, &mut from_words, &mut faults);
        if asked.help && faults.is_empty() {
            return Ok(BrokerInvocation::Help);
        }
        let named = environment::take(variables, &mut from_variables, &mut faults, &mut warnings);
        let (path, must_exist) = match asked.file.or(named) {
            Some(path) => (path, true),
            None => (PathBuf::from(default_file), false),
        };
        let mut accounts = Accounts::default();
        let mut read = None;
        match file::read(&path) {
            Ok(Some(bytes)) => {
                let path: Arc<Path> = path.into();
                accounts = file::take(&path, &bytes, &mut from_file, &mut faults);
                read = Some(path);
            }
            Ok(None) if !must_exist => {}
            Ok(None) => {
                faults.push(ConfigFault::new(Origin::File { path: path.into(), line: 0 }, "", "there is no such file"))
            }
            Err(fault) => faults.push(fault),
        }
        // What is missing from a broken file would only be reported twice.
        if !faults.iter().any(|fault| matches!(fault.origin, Origin::File { .. })) {
            accounts = accounts.complete(&mut faults, &mut warnings);
        }
        if !faults.is_empty() {
            faults.sort_by_key(|fault| match fault.origin {
                Origin::CommandLine(_) => (0, 0),
                Origin::Environment(_) => (1, 0),
                Origin::File { line, .. } => (2, line),
                Origin::Default => (3, 0),
            });
            return Err(ConfigError { faults });
        }
        let sources = from_words.0.into_iter().zip(from_variables.0).zip(from_file.0);
        let values = SETTINGS.iter().zip(sources).map(|(setting, ((word, variable), key))| {
            word.or(variable).or(key).unwrap_or_else(|| (setting.default_value(), Origin::Default))
        });
        let mut config = BrokerConfig::new(values.collect());
        config.vhosts = accounts.vhosts;
        config.users = accounts.users;
        config.permissions = accounts.permissions;
        config.topic_permissions = accounts.topic_permissions;
        config.policies = accounts.policies;
        config.operator_policies = accounts.operator_policies;
        config.file = read;
        config.warnings = warnings;
        let config = Box::new(config);
        Ok(if asked.print_config { BrokerInvocation::Print(config) } else { BrokerInvocation::Run(config) })
    }
}
