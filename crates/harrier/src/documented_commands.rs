//! The commands and files that pages show, held against what the program takes.
//!
//! Enters: the pages.  Leaves: every command line, option and configuration that the program would refuse as wrong usage.
//! Never:  runs a command.

use crate::{COMMANDS, TOOLS};
use cli::{Command, WordsError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// Pages beside those of `docs`.
const ROOT_PAGES: [&str; 5] = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "STYLE.md"];
/// Records of their day: what they name may be gone.
const RECORDS: [&str; 2] = ["docs/decisions", "docs/measurements"];

/// A block of a page between fences.
struct PageBlock {
    page: String,
    /// The line of the fence.
    line: usize,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/harrier lies two folders down")
        .to_path_buf()
}

fn pages() -> Vec<(String, String)> {
    let root = root();
    let mut pages: Vec<PathBuf> = ROOT_PAGES.map(PathBuf::from).to_vec();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder of pages can be read") {
            let path = folder.join(entry.expect("an entry can be read").file_name());
            match path.extension() {
                _ if RECORDS.iter().any(|record| path == Path::new(record)) => {}
                _ if root.join(&path).is_dir() => folders.push(path),
                Some(ending) if ending == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    let read =
        |page: PathBuf| (page.display().to_string(), fs::read_to_string(root.join(&page)).expect("a page is text"));
    pages.into_iter().map(read).collect()
}

/// The blocks of all pages, and the spans of code in their prose as blocks without a language.
fn pieces() -> (Vec<PageBlock>, Vec<PageBlock>) {
    let (mut blocks, mut spans) = (Vec::new(), Vec::new());
    for (page, text) in pages() {
        let mut block: Option<PageBlock> = None;
        for (line, content) in iter::zip(1.., text.lines()) {
            let piece = |language: &str| PageBlock {
                page: page.clone(),
                line,
                language: language.to_owned(),
                text: String::new(),
            };
            match (content.trim_start().strip_prefix("```"), &mut block) {
                (Some(language), None) => block = Some(piece(language)),
                (Some(_), Some(_)) => blocks.extend(block.take()),
                (None, Some(block)) => block.text.extend([content, "\n"]),
                (None, None) => {
                    let code = content.split('`').skip(1).step_by(2);
                    spans.extend(code.map(|span| PageBlock { text: span.to_owned(), ..piece("") }));
                }
            }
        }
    }
    (blocks, spans)
}

/// The simple commands of a shell's text: their words, and the lines that they begin at. Comments and redirections are left out.
fn shell_commands(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut line, mut begun) = (0, 0);
    let mut is_redirected = false;
    let mut quote = None;
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        line += usize::from(sign == '\n');
        match (sign, quote) {
            (sign, Some(open)) if sign == open => quote = None,
            ('\\', None | Some('"')) => match signs.next() {
                Some('\n') => line += 1,
                Some(next) => {
                    let word = word.get_or_insert_default();
                    // Between double quotes it stays before most signs.
                    if quote.is_some() && !"\"\\$`".contains(next) {
                        word.push('\\');
                    }
                    word.push(next);
                }
                None => return Err("it ends in the middle of a word".to_owned()),
            },
            (sign, Some(_)) => word.get_or_insert_default().push(sign),
            ('\'' | '"', None) => {
                word.get_or_insert_default();
                quote = Some(sign);
            }
            ('#', None) if word.is_none() => while signs.next_if(|sign| *sign != '\n').is_some() {},
            (' ' | '\t' | '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')', None) => {
                if let Some(word) = word.take().filter(|_| !std::mem::take(&mut is_redirected)) {
                    words.push(word);
                }
                if matches!(sign, '<' | '>') {
                    is_redirected = true;
                } else if !matches!(sign, ' ' | '\t') && !words.is_empty() {
                    commands.push((begun, std::mem::take(&mut words)));
                }
            }
            (sign, None) => {
                begun = if words.is_empty() && word.is_none() { line } else { begun };
                word.get_or_insert_default().push(sign);
            }
        }
    }
    if quote.is_some() { Err("a quote is left open".to_owned()) } else { Ok(commands) }
}

fn is_harrier(word: &str) -> bool {
    word == "harrier" || word.ends_with("/harrier")
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|sign| sign.is_ascii_uppercase() || sign == '_'))
}

/// The words behind `harrier`, which may be run by another program.
fn harrier_words(command: &[String]) -> Option<&[String]> {
    let first = command.iter().position(|word| word != "sudo" && word != "$" && !is_assignment(word))?;
    let is_command =
        |word: &String| COMMANDS.iter().any(|command| command.name == word) || TOOLS.contains(&word.as_str());
    let at = if is_harrier(&command[first]) {
        first
    } else {
        (first..command.len()).find(|at| is_harrier(&command[*at]) && command.get(at + 1).is_some_and(is_command))?
    };
    Some(&command[at + 1..])
}

