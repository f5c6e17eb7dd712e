//! The default state folder: where a broker keeps what outlives it, if it is not told.
//!
//! A service has the folder that systemd made for its unit (`StateDirectory=`), or `/var/lib/harrier` if it runs as root; a
//! person has one of their own, by the XDG Base Directory Specification.

use std::path::PathBuf;

/// Where the state of a service is (FHS 3.0 §5.8).
const SERVICE_FOLDER: &str = "/var/lib/harrier";
/// Where the state of a person's programs is, in their home directory (XDG Base Directory Specification 0.8).
const PERSON_FOLDER: &str = ".local/state";

/// The default folder of this process.
///
/// # Errors
/// Nothing says where it is.
pub fn default_folder() -> Result<PathBuf, String> {
    let variable = |name: &str| std::env::var_os(name).and_then(|value| value.into_string().ok());
    folder_of(rustix::process::geteuid().is_root(), variable)
}

/// The default folder of a process with these variables.
fn folder_of(is_root: bool, variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    // Relative paths are to be ignored (XDG Base Directory Specification 0.8).
    let absolute = |text: String| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    // A unit may have several folders, separated by colons (systemd.exec(5)).
    let of_unit = variable("STATE_DIRECTORY").and_then(|list| absolute(list.split(':').next()?.to_owned()));
    if let Some(folder) = of_unit {
        return Ok(folder);
    }
    if is_root {
        return Ok(PathBuf::from(SERVICE_FOLDER));
    }
    let of_person = variable("XDG_STATE_HOME").and_then(absolute);
    let of_person = of_person.or_else(|| Some(variable("HOME").and_then(absolute)?.join(PERSON_FOLDER)));
    let none = "neither XDG_STATE_HOME nor HOME says where the default folder is: choose one, or none";
    of_person.map(|folder| folder.join("harrier")).ok_or_else(|| none.to_owned())
}

#[cfg(test)]
mod tests {
    use super::folder_of;
    use std::path::PathBuf;

    fn folder(is_root: bool, variables: &[(&str, &str)]) -> Option<PathBuf> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        folder_of(is_root, value).ok()
    }

    #[test]
    fn a_service_and_a_person_have_their_own_folders() {
        const UNIT: (&str, &str) = ("STATE_DIRECTORY", "/var/lib/private/harrier");
        const XDG: (&str, &str) = ("XDG_STATE_HOME", "/home/me/state");
        const HOME: (&str, &str) = ("HOME", "/home/me");
        type Case<'a> = (bool, &'a [(&'a str, &'a str)], Option<&'a str>);
        let cases: &[Case<'_>] = &[
            (false, &[UNIT, XDG, HOME], Some("/var/lib/private/harrier")),
            (true, &[UNIT, HOME], Some("/var/lib/private/harrier")),
            (false, &[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"), HOME], Some("/var/lib/a")),
            (true, &[XDG, HOME], Some("/var/lib/harrier")),
            (true, &[], Some("/var/lib/harrier")),
            (false, &[XDG, HOME], Some("/home/me/state/harrier")),
            (false, &[HOME], Some("/home/me/.local/state/harrier")),
            (false, &[("XDG_STATE_HOME", "state"), HOME], Some("/home/me/.local/state/harrier")),
            (false, &[("XDG_STATE_HOME", ""), HOME], Some("/home/me/.local/state/harrier")),
            (false, &[("HOME", "")], None),
            (false, &[], None),
        ];
        for (is_root, variables, expect) in cases {
            assert_eq!(folder(*is_root, variables), expect.map(PathBuf::from), "{is_root} {variables:?}");
        }
    }
}
