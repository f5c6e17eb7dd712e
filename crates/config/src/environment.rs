//! The environment: `HARRIER_` and the name of a setting in capitals.
//!
//! Enters: variables.  Leaves: values, the file to read.
//! Owns:   which variables are the broker's.

use crate::broker::SETTINGS;
use crate::load::SourceValues;
use crate::origin::{ConfigFault, Origin};
use std::ffi::OsString;
use std::path::PathBuf;

/// The variable that names the file.
pub(crate) const FILE_VARIABLE: &str = "HARRIER_CONFIG";

/// Takes in the environment. Answers the file it names.
pub(crate) fn take(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    values: &mut SourceValues,
    faults: &mut Vec<ConfigFault>,
    warnings: &mut Vec<String>,
) -> Option<PathBuf> {
    let mut file = None;
    for (variable, value) in variables {
        let Some(variable) = variable.to_str().filter(|name| name.starts_with("HARRIER_")) else { continue };
        if variable == FILE_VARIABLE {
            file = Some(PathBuf::from(value)).filter(|path| !path.as_os_str().is_empty());
            continue;
        }
        let Some(at) = SETTINGS.iter().position(|setting| setting.variable() == variable) else {
            warnings.push(format!("{variable} is no setting, and ignored"));
            continue;
        };
        let read = match value.to_str() {
            Some(text) => SETTINGS[at].kind.read_listed(text),
            None => Err("this is not UTF-8".to_owned()),
        };
        match read {
            Ok(value) => values.set(at, value, Origin::Environment(variable.to_owned())),
            Err(why) => faults.push(ConfigFault::new(Origin::Environment(variable.to_owned()), SETTINGS[at].name, why)),
        }
    }
    file
}
