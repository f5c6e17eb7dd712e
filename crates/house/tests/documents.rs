//! What the documents say of the tree, where that can be checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Documents that must be there, and something each must say.
const HOUSE_DOCUMENTS: [(&str, &str); 8] = [
    ("README.md", "make bench"),
    ("README.md", "make test"),
    ("ARCHITECTURE.md", "deliberately"),
    ("STYLE.md", "Enters:"),
    ("CONTRIBUTING.md", "make test"),
    ("CHANGELOG.md", "Unreleased"),
    ("LICENSE", "Apache License"),
    (".ci/run", "make test"),
];

fn documents() -> Vec<PathBuf> {
    house::files("", ".md")
}

fn check(broken: Vec<String>, rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

/// The pieces of a document that are code: spans between backquotes, and the lines of blocks. With their lines.
fn code(document: &str) -> Vec<(usize, String)> {
    let mut pieces = Vec::new();
    let mut in_block = false;
    for (at, line) in document.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            pieces.push((at + 1, line.to_owned()));
        } else {
            pieces.extend(line.split('`').skip(1).step_by(2).map(|span| (at + 1, span.to_owned())));
        }
    }
    pieces
}

/// Words of the sources behind which a name is declared.
fn declared(words: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in house::files("crates", ".rs") {
        for line in house::read(path).lines() {
            let mut before = "";
            for word in line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
                if words.contains(&before) {
                    names.insert(word.to_owned());
                }
                before = word;
            }
        }
    }
    names
}

#[test]
fn the_house_has_its_documents() {
    for (path, says) in HOUSE_DOCUMENTS {
        assert!(house::read(path).contains(says), "{path} does not say {says:?}");
    }
}

#[test]
fn every_link_inside_the_tree_leads_somewhere() {
    let root = house::root();
    let mut broken = Vec::new();
    for path in documents() {
        let document = house::read(&path);
        for link in house::links(&document) {
            if link.target.contains("://") || link.target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
            let target =
                if file.is_empty() { root.join(&path) } else { root.join(&path).with_file_name("").join(file) };
            let leads = match (target.exists(), anchor) {
                (false, _) => false,
                (true, "") => true,
                (true, anchor) => {
                    let text = std::fs::read_to_string(&target).unwrap_or_default();
                    house::anchors(&text).iter().any(|found| found == anchor)
                }
            };
            if !leads {
                broken.push(format!("{}:{}: {}", path.display(), link.line, link.target));
            }
        }
    }
    check(broken, "links that lead nowhere");
}

#[test]
fn commands_in_documents_exist() {
    let makefile = house::read("Makefile");
    let targets: BTreeSet<_> = makefile
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
        .collect();
    let suite = house::read("tests/suite");
    let steps =
        suite.lines().find_map(|line| line.strip_prefix("all=(")?.strip_suffix(')')).expect("the list of steps");
    let steps: BTreeSet<_> = steps.split(' ').collect();
    let program: String = house::files("crates/harrier/src", ".rs").into_iter().map(house::read).collect();
    let mut broken = Vec::new();
    for path in documents() {
        for (line, piece) in code(&house::read(&path)) {
            // A comment behind a command is no command.
            let words: Vec<_> = piece.split(" #").next().unwrap_or_default().split_whitespace().collect();
            let known = match words[..] {
                ["make", target, ..] if !target.contains('=') => targets.contains(target),
                ["tests/suite", step, ..] => steps.contains(step),
                [script, ..] if ["tests/", "fuzz/run", "packages/"].iter().any(|start| script.starts_with(start)) => {
                    script.contains(['*', '…', '{']) || house::root().join(script).exists()
                }
                ["harrier" | "target/release/harrier", word, ..] if word.chars().all(|c| c.is_ascii_lowercase()) => {
                    program.contains(&format!("\"{word}\""))
                }
                _ => true,
            };
            if !known {
                broken.push(format!("{}:{line}: {piece}", path.display()));
            }
        }
    }
    check(broken, "commands that do not exist");
}