/// What the program would say of the words, if they are wrong.
fn wrong(words: &[String]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    if ["--version", "--help"].contains(&name.as_str()) {
        return None;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        // A program that is built without a tool cannot judge its commands.
        return (!TOOLS.contains(&name.as_str())).then(|| format!("there is no command {name}"));
    };
    let texts: Vec<&str> = rest.iter().map(String::as_str).collect();
    match command.name {
        "ctl" => ctl::check(&texts).err(),
        "route" => route::check(rest).err(),
        "broker" => {
            let words = rest.iter().map(OsString::from);
            let loaded = config::BrokerConfig::load_with(words, [], Path::new("/nonexistent/harrier.toml"));
            loaded.err().map(|error| error.to_string())
        }
        _ => {
            let words = if TOOLS.contains(&command.name) { without_rank(rest) } else { rest.to_vec() };
            match cli::parse((command.declared)(), words) {
                Ok(_) | Err(WordsError::Help(_)) => None,
                Err(WordsError::Usage(why) | WordsError::Words(why)) => Some(why),
            }
        }
    }
}

fn has_option(command: &Command, option: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some(option))
}

/// Options that every tool takes of a rank, before its command reads the others.
const RANK_OPTIONS: [&str; 5] = ["--rank", "--ranks", "--rendezvous", "--agent-rank", "--roles"];

