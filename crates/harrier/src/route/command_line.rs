//! The command line of `harrier route`: qpid-route's, and a few more commands and options.

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

/// Why a command line is not understood.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandLineError {
    /// Help was requested.
    Help,
    /// Wrong usage.
    Usage(String),
}

/// The default broker.
const HERE: &str = "localhost";
const TAGS: &str = "tag and exclude-list are not needed: each message carries the names of the brokers that it passed, which prevents loops";
const MECHANISM: &str =
    "a mechanism is not needed: the address says it (auth_mechanism=external), and without it is PLAIN";

fn usage<T>(why: impl Into<String>) -> Result<T, CommandLineError> {
    Err(CommandLineError::Usage(why.into()))
}

/// Parses the command line.
///
/// # Errors
/// What is wrong with it, or that help was requested.
pub fn parse<'a>(words: &[&'a str]) -> Result<ParsedCommand<'a>, CommandLineError> {
    let mut options = RouteOptions {
        transport: LinkTransport::Tcp,
        durable: false,
        src_local: false,
        del_empty_link: false,
        ack: AckMode::Confirm,
        credit: CREDIT_DEFAULT,
        dead_letter_exchange: None,
        verbose: false,
        quiet: false,
        force: false,
        dry_run: false,
        json: false,
        dot: false,
        timeout: Duration::from_secs(10),
        wait: None,
    };
    let mut plain = Vec::new();
    let mut rest = words.iter();
    while let Some(&word) = rest.next() {
        if word == "--" {
            plain.extend(rest.by_ref());
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let value = match (TAKES_VALUE.contains(&name), value) {
                (true, None) => rest.next().copied(),
                (_, value) => value,
            };
            set(&mut options, &format!("--{name}"), name, value)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            for (at, letter) in letters.char_indices() {
                let Some((_, name)) = SHORT.iter().find(|(short, _)| *short == letter) else {
                    return usage(format!("unknown option '-{letter}'"));
                };
                if TAKES_VALUE.contains(name) {
                    let behind = &letters[at + letter.len_utf8()..];
                    let value = if behind.is_empty() { rest.next().copied() } else { Some(behind) };
                    set(&mut options, &format!("-{letter}"), name, value)?;
                    break;
                }
                set(&mut options, &format!("-{letter}"), name, None)?;
            }
        } else {
            plain.push(word);
        }
    }
    let (command, ignored) = command(&plain)?;
    if options.dot && !matches!(command, RouteCommand::Map(_)) {
        return usage("--dot belongs to route map");
    }
    if options.wait.is_some()
        && !matches!(command, RouteCommand::Route { add: true, .. } | RouteCommand::Link { add: true, .. })
    {
        return usage("--wait belongs to what is added");
    }
    Ok(ParsedCommand { command, options, ignored })
}

/// Options with a value.
const TAKES_VALUE: [&str; 6] = ["transport", "ack", "credit", "dead-letter-exchange", "timeout", "wait"];
/// Short forms of options.
const SHORT: [(char, &str); 7] = [
    ('t', "transport"),
    ('d', "durable"),
    ('s', "src-local"),
    ('e', "del-empty-link"),
    ('v', "verbose"),
    ('q', "quiet"),
    ('h', "help"),
];

fn set(options: &mut RouteOptions, written: &str, name: &str, value: Option<&str>) -> Result<(), CommandLineError> {
    let flag = match name {
        "help" => return Err(CommandLineError::Help),
        "durable" => &mut options.durable,
        "src-local" => &mut options.src_local,
        "del-empty-link" => &mut options.del_empty_link,
        "verbose" => &mut options.verbose,
        "quiet" => &mut options.quiet,
        "force" => &mut options.force,
        "dry-run" => &mut options.dry_run,
        "json" => &mut options.json,
        "dot" => &mut options.dot,
        name if TAKES_VALUE.contains(&name) => {
            let Some(value) = value else { return usage(format!("{written} needs a value")) };
            return set_value(options, written, name, value);
        }
        _ => return usage(format!("unknown option '{written}'")),
    };
    if value.is_some() {
        return usage(format!("{written} takes no value"));
    }
    *flag = true;
    Ok(())
}

fn set_value(options: &mut RouteOptions, written: &str, name: &str, value: &str) -> Result<(), CommandLineError> {
    let number = || value.parse::<u32>().ok();
    match name {
        "transport" => {
            options.transport = match value {
                "tcp" => LinkTransport::Tcp,
                "tls" | "ssl" => LinkTransport::Tls,
                "unix" => LinkTransport::Unix,
                "rdma" => LinkTransport::Rdma,
                _ => return usage(format!("{written} is tcp, tls, unix or rdma, not '{value}'")),
            }
        }
        "ack" => {
            // A number is how many transfers Qpid acknowledges at once; here batches follow from the traffic.
            options.ack = match (value, number()) {
                ("none", _) | (_, Some(0)) => AckMode::None,
                ("confirm", _) | (_, Some(_)) => AckMode::Confirm,
                _ => return usage(format!("{written} is none or confirm, not '{value}'")),
            }
        }
        "credit" => {
            let credit = number().and_then(|number| u16::try_from(number).ok());
            let Some(credit) = credit else {
                return usage(format!("{written} is a number from 0 (unlimited) to {}, not '{value}'", u16::MAX));
            };
            options.credit = credit;
        }
        "dead-letter-exchange" => options.dead_letter_exchange = Some(value.into()),
        _ => {
            let Some(seconds @ 1..=3600) = number() else {
                return usage(format!("{written} is a number of seconds from 1 to 3600, not '{value}'"));
            };
            let span = Duration::from_secs(seconds.into());
            match name {
                "wait" => options.wait = Some(span),
                _ => options.timeout = span,
            }
        }
    }
    Ok(())
}

fn command<'a>(words: &[&'a str]) -> Result<(RouteCommand<'a>, Vec<&'static str>), CommandLineError> {
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
            return usage(format!("'{group} {command}' has wrong arguments"));
        }
        ["apply", ..] => return usage("apply takes one file"),
        [group, command, ..] => return usage(format!("unknown command '{group} {command}'")),
        [group] => return usage(format!("unknown command '{group}'")),
    })
}

#[cfg(test)]
mod tests {
    use super::{CommandLineError, LinkTransport, RouteCommand, RouteOptions, parse};
    use federation::{AckMode, RouteKind};

    fn sound(line: &str) -> (RouteCommand<'_>, RouteOptions, usize) {
        let words: Vec<_> = line.split(' ').collect();
        let understood = parse(&words).unwrap_or_else(|why| panic!("{line}: {why:?}"));
        (understood.command, understood.options, understood.ignored.len())
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
            ("-t ib link list", "-t is tcp, tls, unix or rdma, not 'ib'"),
            ("--ack some link list", "--ack is none or confirm, not 'some'"),
            ("--credit 65536 link list", "--credit is a number from 0 (unlimited) to 65535, not '65536'"),
            ("--timeout 0 link list", "--timeout is a number of seconds from 1 to 3600, not '0'"),
            ("link list --dot", "--dot belongs to route map"),
            ("link list --wait 5", "--wait belongs to what is added"),
            ("link add d s --wait soon", "--wait is a number of seconds from 1 to 3600, not 'soon'"),
        ] {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(parse(&words), Err(CommandLineError::Usage(expect.to_owned())), "{line}");
        }
        assert_eq!(parse(&["-h"]), Err(CommandLineError::Help));
        assert_eq!(parse(&[]), Err(CommandLineError::Usage("route needs a command".to_owned())));
    }
}