#[test]
fn names_of_the_code_in_documents_exist() {
    let types = declared(&["struct", "enum", "trait", "type", "Variant"]);
    let functions = declared(&["fn", "const"]);
    // The header has its own names of what is declared in Rust.
    let sources = house::files("crates", ".rs").into_iter().chain(house::files("crates", ".h"));
    let everything: String = sources.map(house::read).collect();
    let scripts = scripts();
    let mut broken = Vec::new();
    for path in documents() {
        for (line, piece) in code(&house::read(&path)) {
            let place = || format!("{}:{line}: {piece}", path.display());
            // A path of the tree; one with a sign of choice in it is a pattern.
            let is_path = ["crates/", "docs/", "tests/", "fuzz/"].iter().any(|start| piece.starts_with(start));
            if is_path && !piece.contains(['*', '…', ' ', '{']) && !house::root().join(&piece).exists() {
                broken.push(place());
            }
            // `Type::name`: both are declared, or the name is a variant of an enum somewhere.
            let name = piece.split('(').next().unwrap_or_default();
            if let Some((owner, member)) = name.split_once("::")
                && owner.starts_with(|c: char| c.is_ascii_uppercase())
                && [owner, member].iter().all(|part| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
            {
                let is_variant =
                    || [",", " {", "("].iter().any(|end| everything.contains(&format!("    {member}{end}")));
                // The standard library's names are not ours to check.
                let ours = owner != "Instant";
                if ours && !(types.contains(owner) && (functions.contains(member) || is_variant())) {
                    broken.push(place());
                }
            }
            // A limit.
            let is_limit =
                piece.len() > 4 && piece.contains('_') && piece.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if is_limit && !functions.contains(&piece) && !everything.contains(&piece) && !scripts.contains(&piece) {
                broken.push(place());
            }
        }
    }
    check(broken, "names that the code does not have");
}

/// What counts errors of links in Linux and in drivers; a table of `docs/operations/rdma.md` has them.
const COUNTERS_OF_DRIVERS: [&str; 21] = [
    "completer_retry_err",
    "link_downed",
    "local_ack_timeout_err",
    "np_ecn_marked_roce_packets",
    "numa_node",
    "out_of_buffer",
    "out_of_seq_request",
    "out_of_sequence",
    "packet_seq_err",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_xmit_data",
    "port_xmit_wait",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "rdma_recvs",
    "retry_exceeded_err",
    "rp_cnp_handled",
    "symbol_error",
];
/// A setting of Linux, a name that STYLE.md invents, and ends that names of metrics are joined with.
const OTHER_NAMES: [&str; 6] = [
    "ip_local_port_range",
    "a_requeued_message_returns_to_its_place",
    "ops_total",
    "bytes_total",
    "time_seconds_total",
    "send_rnr_err",
];

/// Names as settings, fields, metrics and tests have them: words of small letters that underscores join.
fn joined_names(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.filter(|name| {
        name.split('_').count() > 1
            && name.split('_').all(|part| !part.is_empty())
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
            && !name.ends_with(|c: char| c.is_ascii_digit())
    })
}

/// Whether the sources have a metric in its pieces: those of the store and of RDMA are joined of them.
fn is_metric(name: &str, known: &BTreeSet<&str>) -> bool {
    let pieces = ["harrier_store_", "harrier_rdma_", "rabbitmq_"].iter().find_map(|start| name.strip_prefix(start));
    pieces.is_some_and(|rest| known.contains(rest) || known.contains(rest.trim_end_matches("_total")))
}

#[test]
fn settings_metrics_and_fields_of_pages_exist() {
    let folders = ["crates", "tests", "fuzz", "packages"].map(|folder| house::files(folder, ""));
    let mut sources = String::new();
    let here = Path::new(file!()).file_name();
    let files = folders.iter().flatten().filter(|path| path.file_name() != here);
    for path in files.chain(&house::files("docs", ".yml")) {
        // Images and archives of tests are no text.
        sources.push_str(&std::fs::read_to_string(house::root().join(path)).unwrap_or_default());
        sources.push('\n');
    }
    let known: BTreeSet<&str> = sources.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut broken = Vec::new();
    let mut checked = 0;
    for path in documents() {
        let is_record = ["docs/decisions", "docs/measurements"].iter().any(|folder| path.starts_with(folder));
        if is_record || path.ends_with("CHANGELOG.md") {
            continue;
        }
        let document = house::read(&path);
        let blocks: BTreeSet<_> = blocks(&document).collect();
        for (line, piece) in code(&document).into_iter().filter(|(line, _)| !blocks.contains(line)) {
            for name in joined_names(&piece) {
                checked += 1;
                let is_foreign = COUNTERS_OF_DRIVERS.contains(&name) || OTHER_NAMES.contains(&name);
                if !known.contains(name) && !is_foreign && !is_metric(name, &known) {
                    broken.push(format!("{}:{line}: {name}", path.display()));
                }
            }
        }
    }
    check(broken, "names that are in no source");
    assert!(checked > 1000, "only {checked} names were found");
}

/// What is looked up in, not read: as long as what it lists.
const REFERENCES: [&str; 5] =
    ["docs/configuration.md", "docs/crates.md", "docs/management.md", "docs/operations/ctl.md", "docs/glossary.md"];
/// Folders of references, and of records that stay as they are.
const UNBOUNDED_FOLDERS: [&str; 3] = ["docs/protocol", "docs/measurements", "docs/decisions"];
const PAGE_LINES_MAX: usize = 250;

#[test]
fn a_page_is_not_long() {
    let long = documents().into_iter().filter(|path| {
        let is_bounded = !REFERENCES.iter().any(|page| path == Path::new(page))
            && !UNBOUNDED_FOLDERS.iter().any(|folder| path.starts_with(folder))
            && !path.ends_with("CHANGELOG.md");
        is_bounded && house::read(path).lines().count() > PAGE_LINES_MAX
    });
    check(long.map(|path| path.display().to_string()).collect(), "pages that nobody reads to their end");
}

/// First words of spans that are commands of others.
const OTHER_COMMANDS: [&str; 15] = [
    "apt",
    "cargo",
    "cat",
    "cpupower",
    "dnf",
    "harrier",
    "ip",
    "kill",
    "make",
    "mount",
    "pip",
    "promtool",
    "rdma",
    "systemctl",
    "systemd-analyze",
];

/// What a span quotes of the program, if it is a sentence of it: the pieces between what differs each time (`…`, numbers,
/// words of capitals, names in quotes).
fn quoted_sentence(span: &str) -> Vec<String> {
    let words: Vec<&str> = span.split(' ').collect();
    let is_word = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || "'\":,.;…()-".contains(c));
    let is_sentence = words.len() > 2
        && span.starts_with(|c: char| c.is_ascii_lowercase())
        && words.iter().all(is_word)
        && !words.iter().any(|word| word.starts_with('-'))
        && !OTHER_COMMANDS.contains(&words[0]);
    if !is_sentence {
        return Vec::new();
    }
    let differs = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        word.contains(['\'', '"', '…', '(']) || bare.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
    };
    let pieces = words.split(|word| differs(word)).map(|piece| piece.join(" "));
    pieces.map(|piece| piece.trim_matches([':', '.', ',']).to_owned()).filter(|piece| piece.len() > 3).collect()
}

