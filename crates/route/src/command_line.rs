//! The command line of `harrier route`: qpid-route's, and a few more commands and options.

use crate::limits::TIMEOUT;
use cli::{Arg, ArgMatches, Command, flag, valued};
use federation::limits::CREDIT_DEFAULT;
use federation::{AckMode, RouteKind};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Transport for an address without a scheme.
    pub transport: LinkTransport,
    /// Links and routes survive a restart of the broker.
    pub durable: bool,
    /// The source dials and pushes.
    pub src_local: bool,
    /// A link is removed with its last route.
    pub del_empty_link: bool,
    /// When the source may forget a message.
    pub ack: AckMode,
    /// Messages in flight.
    pub credit: u16,
    /// The exchange at the source for what the route gives up.
    pub dead_letter_exchange: Option<Box<str>>,
    /// Prints more.
    pub verbose: bool,
    /// Nothing is remarked; an existing or absent route is no failure.
    pub quiet: bool,
    /// Skips the search for second paths.
    pub force: bool,
    /// Checks and prints, but changes nothing.
    pub dry_run: bool,
    /// Prints JSON.
    pub json: bool,
    /// Prints the map for graphviz.
    pub dot: bool,
    /// Time limit for a broker's answers.
    pub timeout: Duration,
    /// Time limit for the added link and route to run; `None`: do not wait.
    pub wait: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTransport {
    Tcp,
    Tls,
    Unix,
    Rdma,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteCommand<'a> {
    /// Adds or removes a route.
    Route {
        add: bool,
        /// The destination's address.
        dest: &'a str,
        /// The source's address.
        src: &'a str,
        exchange: &'a str,
        /// What the route carries.
        kind: RouteKind,
    },
    /// Adds or removes a link.
    Link {
        add: bool,
        /// The address of the broker that dials, unless the source does.
        dest: &'a str,
        /// The other broker's address.
        src: &'a str,
    },
    LinkList(&'a str),
    RouteList(&'a str),
    /// Removes all routes of a broker.
    Flush(&'a str),
    /// Maps the brokers that are reachable from one, and the routes between them.
    Map(&'a str),
    /// Applies a declared topology.
    Apply(&'a str),
}

#[derive(Debug, PartialEq, Eq)]
pub struct ParsedCommand<'a> {
    pub command: RouteCommand<'a>,
    pub options: RouteOptions,
    /// Arguments that are accepted without effect, and why.
    pub ignored: Vec<&'static str>,
}

/// The default broker.
const HERE: &str = "localhost";
const TAGS: &str = "tag and exclude-list are not needed: each message carries the names of the brokers that it passed, which prevents loops";
const MECHANISM: &str =
    "a mechanism is not needed: the address says it (auth_mechanism=external), and without it is PLAIN";

/// The commands, what stands behind each, and what it does.
const FORMS: [(&str, &str, &str); 13] = [
    ("dynamic add", "DEST SRC EXCHANGE", "add a route of what the bindings at DEST match"),
    ("dynamic del", "DEST SRC EXCHANGE", "remove such a route"),
    ("route add", "DEST SRC EXCHANGE KEY", "add a route of messages with a key"),
    ("route del", "DEST SRC EXCHANGE KEY", "remove such a route"),
    ("queue add", "DEST SRC EXCHANGE QUEUE", "add a route from a queue at SRC to an exchange at DEST"),
    ("queue del", "DEST SRC EXCHANGE QUEUE", "remove such a route"),
    ("route list", "[DEST]", "list the routes of a broker"),
    ("route flush", "[DEST]", "remove all routes of a broker"),
    ("route map", "[BROKER]", "show all brokers that can be discovered from one, and the flows between them"),
    ("link add", "DEST SRC", "add a link without routes"),
    ("link del", "DEST SRC", "remove a link"),
    ("link list", "[DEST]", "list the links of a broker"),
    ("apply", "FILE", "apply a topology declared in a file"),
];

/// What the commands of each first word are about.
const GROUPS: [(&str, &str); 5] = [
    ("dynamic", "routes of what the bindings at DEST match"),
    ("route", "routes of messages with a key; lists, maps and removes routes"),
    ("queue", "routes from a queue at SRC"),
    ("link", "the connections that routes share"),
    ("apply", "applies a topology declared in a file (TOML or JSON), and prints the changes"),
];

fn options() -> [Arg; 15] {
    let ack = "none: the source forgets a message when it is sent; confirm (default): when DEST has accepted it. A number, \
               as for qpid-route, is none if it is 0, else confirm";
    let dead_letters = "the exchange at SRC that gets the messages which DEST refuses for good, such as those that are too \
                        large for it; without one they are dropped. Not for queue routes, nor with --ack none";
    let wait = "with add: waits up to S seconds until link and route run; otherwise fails and prints why";
    [
        valued("transport", "NAME", "transport for addresses without a scheme: tcp (default), tls, unix or rdma")
            .short('t'),
        flag("durable", "links and routes survive a restart of the broker (it needs --state DIR)").short('d'),
        flag("src-local", "SRC dials and pushes; not for dynamic routes").short('s'),
        flag("del-empty-link", "removes the link with its last route").short('e'),
        valued("ack", "HOW", ack),
        valued("credit", "N", "maximum number of unconfirmed messages in flight; 0: no limit; default 1000"),
        valued("dead-letter-exchange", "NAME", dead_letters),
        flag("force", "allows a second path; duplicates are dropped where that is possible"),
        valued("wait", "S", wait),
        flag("dry-run", "checks and prints the changes, but makes none"),
        flag("json", "prints JSON"),
        flag("dot", "with route map: prints graphviz input"),
        valued("timeout", "S", "seconds to wait for a broker; default 10"),
        flag("verbose", "prints what is done, and longer listings").short('v'),
        flag("quiet", "prints no remarks; an existing (or absent) route is no failure").short('q'),
    ]
}

/// The command with its options, and its commands as words.
pub fn flat_command() -> Command {
    let usage: Vec<_> =
        FORMS.iter().map(|(form, words, _)| format!("harrier route [OPTIONS] {form} {words}")).collect();
    let command = Command::new("route").override_usage(usage.join("\n")).args_override_self(true).args(options());
    command.arg(cli::word("[WORDS...]", "").hide(true))
}

/// The same with its commands as commands, for pages and shells.
pub fn command() -> Command {
    let words = |command: Command, words: &'static str| command.args(words.split(' ').map(|name| cli::word(name, "")));
    let groups = GROUPS.map(|(group, about)| {
        let mut command =
            Command::new(group).about(about).override_usage(format!("harrier route {group} [OPTIONS] ..."));
        for (form, behind, about) in FORMS {
            command = match form.split_once(' ') {
                None if form == group => {
                    words(command, behind).override_usage(format!("harrier route {form} {behind}"))
                }
                Some((first, name)) if first == group => {
                    let usage = format!("harrier route [OPTIONS] {form} {behind}");
                    command.subcommand(words(Command::new(name).about(about).override_usage(usage), behind))
                }
                _ => command,
            };
        }
        command
    });
    let usage: Vec<_> =
        FORMS.iter().map(|(form, words, _)| format!("harrier route [OPTIONS] {form} {words}")).collect();
    let options = options().map(|option| option.global(true));
    Command::new("route").override_usage(usage.join("\n")).args(options).subcommands(groups)
}

/// Reads what was given to [`flat_command`].
///
/// # Errors
/// What is wrong with it.
pub fn read(given: &ArgMatches) -> Result<ParsedCommand<'_>, String> {
    let has = |name| cli::has(given, name);
    let options = RouteOptions {
        transport: transport(cli::text(given, "transport"))?,
        durable: has("durable"),
        src_local: has("src-local"),
        del_empty_link: has("del-empty-link"),
        ack: ack(cli::text(given, "ack"))?,
        credit: credit(cli::text(given, "credit"))?,
        dead_letter_exchange: cli::text(given, "dead-letter-exchange").map(Into::into),
        verbose: has("verbose"),
        quiet: has("quiet"),
        force: has("force"),
        dry_run: has("dry-run"),
        json: has("json"),
        dot: has("dot"),
        timeout: seconds(given, "timeout")?.unwrap_or(TIMEOUT),
        wait: seconds(given, "wait")?,
    };
    let (command, ignored) = understood(&cli::texts(given, "WORDS"))?;
    if options.dot && !matches!(command, RouteCommand::Map(_)) {
        return Err("--dot belongs to route map".to_owned());
    }
    if options.wait.is_some()
        && !matches!(command, RouteCommand::Route { add: true, .. } | RouteCommand::Link { add: true, .. })
    {
        return Err("--wait belongs to what is added".to_owned());
    }
    Ok(ParsedCommand { command, options, ignored })
}

fn transport(text: Option<&str>) -> Result<LinkTransport, String> {
    Ok(match text {
        Some("tcp") | None => LinkTransport::Tcp,
        Some("tls" | "ssl") => LinkTransport::Tls,
        Some("unix") => LinkTransport::Unix,
        Some("rdma") => LinkTransport::Rdma,
        Some(other) => return Err(format!("--transport is tcp, tls, unix or rdma, not '{other}'")),
    })
}

/// A number is how many transfers Qpid acknowledges at once; here batches follow from the traffic.
fn ack(text: Option<&str>) -> Result<AckMode, String> {
    match text.map(|text| (text, text.parse::<u32>())) {
        Some(("none", _) | (_, Ok(0))) => Ok(AckMode::None),
        None | Some(("confirm", _) | (_, Ok(_))) => Ok(AckMode::Confirm),
        Some((text, Err(_))) => Err(format!("--ack is none or confirm, not '{text}'")),
    }
}

fn credit(text: Option<&str>) -> Result<u16, String> {
    let Some(text) = text else { return Ok(CREDIT_DEFAULT) };
    text.parse().map_err(|_| format!("--credit is a number from 0 (unlimited) to {}, not '{text}'", u16::MAX))
}

fn seconds(given: &ArgMatches, name: &str) -> Result<Option<Duration>, String> {
    match cli::text(given, name).map(|text| (text, text.parse())) {
        None => Ok(None),
        Some((_, Ok(seconds @ 1..=3600))) => Ok(Some(Duration::from_secs(seconds))),
        Some((text, _)) => Err(format!("--{name} is a number of seconds from 1 to 3600, not '{text}'")),
    }
}

fn understood<'a>(words: &[&'a str]) -> Result<(RouteCommand<'a>, Vec<&'static str>), String> {
    let usage = |why: &str| Err(why.to_owned());
    let route = |add, dest, src, exchange, kind| RouteCommand::Route { add, dest, src, exchange, kind };
    let fixed = |key: &str| RouteKind::Static { key: key.into() };
    let queue = |queue: &str| RouteKind::Queue { queue: queue.into() };
    // Optional trailing arguments: a tag, an exclude list, a mechanism.
    let tags = |more: &[&str]| match more.len() {
        0 => vec![],
        1 | 2 => vec![TAGS],
        _ => vec![TAGS, MECHANISM],
    };
    let mechanism = |more: &[&str]| if more.is_empty() { vec![] } else { vec![MECHANISM] };
    Ok(match words {
        ["dynamic", "add", dest, src, exchange, more @ ..] if more.len() <= 3 => {
            (route(true, dest, src, exchange, RouteKind::Dynamic), tags(more))
        }
        ["dynamic", "del", dest, src, exchange] => (route(false, dest, src, exchange, RouteKind::Dynamic), vec![]),
        ["route", "add", dest, src, exchange, key, more @ ..] if more.len() <= 3 => {
            (route(true, dest, src, exchange, fixed(key)), tags(more))
        }
        ["route", "del", dest, src, exchange, key] => (route(false, dest, src, exchange, fixed(key)), vec![]),
        ["queue", "add", dest, src, exchange, name, more @ ..] if more.len() <= 1 => {
            (route(true, dest, src, exchange, queue(name)), mechanism(more))
        }
        ["queue", "del", dest, src, exchange, name] => (route(false, dest, src, exchange, queue(name)), vec![]),
        ["route", "list"] => (RouteCommand::RouteList(HERE), vec![]),
        ["route", "list", dest] => (RouteCommand::RouteList(dest), vec![]),
        ["route", "flush"] => (RouteCommand::Flush(HERE), vec![]),
        ["route", "flush", dest] => (RouteCommand::Flush(dest), vec![]),
        ["route", "map"] | ["map"] => (RouteCommand::Map(HERE), vec![]),
        ["route", "map", broker] | ["map", broker] => (RouteCommand::Map(broker), vec![]),
        ["link", "add", dest, src, more @ ..] if more.len() <= 1 => {
            (RouteCommand::Link { add: true, dest, src }, mechanism(more))
        }
        ["link", "del", dest, src] => (RouteCommand::Link { add: false, dest, src }, vec![]),
        ["link", "list"] => (RouteCommand::LinkList(HERE), vec![]),
        ["link", "list", dest] => (RouteCommand::LinkList(dest), vec![]),
        ["apply", file] => (RouteCommand::Apply(file), vec![]),
        [] => return usage("route needs a command"),
        [
            group @ ("dynamic" | "route" | "queue" | "link"),
            command @ ("add" | "del" | "list" | "flush" | "map"),
            ..,
        ] => {
            return usage(&format!("'{group} {command}' has wrong arguments"));
        }
        ["apply", ..] => return usage("apply takes one file"),
        [group, command, ..] => return usage(&format!("unknown command '{group} {command}'")),
        [group] => return usage(&format!("unknown command '{group}'")),
    })
}

#[cfg(test)]
mod tests {
    use super::{FORMS, LinkTransport, ParsedCommand, RouteCommand, RouteOptions, flat_command, read};
    use cli::WordsError;
    use federation::{AckMode, RouteKind};

    fn parse(words: &[&str]) -> Result<ParsedCommand<'static>, String> {
        match cli::parse(flat_command(), words) {
            Ok(given) => read(Box::leak(Box::new(given))),
            Err(WordsError::Usage(why) | WordsError::Words(why)) => Err(why),
            Err(WordsError::Help(_)) => Err("help".to_owned()),
        }
    }

    fn sound(line: &str) -> (RouteCommand<'static>, RouteOptions, usize) {
        let words: Vec<_> = line.split(' ').collect();
        let understood = parse(&words).unwrap_or_else(|why| panic!("{line}: {why}"));
        (understood.command, understood.options, understood.ignored.len())
    }

    #[test]
    fn every_form_is_understood_and_has_a_command() {
        let command = super::command();
        for (form, words, _) in FORMS {
            let _understood = sound(&format!("{form} {}", words.trim_matches(['[', ']'])));
            let found = form.split(' ').try_fold(&command, |command, word| command.find_subcommand(word));
            assert_eq!(
                found.map(|command| command.get_positionals().count()),
                Some(words.split(' ').count()),
                "{form}"
            );
        }
    }

    #[test]
    fn the_words_of_qpid_route_mean_what_they_mean_there() {
        let (command, options, ignored) = sound("-d dynamic add d s x");
        assert_eq!(
            command,
            RouteCommand::Route { add: true, dest: "d", src: "s", exchange: "x", kind: RouteKind::Dynamic }
        );
        assert!(options.durable && !options.src_local && ignored == 0);
        assert_eq!((options.ack, options.credit), (AckMode::Confirm, 1000));
        let (command, options, _) = sound("route add d s x k.# -ds --ack=none --credit 0 -tunix");
        let kind = RouteKind::Static { key: "k.#".into() };
        assert_eq!(command, RouteCommand::Route { add: true, dest: "d", src: "s", exchange: "x", kind });
        assert!(options.durable && options.src_local);
        assert_eq!((options.ack, options.credit, options.transport), (AckMode::None, 0, LinkTransport::Unix));
        assert_eq!(sound("--ack 100 link list").1.ack, AckMode::Confirm);
        assert_eq!(sound("-t ssl link list").1.transport, LinkTransport::Tls);
        assert_eq!(sound("route add d s x k tag a,b PLAIN").2, 2);
        assert_eq!(sound("link add d s EXTERNAL").2, 1);
        let kind = RouteKind::Queue { queue: "q".into() };
        assert_eq!(
            sound("-e queue del d s x q").0,
            RouteCommand::Route { add: false, dest: "d", src: "s", exchange: "x", kind }
        );
        assert_eq!(sound("route list").0, RouteCommand::RouteList("localhost"));
        assert_eq!(sound("route map --dot b").0, RouteCommand::Map("b"));
        assert_eq!(sound("link list b:1 -v --json").0, RouteCommand::LinkList("b:1"));
        assert_eq!(sound("apply --dry-run f.toml").0, RouteCommand::Apply("f.toml"));
        assert_eq!(sound("-- route flush -b").0, RouteCommand::Flush("-b"));
        assert_eq!(sound("--wait 7 dynamic add d s x").1.wait.map(|wait| wait.as_secs()), Some(7));
    }

    #[test]
    fn other_words_are_told() {
        for (line, expect) in [
            ("dynamic", "unknown command 'dynamic'"),
            ("dynamic add d s", "'dynamic add' has wrong arguments"),
            ("route del d s x", "'route del' has wrong arguments"),
            ("dynamic remove d s x", "unknown command 'dynamic remove'"),
            ("-x link list", "unknown option '-x'"),
            ("--durable=yes link list", "--durable takes no value"),
            ("--bogus link list", "unknown option '--bogus'"),
            ("link list -t", "-t needs a value"),
            ("-t ib link list", "--transport is tcp, tls, unix or rdma, not 'ib'"),
            ("--ack some link list", "--ack is none or confirm, not 'some'"),
            ("--credit 65536 link list", "--credit is a number from 0 (unlimited) to 65535, not '65536'"),
            ("--timeout 0 link list", "--timeout is a number of seconds from 1 to 3600, not '0'"),
            ("link list --dot", "--dot belongs to route map"),
            ("link list --wait 5", "--wait belongs to what is added"),
            ("link add d s --wait soon", "--wait is a number of seconds from 1 to 3600, not 'soon'"),
        ] {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(parse(&words), Err(expect.to_owned()), "{line}");
        }
        assert_eq!(parse(&["-h"]), Err("help".to_owned()));
        assert_eq!(parse(&[]), Err("route needs a command".to_owned()));
    }
}
