//! System calls of a broker that fail, or are its last: a seccomp filter hands them to `fault_injector.c`.

use super::broker::{Launcher, TestStateFolder};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The injector's status where the system does not allow it.
const SKIPPED: i32 = 77;

/// What becomes of the n-th change to a file of the state folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    KillBefore(u64),
    /// Half of it is written.
    KillMiddle(u64),
    KillAfter(u64),
    /// Of these only writes of segments count.
    KillBeforeWrite(u64),
    KillInWrite(u64),
    KillAfterWrite(u64),
    /// It fails with EIO.
    InputOutput(u64),
    /// It fails with ENOSPC.
    NoSpace(u64),
    /// From this one on nothing can be created or extended, until there is [`FaultyLife::make_room`].
    Full(u64),
    /// From this one on each write of several blocks writes half of them.
    ShortWrites(u64),
}

/// One life of a broker, with a fault.
pub struct FaultyLife {
    fault: Fault,
    report: PathBuf,
    room: PathBuf,
}

/// A change that the fault has touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TouchedCall {
    pub number: u64,
    pub name: String,
    pub file: String,
}

/// The injector's program, for all tests of this process.
fn injector() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join("fault_injector");
    // Another process of tests may compile it, too: each replaces the other's.
    let new = folder.join(format!("fault_injector-{}", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/durability/fault_injector.c");
    let built = Command::new("cc").args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&new).arg(source).status();
    assert!(built.expect("Rust links with cc").success(), "{source} is compiled");
    std::fs::rename(&new, &program).expect("renamed");
    let tried = Command::new(&program).args(["/", "/dev/null", "none", "--", "true"]).output().expect("it runs");
    if tried.status.code() == Some(SKIPPED) {
        let why = String::from_utf8_lossy(&tried.stderr);
        // Past the harness, which shows the output of failed tests only.
        writeln!(std::io::stdout(), "\nSKIPPED: faults of system calls: {}", why.trim_end()).expect("output");
        return None;
    }
    assert!(tried.status.success(), "{tried:?}");
    Some(program)
}

impl FaultyLife {
    /// `None` where the system does not allow to inject faults, which has been said.
    pub fn new(folder: &TestStateFolder, fault: Fault) -> Option<FaultyLife> {
        injector()?;
        let path = folder.root();
        Some(FaultyLife { fault, report: path.with_added_extension("calls"), room: path.with_added_extension("room") })
    }

    /// Starts a broker that meets the fault.
    pub fn launcher(&self, folder: &TestStateFolder) -> Launcher {
        let (action, number) = match self.fault {
            Fault::KillBefore(number) => ("kill-before", number),
            Fault::KillMiddle(number) => ("kill-middle", number),
            Fault::KillAfter(number) => ("kill-after", number),
            Fault::KillBeforeWrite(number) => ("write-kill-before", number),
            Fault::KillInWrite(number) => ("write-kill-middle", number),
            Fault::KillAfterWrite(number) => ("write-kill-after", number),
            Fault::InputOutput(number) => ("EIO", number),
            Fault::NoSpace(number) => ("ENOSPC", number),
            Fault::Full(number) => ("full", number),
            Fault::ShortWrites(number) => ("short", number),
        };
        let program = injector().expect("it was built");
        let mut words: Vec<OsString> = vec![program.into(), folder.root().into(), self.report.clone().into()];
        words.extend([action.into(), number.to_string().into(), self.room.clone().into(), "--".into()]);
        Launcher(words)
    }

    /// Files can be created and extended again.
    pub fn make_room(&self) {
        std::fs::write(&self.room, "").expect("a file");
    }

    /// What the fault has touched so far.
    pub fn touched(&self) -> Vec<TouchedCall> {
        let text = std::fs::read_to_string(&self.report).expect("the injector makes it");
        let calls = text.lines().map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().expect("three words").to_owned();
            TouchedCall { number: word().parse().expect("a number"), name: word(), file: word() }
        });
        calls.collect()
    }
}

impl Drop for FaultyLife {
    fn drop(&mut self) {
        for path in [&self.report, &self.room] {
            // Neither need have been made.
            let _absent = std::fs::remove_file(path);
        }
    }
}