#[test]
fn errors_that_pages_quote_are_those_of_the_program() {
    let sources: String = house::files("crates", ".rs").into_iter().map(house::read).collect();
    // A text goes on in the next line behind a backslash.
    let sources = sources.split("\\\n").map(str::trim_start).collect::<String>();
    let pages = house::files("docs/operations", ".md").into_iter().chain(["docs/moving-from-rabbitmq.md".into()]);
    let (mut broken, mut checked) = (Vec::new(), 0);
    for path in pages {
        let document = house::read(&path);
        let blocks: BTreeSet<_> = blocks(&document).collect();
        for (line, span) in code(&document).into_iter().filter(|(line, _)| !blocks.contains(line)) {
            for piece in quoted_sentence(&span) {
                checked += 1;
                if !sources.contains(&piece) {
                    broken.push(format!("{}:{line}: {span}: {piece:?}", path.display()));
                }
            }
        }
    }
    check(broken, "texts that the program does not have");
    assert!(checked > 30, "only {checked} texts were found");
}

/// The lines of a document that are in blocks.
fn blocks(document: &str) -> impl Iterator<Item = usize> {
    let mut in_block = false;
    document.lines().enumerate().filter_map(move |(at, line)| {
        in_block ^= line.trim_start().starts_with("```");
        in_block.then_some(at + 1)
    })
}

