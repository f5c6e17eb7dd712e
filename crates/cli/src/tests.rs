//! Words, help, pages and scripts of one declaration.

use crate::{
    ArgMatches, Command, Shell, WordsError, completion_script, flag, has, help, manual_pages, parse, text, texts,
    valued, word,
};
use clap::ArgAction;

fn declared() -> Command {
    Command::new("birds")
        .about("counts birds")
        .long_about("Counts birds.\n\nOne after the other.")
        .override_usage("birds [OPTIONS] FOLDER [MORE...]\nbirds far WHERE")
        .arg(valued("url", "URL", "where").short('u'))
        .arg(valued("size", "MIN:MAX", "how large").short('s').action(ArgAction::Append).help_heading("Many"))
        .arg(flag("quick", "less…").short('q'))
        .arg(word("FOLDER", "what is read"))
        .arg(word("[MORE...]", "more of them"))
        .after_help("Examples:\n  birds .\n    .here\n\nStatus: 0.")
        .subcommand(Command::new("far").about("counts far away").arg(word("WHERE", "the place")))
}

fn given(line: &str) -> Result<ArgMatches, WordsError> {
    parse(declared(), line.split_whitespace())
}

#[test]
fn words_become_what_was_given() {
    let known = given("-s 1:2 a --size=3:4 -qu - b -- -c").expect("known");
    assert_eq!((text(&known, "url"), has(&known, "quick")), (Some("-"), true));
    assert_eq!((texts(&known, "size"), texts(&known, "MORE")), (vec!["1:2", "3:4"], vec!["b", "-c"]));
    let known = given("--url --quick x").expect("any word is a value");
    assert_eq!((text(&known, "url"), has(&known, "quick"), text(&known, "other")), (Some("--quick"), false, None));
    assert_eq!(text(&known, "FOLDER"), Some("x"));
}

#[test]
fn what_is_wrong_is_one_sentence() {
    for (line, expect) in [
        ("a -x", "unknown option '-x'"),
        ("a --bogus=1", "unknown option '--bogus'"),
        ("a --quik", "unknown option '--quik' (did you mean --quick?)"),
        ("a --rl", "unknown option '--rl'"),
        ("a --quick=1", "--quick takes no value"),
        ("a --url", "--url needs a value"),
        ("a -qu", "-u needs a value"),
        ("a -u 1 --url 2", "--url is given twice"),
    ] {
        assert_eq!(given(line).map(|_| ()), Err(WordsError::Usage(expect.to_owned())), "{line}");
    }
    let family = || Command::new("family").subcommand_required(true).subcommand(Command::new("one"));
    let of_family = |words: &[&str]| parse(family(), words).map(|_| ());
    assert_eq!(of_family(&[]), Err(WordsError::Usage("family needs a command".to_owned())));
    assert_eq!(of_family(&["two"]), Err(WordsError::Usage("unknown command 'family two'".to_owned())));
    assert_eq!(given("-q").map(|_| ()), Err(WordsError::Words("FOLDER is missing".to_owned())));
    let many = parse(Command::new("x"), ["y"]).map(|_| ());
    assert_eq!(many, Err(WordsError::Words("'y' is one word too many".to_owned())));
}

#[test]
fn help_has_everything() {
    let expect = "\
usage: birds [OPTIONS] FOLDER [MORE...]
       birds far WHERE

Counts birds.

One after the other.

  far                              counts far away

  -u, --url URL                    where

Many
  -s, --size MIN:MAX               how large

  -q, --quick                      less…

Examples:
  birds .
    .here

Status: 0.
";
    assert_eq!(help(&declared()), expect);
    assert_eq!(given("--help").map(|_| ()), Err(WordsError::Help(expect.to_owned())));
    let own = parse(Command::new("x").arg(flag("help", "more")), ["--help"]).expect("its own option");
    assert!(has(&own, "help"));
    assert_eq!(given("far -h").map(|_| ()), given("far --help").map(|_| ()));
}

#[test]
fn every_command_has_a_page() {
    let pages =
        manual_pages(declared().version(".TH birds 1 \"\" \"birds 1.2.3\" \"Manual of birds\"\n")).expect("in memory");
    let names: Vec<_> = pages.iter().map(|page| &*page.file_name).collect();
    assert_eq!(names, ["birds-far.1", "birds.1"]);
    let text = &pages[1].text;
    for part in [
        "birds \\- counts birds",
        "less\\[u2026]",
        "\\fBbirds\\fR far WHERE",
        "\n.SH EXAMPLES\n.nf\nbirds .\n  .here\n",
        ".SH NOTES\nStatus: 0.\n",
        "1.2.3",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn every_shell_has_a_script_with_the_commands_and_options() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = completion_script(shell, declared());
        for part in ["far", "quick", "help"] {
            assert!(script.contains(part), "{shell}: {part}: {script}");
        }
    }
}
