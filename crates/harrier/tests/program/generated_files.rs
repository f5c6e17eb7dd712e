//! What `harrier generate` writes: a manual page for every command, completions that shells load.

use crate::{TempFolder, output};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

/// A shell, and where its completions are below `usr/share`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/harrier"),
    ("zsh", "zsh/vendor-completions/_harrier"),
    ("fish", "fish/vendor_completions.d/harrier.fish"),
];

fn text(words: &[&str]) -> String {
    let output = output(words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The names at the beginning of the lines of a help that are indented by two.
fn names(help: &str) -> BTreeSet<String> {
    let listed = help.split("\nExamples").next().unwrap_or_default();
    let lines = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let words = lines.filter_map(|line| line.split(' ').next());
    let is_name = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_lowercase()) && *word != "harrier";
    words.filter(is_name).map(str::to_owned).collect()
}

/// The pages that the helps of the program ask for.
fn wanted() -> BTreeSet<String> {
    let mut wanted: BTreeSet<String> = ["harrier.1".to_owned()].into();
    let commands = names(&text(&["help"]));
    wanted.extend(commands.iter().map(|command| format!("harrier-{command}.1")));
    let below = commands.iter().filter(|command| {
        ["bench", "topology", "market", "definitions", "ctl", "store", "rdma", "generate"].contains(&command.as_str())
    });
    for command in below {
        let found = names(&text(&[command, "--help"]));
        wanted.extend(found.iter().map(|below| format!("harrier-{command}-{below}.1")));
    }
    wanted
}

/// Runs a program if it is installed.
fn run_if_installed(command: &mut Command) -> Option<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("SKIPPED: generated files: {name} is not installed");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn is_silent(output: &Output, of: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{of}: {said}");
}

#[test]
fn every_command_has_a_page_without_a_warning() {
    let folder = TempFolder::new("pages");
    let stage = folder.path("stage");
    assert_eq!(text(&["generate", "files", &stage]), "");
    let man = Path::new(&stage).join("usr/share/man/man1");
    let pages: Vec<_> = std::fs::read_dir(&man).expect("a folder").map(|entry| entry.expect("a page").path()).collect();
    let found: BTreeSet<String> =
        pages.iter().map(|page| page.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    let missing: Vec<_> = wanted().difference(&found).cloned().collect();
    assert!(missing.is_empty(), "no page: {missing:?}");
    for (words, part) in [
        (&["broker"][..], "\\-\\-listen"),
        (&["ctl", "list_queues"], "[COLUMN...]"),
        (&["route", "dynamic", "add"], "DEST SRC EXCHANGE"),
        #[cfg(feature = "bench")]
        (&["bench", "baseline", "verbs"], ".SH EXAMPLES"),
    ] {
        let page = text(&[&["generate", "man"], words].concat());
        assert!(page.contains(part), "{words:?}: {page}");
        let file = man.join(format!("harrier-{}.1", words.join("-")));
        assert_eq!(page, std::fs::read_to_string(file).expect("the same page"), "{words:?}");
    }
    let is_described = |page: &&std::path::PathBuf| {
        let page = std::fs::read_to_string(page).expect("a page");
        page.lines().skip_while(|line| *line != ".SH NAME").nth(1).is_some_and(|name| name.contains(" \\- "))
    };
    let bare: Vec<_> = pages.iter().filter(|page| !is_described(page)).collect();
    assert!(bare.is_empty(), "what they are about is not said: {bare:?}");
    if let Some(groff) = run_if_installed(Command::new("groff").args(["-ww", "-z", "-man", "-Tutf8"]).args(&pages)) {
        is_silent(&groff, "groff -ww");
    }
    if let Some(lint) = run_if_installed(Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).args(&pages)) {
        // A page with the date of its build would be another one each day.
        let found = String::from_utf8_lossy(&lint.stdout).into_owned();
        let found: Vec<_> = found.lines().filter(|line| !line.contains("WARNING: missing date")).collect();
        assert!(found.is_empty(), "mandoc: {found:#?}");
    }
}

#[test]
fn completions_load_and_complete() {
    let folder = TempFolder::new("completions");
    let stage = folder.path("stage");
    assert_eq!(text(&["generate", "files", &stage]), "");
    for (shell, place) in SHELLS {
        let file = format!("{stage}/usr/share/{place}");
        let printed = text(&["generate", "completions", shell]);
        assert_eq!(printed, std::fs::read_to_string(&file).expect("the same script"), "{shell}");
        // Each prints what would complete `harrier ctl list_q`, or in zsh `harrier ctl`, whose own part stays outside.
        let script = match shell {
            "bash" => {
                "source \"$0\" && COMP_WORDS=(harrier ctl list_q) COMP_CWORD=2 && _harrier harrier list_q ctl && \
                 echo ${COMPREPLY[@]}"
            }
            "zsh" => {
                "compdef() { }; _describe() { print -l -- \"${(@P)4}\" }; source \"$0\"; \
                 for name in ${(k)functions}; do [[ $name == _harrier*ctl_commands ]] && $name; done; true"
            }
            _ => "source $argv[1]; and complete -C 'harrier ctl list_q'",
        };
        let mut command = Command::new(shell);
        match shell {
            "bash" => command.args(["--norc", "-c", script, &file]),
            "zsh" => command.args(["-f", "-c", script, &file]),
            _ => command.args(["--no-config", "-c", script, &file]),
        };
        let Some(found) = run_if_installed(&mut command) else { continue };
        is_silent(&found, shell);
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        assert!(found.contains("list_queues"), "{shell}: {found}");
    }
}

#[test]
fn what_cannot_be_generated_is_told() {
    for (words, status, expect) in [
        (&["generate"][..], 2, "harrier: generate needs a command\n"),
        (&["generate", "completions"], 2, "harrier: SHELL is missing\n"),
        (&["generate", "completions", "tcsh"], 2, "harrier: SHELL is one of bash, zsh, fish, not 'tcsh'\n"),
        (&["generate", "man", "ctl", "nothing"], 2, "harrier: there is no command 'ctl nothing'\n"),
        (&["generate", "files", "/proc/nowhere"], 1, "harrier generate: /proc/nowhere/usr/share/man/man1/harrier"),
    ] {
        let output = output(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.starts_with(expect)), (Some(status), true), "{words:?}: {said}");
    }
}