/// The words without what ranks are told.
fn without_rank(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if RANK_OPTIONS.contains(&word.as_str()) {
            words.next();
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

/// What prose names of a command line, which need not be whole: its commands and options, if they are not there.
fn unknown(words: &[String]) -> Option<String> {
    let (name, rest) = words.split_first()?;
    if name.starts_with(|sign: char| sign == '-' || sign == '…' || sign.is_ascii_uppercase()) {
        return None;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return (!TOOLS.contains(&name.as_str())).then(|| format!("there is no command {name}"));
    };
    let mut path = vec![(command.declared)()];
    // Any command may be meant where there are dots.
    let is_whole = !rest.iter().any(|word| word == "…");
    let mut is_command = true;
    for word in rest {
        if word == "--" {
            return None;
        }
        let word = word.trim_matches(['[', ']']);
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split('=').next().unwrap_or_default();
            let is_there = path.iter().any(|command| has_option(command, option))
                || !is_whole
                    && path.last().is_some_and(|last| last.get_subcommands().any(|below| has_option(below, option)));
            if option != "help" && !is_there {
                return Some(format!("there is no --{option}"));
            }
        } else if is_command && word.starts_with(|sign: char| sign.is_ascii_lowercase()) {
            let last = path.last().filter(|last| last.has_subcommands());
            match last.map(|last| last.find_subcommand(word).cloned()) {
                Some(Some(below)) => path.push(below),
                Some(None) => return Some(format!("there is no command {word}")),
                None => is_command = false,
            }
        }
    }
    None
}

fn check(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn the_program_takes_every_command_of_a_block() {
    let (blocks, _) = pieces();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for PageBlock { page, line, language, text } in blocks {
        let commands = match language.as_str() {
            "sh" => shell_commands(&text),
            // What is typed, among what is answered.
            "console" => {
                let typed = |line: &str| line.strip_prefix("$ ").map_or_else(String::new, str::to_owned) + "\n";
                shell_commands(&text.lines().map(typed).collect::<String>())
            }
            _ => {
                let shown = text.lines().map(|line| line.trim().trim_start_matches("$ "));
                let mut words = shown.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
                let is_command = |words: Vec<String>| {
                    words.first().is_some_and(|word| is_harrier(word))
                        && harrier_words(&words).is_some_and(|rest| wrong(rest).is_none())
                };
                if words.any(is_command) {
                    broken.push(format!("{page}:{line}: this block has commands, but is not of `sh` or `console`"));
                }
                continue;
            }
        };
        match commands {
            Ok(commands) => {
                for (at, command) in commands {
                    let Some(words) = harrier_words(&command) else { continue };
                    checked += 1;
                    let wrong =
                        if words.iter().any(|word| word.contains('…')) { unknown(words) } else { wrong(words) };
                    broken
                        .extend(wrong.map(|why| format!("{page}:{}: {}\n    {why}", line + 1 + at, command.join(" "))));
                }
            }
            Err(why) => broken.push(format!("{page}:{line}: {why}")),
        }
    }
    check(&broken, "commands that the program does not take");
    assert!(checked > 80, "only {checked} commands were found");
}

#[test]
fn the_program_has_every_command_and_option_that_prose_names() {
    let (_, spans) = pieces();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for PageBlock { page, line, text, .. } in spans {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.len() < 2 || !words.first().is_some_and(|word| is_harrier(word)) {
            continue;
        }
        checked += 1;
        broken.extend(unknown(&words[1..]).map(|why| format!("{page}:{line}: {text}\n    {why}")));
    }
    check(&broken, "commands and options that the program does not have");
    assert!(checked > 80, "only {checked} commands were found");
}

#[test]
fn every_configuration_of_a_page_loads() {
    let (blocks, _) = pieces();
    let (mut broken, mut checked) = (Vec::new(), 0);
    let folder = std::env::temp_dir().join(format!("harrier-pages-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder can be made");
    for PageBlock { page, line, text, .. } in blocks.into_iter().filter(|block| block.language == "toml") {
        checked += 1;
        // A page has no hash of anybody's password.
        let text = text.replace("\"…\"", &format!("\"{}\"", "A".repeat(48)));
        let file = folder.join("page.toml");
        fs::write(&file, &text).expect("a file can be written");
        let why = if text.contains("[broker.") {
            route::check(&["apply".to_owned(), file.to_string_lossy().into_owned()]).err()
        } else {
            let words = ["--config".into(), file.clone().into()];
            config::BrokerConfig::load(words, []).err().map(|error| error.to_string())
        };
        broken.extend(why.map(|why| format!("{page}:{line}: {why}")));
    }
    fs::remove_dir_all(&folder).expect("the folder can be removed");
    check(&broken, "configurations that do not load");
    assert!(checked >= 4, "only {checked} configurations were found");
}

/// Whether the management API has a route; without a method, for any.
fn is_route(method: Option<&str>, target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let routes = management::ROUTES.iter().flat_map(|(_, routes)| routes.iter());
    let mut fitting = routes.filter(|route| {
        let pieces = || iter::zip(route.pattern.split('/'), path.split('/'));
        route.pattern.split('/').count() == path.split('/').count()
            && pieces().all(|(pattern, piece)| pattern.starts_with('{') || pattern == piece)
    });
    fitting.any(|route| method.is_none_or(|method| route.method.name() == method))
}

/// What `curl` is told to ask, if it is told to ask the API.
fn asked_by_curl(command: &[String]) -> Option<(&str, &str)> {
    let (first, words) = command.split_first()?;
    let method = words.iter().position(|word| word == "-X").and_then(|at| words.get(at + 1));
    let target = words.iter().find_map(|word| word.find("/api/").map(|at| &word[at..]))?;
    (first == "curl").then_some((method.map_or("GET", String::as_str), target))
}

#[test]
fn every_route_of_a_page_is_one_of_the_api() {
    let (blocks, spans) = pieces();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for PageBlock { page, line, text, .. } in spans {
        let asked = match text.split(' ').collect::<Vec<_>>()[..] {
            [target] if target.starts_with("/api/") && !target.contains('…') => (None, target),
            [method, target] if target.starts_with("/api/") => (Some(method), target),
            _ => continue,
        };
        checked += 1;
        broken.extend((!is_route(asked.0, asked.1)).then(|| format!("{page}:{line}: {text}")));
    }
    for PageBlock { page, line, text, .. } in blocks.into_iter().filter(|block| block.language == "sh") {
        for (at, command) in shell_commands(&text).unwrap_or_default() {
            let Some((method, target)) = asked_by_curl(&command) else { continue };
            checked += 1;
            let is_there = is_route(Some(method), target);
            broken.extend((!is_there).then(|| format!("{page}:{}: {method} {target}", line + 1 + at)));
        }
    }
    check(&broken, "routes that the API does not have");
    assert!(checked > 100, "only {checked} routes were found");
    assert!(!is_route(Some("GET"), "/api/queus") && !is_route(Some("PUT"), "/api/overview"));
}

#[test]
fn a_shells_text_is_read_as_a_shell_does() {
    let text = "sudo A=1 harrier ctl x '^a b' < f # no\necho \"a'b\" \\\n  c | harrier store &\n";
    let commands = shell_commands(text).expect("nothing is left open");
    let words: Vec<Vec<&str>> = commands.iter().map(|(_, words)| words.iter().map(String::as_str).collect()).collect();
    assert_eq!(
        words,
        [vec!["sudo", "A=1", "harrier", "ctl", "x", "^a b"], vec!["echo", "a'b", "c"], vec!["harrier", "store"]]
    );
    assert_eq!(commands.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(harrier_words(&commands[0].1).map(<[String]>::len), Some(3));
    assert!(shell_commands("harrier 'x").is_err());
}

#[test]
fn what_is_gone_is_noticed() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for line in ["ctl list_things", "broker --no-such", "route dynamic remove a b c", "store chek x", "gone"] {
        assert!(wrong(&words(line)).is_some(), "{line}");
    }
    for line in ["ctl list_things", "broker --no-such", "route --no-such", "store chek", "gone"] {
        assert!(unknown(&words(line)).is_some(), "{line}");
    }
}
