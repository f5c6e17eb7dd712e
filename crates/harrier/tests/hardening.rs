//! The systemd unit of docs/operations/hardening.md: systemd understands it, and rates its exposure as the page says.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Tenths of systemd's scale from 0 to 10.
const EXPOSURE_MAX: &str = "15";

fn systemd_analyze() -> Option<Command> {
    let found = Command::new("systemd-analyze").arg("--version").output();
    if found.is_err() {
        writeln!(std::io::stdout(), "\nSKIPPED: the systemd unit: systemd-analyze is not installed").expect("output");
        return None;
    }
    Some(Command::new("systemd-analyze"))
}

/// The unit, with the program of this build in it.
fn unit() -> std::path::PathBuf {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations/harrier.service");
    let text = std::fs::read_to_string(unit).expect("the unit");
    assert!(text.contains("ExecStart=/usr/bin/harrier broker "), "the page says where the program is");
    let folder = std::env::temp_dir().join(format!("harrier-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let copy = folder.join("harrier.service");
    std::fs::write(&copy, text.replace("/usr/bin/harrier", env!("CARGO_BIN_EXE_harrier"))).expect("a file");
    copy
}

#[test]
fn the_unit_is_understood_and_exposes_little() {
    let unit = unit();
    let checks: [&[&str]; 2] = [&["verify"], &["security", "--offline=yes", "--threshold", EXPOSURE_MAX]];
    for arguments in checks {
        let Some(mut systemd) = systemd_analyze() else { return };
        let output = systemd.args(arguments).arg(&unit).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        // What it does not know it warns of, and goes on.
        assert!(!said.contains("harrier.service:"), "{arguments:?}: {said}");
    }
    std::fs::remove_dir_all(unit.parent().expect("its folder")).expect("removed");
}