/// The text of all scripts: environment variables live there.
fn scripts() -> String {
    let scripts = ["tests", "fuzz"].into_iter().flat_map(|folder| house::files(folder, ""));
    scripts.filter(|path| path.extension().is_none_or(|ending| ending == "py")).map(house::read).collect()
}

/// The rows of a document's tables: their cells, with the line.
fn rows(document: &str) -> Vec<(usize, Vec<&str>)> {
    let lines = document.lines().enumerate().filter(|(_, line)| line.starts_with("| "));
    lines.map(|(at, line)| (at + 1, line.trim_matches('|').split(" | ").map(str::trim).collect())).collect()
}

#[test]
fn every_method_has_its_row_with_a_state_and_a_test() {
    const PAGE: &str = "docs/protocol/amqp-0-9-1.md";
    const STATES: [&str; 4] = ["yes", "accepted", "refused", "not sent"];
    let document = house::read(PAGE);
    let rows = rows(&document);
    let mut broken = Vec::new();
    for (_, name) in wire::Method::ALL {
        let rows: Vec<_> = rows.iter().filter(|(_, cells)| cells[0] == format!("`{name}`")).collect();
        match rows[..] {
            [(line, cells)] if cells.len() == 5 => {
                if !STATES.iter().any(|state| cells[2].starts_with(state)) {
                    broken.push(format!("{PAGE}:{line}: the state of {name} is one of {STATES:?}"));
                }
            }
            [(line, _)] => broken.push(format!("{PAGE}:{line}: a row of methods has five cells")),
            _ => broken.push(format!("{PAGE}: {} rows for {name}", rows.len())),
        }
    }
    check(broken, "the table of methods is not that of the code");
}

#[test]
fn tests_that_documents_name_exist() {
    const PAGE: &str = "docs/protocol/amqp-0-9-1.md";
    let document = house::read(PAGE);
    let mut broken = Vec::new();
    for (line, cells) in rows(&document) {
        let cell = cells.last().copied().unwrap_or_default();
        let folder = Path::new(PAGE).with_file_name("");
        let texts: Vec<_> = house::links(cell)
            .into_iter()
            .filter_map(|link| std::fs::read_to_string(house::root().join(&folder).join(link.target)).ok())
            .collect();
        if texts.is_empty() {
            continue;
        }
        for (_, name) in code(cell) {
            if !texts.iter().any(|text| text.contains(&name)) {
                broken.push(format!("{PAGE}:{line}: {name} is in none of the files of its row"));
            }
        }
    }
    check(broken, "tests that are not there");
}

#[test]
fn a_decision_is_a_question_a_number_and_a_doubt() {
    let index = house::read("docs/decisions/README.md");
    let decisions: Vec<_> =
        house::files("docs/decisions", ".md").into_iter().filter(|path| !path.ends_with("README.md")).collect();
    for (at, path) in decisions.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("{:04}-", at + 1)), "{name}: decisions are numbered without gaps");
        assert!(index.contains(&name), "docs/decisions/README.md does not list {name}");
        let text = house::read(path);
        for part in ["**Question.**", "**The number that decide", "**What would change our mind.**"] {
            assert!(text.contains(part), "{name} has no {part}");
        }
        assert!(text.lines().count() <= 60, "{name}: one page");
    }
}

#[test]
fn the_time_of_make_bench_is_the_same_everywhere() {
    const TIME: &str = "about two minutes";
    for path in ["README.md", "CONTRIBUTING.md", "Makefile", "docs/benchmarks.md"] {
        let text = house::read(path).to_lowercase();
        let others = ["four minutes", "three minutes", "five minutes", "six minutes"];
        let of_bench: Vec<_> = text.lines().filter(|line| line.contains("minutes")).collect();
        assert!(of_bench.iter().any(|line| line.contains(TIME)), "{path} does not say {TIME:?}");
        let other = of_bench.iter().find(|line| others.iter().any(|other| line.contains(other)));
        assert!(other.is_none(), "{path}: {}", other.unwrap_or(&""));
    }
}
