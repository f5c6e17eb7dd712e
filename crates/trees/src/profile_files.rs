//! Reads and writes profiles, with error texts that suggest a remedy. The crate `planner` validates their content.

use std::fs;
use std::path::Path;

use planner::{Profile, Sharing};
use report::page::write_file;

use crate::limits::PROFILE_BYTES_MAX;
use harness::failure::CommandFailure;

/// The measuring program and its version.
pub(super) fn made_by() -> String {
    format!("harrier {}", env!("CARGO_PKG_VERSION"))
}

/// Reads a profile.
///
/// # Errors
/// No such file, or one that cannot be used: why, and a remedy.
pub(super) fn read(file: &Path) -> Result<Profile, CommandFailure> {
    let told = |why: String| CommandFailure::Usage(format!("{}: {why}", file.display()));
    let length = fs::metadata(file)
        .map_err(|error| told(format!("{error} (harrier topology calibrate writes a profile)")))?
        .len();
    if length > PROFILE_BYTES_MAX {
        return Err(told(format!("not a profile: {length} bytes exceed the limit of {PROFILE_BYTES_MAX}")));
    }
    let text = fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    parse(&text).map_err(told)
}

fn parse(text: &str) -> Result<Profile, String> {
    // The schema and version are checked first: of another one, nothing else is looked at.
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("not a profile: {error}"))?;
    let said = |name: &str| value.get(name).cloned().unwrap_or_default();
    if said("schema").as_str() != Some(planner::SCHEMA) {
        return Err(format!("not a profile: its schema is {}, not \"{}\"", said("schema"), planner::SCHEMA));
    }
    if said("version").as_u64() != Some(u64::from(planner::VERSION)) {
        let known = planner::VERSION;
        return Err(format!(
            "a profile of version {}; this program reads version {known}: calibrate again",
            said("version")
        ));
    }
    let profile: Profile =
        serde_json::from_value(value).map_err(|error| format!("its profile cannot be read: {error}"))?;
    profile.check().map_err(|why| format!("its profile cannot be used: {why}"))?;
    Ok(profile)
}

/// Writes a profile.
///
/// # Errors
/// It cannot be used, or not be written.
pub(super) fn write(file: &Path, profile: &Profile) -> Result<(), CommandFailure> {
    profile.check().map_err(|why| format!("the measurements are not a valid profile: {why}"))?;
    let text = serde_json::to_string_pretty(profile).map_err(|error| error.to_string())?;
    Ok(write_file(file, &(text + "\n"))?)
}

/// The conditions of its measurement.
pub(super) fn conditions(profile: &Profile) -> String {
    let sharing = match profile.sharing {
        Sharing::OwnHosts => "a host for each node",
        Sharing::OneHost => "one host for all nodes",
    };
    let link = profile
        .link_bits_per_s
        .map_or_else(|| "no limit on links".to_owned(), |bits| format!("links of {:.0} Mbit/s", bits as f64 / 1e6));
    format!("{sharing}, {} processors, {link}, {}", profile.cores, profile.made_by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_profile_says_so() {
        for (text, expected) in [
            ("", "not a profile: "),
            ("[]", "not a profile: its schema is null"),
            (
                r#"{"schema": "harrier-bench"}"#,
                "not a profile: its schema is \"harrier-bench\", not \"harrier-profile\"",
            ),
            (r#"{"schema": "harrier-profile", "version": 2}"#, "a profile of version 2; this program reads version 1"),
            (r#"{"schema": "harrier-profile"}"#, "a profile of version null"),
            (r#"{"schema": "harrier-profile", "version": 1}"#, "its profile cannot be read: missing field"),
            (
                r#"{"schema": "harrier-profile", "version": 1, "sharing": "one_host", "cores": 0, "link_bits_per_s": null,
                    "made_by": "", "observations": [], "costs": []}"#,
                "its profile cannot be used: ",
            ),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.starts_with(expected), "{text}: {why}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_says_what_makes_one() {
        let why = read(Path::new("/nowhere/profile.json")).expect_err("there is none");
        assert_eq!(why.status(), 2);
        assert!(why.to_string().contains("harrier topology calibrate writes a profile"), "{why}");
    }
}
