//! `harrier route`: joins brokers by links and routes, with the command line of qpid-route.
//!
//! Checks what it can before it asks a broker for a change; the broker decides. Passwords are never printed.
#![forbid(unsafe_code)]

mod apply;
mod broker_address;
mod broker_network;
mod command_line;
mod limits;
mod listing;
mod map;
mod readiness;
mod second_path;

use admin::{AdminConnection, RequestError, RequestErrorKind};
use broker_address::BrokerAddress;
use broker_network::BrokerNetwork;
use cli::{WordsError, given, print, print_error, usage_error};
use command_line::{LinkTransport, RouteCommand, RouteOptions};
use definitions::Json;
use federation::{RouteDirection, RouteKind, RouteSpec, route_spec};
use second_path::RouteEdge;
use secrets::read_address;
use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;
use wire::Escaped;

const DESCRIPTION: &str = "\
Joins brokers: messages of an exchange at SRC are routed to the exchange of that name at DEST, which dials SRC.

  dynamic     the messages that the bindings at DEST match, and no others
  route       messages published with a key (of a topic exchange, a pattern)
  queue       messages of a queue at SRC, to an exchange at DEST
  link        the connection that routes share; it is added with the first of them
  map         all brokers that can be discovered from one, and the flows between them
  apply       applies a topology declared in a file (TOML or JSON), and prints the changes

DEST and SRC are [USER/PASSWORD@]HOST[:PORT], or addresses such as amqps://USER:PASSWORD@HOST:PORT/VHOST. The broker that
dials (DEST; SRC with -s) is asked as its administrator, whom its address names; default guest/guest@localhost:5672. The
other broker's address is what it dials, and its user is whom it is there. An address '-' is a line of standard input (DEST
before SRC), and @FILE the first line of a file: nobody else sees the password then.";

const BEHIND: &str = "\
Examples:
  harrier route dynamic add leaf.example root.example amq.topic
  harrier route -d dynamic add admin/secret@leaf:5672 fed/secret@root:5672 amq.topic
  harrier route --wait 30 dynamic add leaf.example root.example amq.topic
  harrier route -s route add amqps://root.example push/secret@leaf:5672 orders 'eu.#'
  harrier route map leaf.example --dot | dot -Tsvg > map.svg
  harrier route apply --dry-run tree.toml

Status: 0 for success, 1 if it is refused or fails, 2 for wrong usage.";

/// The command as declared.
pub fn command() -> cli::Command {
    let about = "join brokers: links and routes between them";
    command_line::command().about(about).long_about(DESCRIPTION).after_help(BEHIND)
}

/// As it is parsed, and as its help has it: the commands are plain words, among which options may stand.
fn flat_command() -> cli::Command {
    command_line::flat_command().long_about(DESCRIPTION).after_help(BEHIND)
}

/// Whether the words are a command, and a topology that they name is well-formed, if it is there. Nobody is asked.
///
/// # Errors
/// What is wrong with them.
pub fn check(words: &[String]) -> Result<(), String> {
    let given = match cli::parse(flat_command(), words) {
        Ok(given) => given,
        Err(WordsError::Help(_)) => return Ok(()),
        Err(WordsError::Usage(why) | WordsError::Words(why)) => return Err(why),
    };
    let understood = command_line::read(&given)?;
    match understood.command {
        RouteCommand::Apply(file) if std::path::Path::new(file).exists() => apply::check(file, &understood.options),
        _ => Ok(()),
    }
}

/// Runs `harrier route`.
pub fn main(words: &[OsString]) -> ExitCode {
    let given = match given(flat_command(), words) {
        Ok(given) => given,
        Err(status) => return status,
    };
    let understood = match command_line::read(&given) {
        Ok(understood) => understood,
        Err(why) => return usage_error(&format!("{why}\n{}", cli::help(&flat_command()))),
    };
    let options = &understood.options;
    let mut output = CommandOutput::default();
    output.remarks.extend(understood.ignored.iter().map(|why| (*why).to_owned()));
    let outcome = execute(&understood.command, options, &mut output);
    if !options.quiet {
        for remark in &output.remarks {
            print_error(&format!("harrier route: {remark}"));
        }
    }
    let printed = if output.out.is_empty() { ExitCode::SUCCESS } else { print(&output.out) };
    match outcome {
        Ok(()) => printed,
        Err(RouteFailure::Usage(why)) => usage_error(&why),
        Err(RouteFailure::Refused(why)) => {
            print_error(&format!("Failed: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// What the command prints.
#[derive(Default)]
struct CommandOutput {
    /// For standard output.
    out: String,
    /// For standard error, unless `--quiet` is given.
    remarks: Vec<String>,
}

/// Why a command failed.
enum RouteFailure {
    /// Wrong usage.
    Usage(String),
    /// Refused, or failed.
    Refused(String),
}

impl From<RequestError> for RouteFailure {
    fn from(none: RequestError) -> Self {
        RouteFailure::Refused(none.text)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, RouteFailure> {
    Err(RouteFailure::Refused(why.into()))
}

/// An address of the command line.
fn broker_address(word: &str, transport: LinkTransport) -> Result<BrokerAddress, RouteFailure> {
    let text = read_address(word).map_err(RouteFailure::Usage)?;
    BrokerAddress::read(&text, transport).map_err(RouteFailure::Usage)
}

fn begin(at: &BrokerAddress, options: &RouteOptions) -> Result<AdminConnection, RequestError> {
    AdminConnection::begin(&at.url, "harrier route", options.timeout)
}

fn execute(command: &RouteCommand<'_>, options: &RouteOptions, output: &mut CommandOutput) -> Result<(), RouteFailure> {
    match command {
        RouteCommand::Route { add, dest, src, exchange, kind } => {
            let ends = LinkEnds::of(dest, src, options)?;
            let route = RouteSpec {
                exchange: (*exchange).into(),
                kind: kind.clone(),
                direction: if options.src_local { RouteDirection::Push } else { RouteDirection::Pull },
                ack: options.ack,
                credit: options.credit,
                hops_max: federation::limits::HOPS_DEFAULT,
                durable: options.durable,
                forced: options.force,
                dead_letter_exchange: options.dead_letter_exchange.clone(),
                options: Default::default(),
            };
            route_spec::check(&route).map_err(|why| RouteFailure::Usage(format!("--dead-letter-exchange: {why}")))?;
            if *add { add_route(&ends, route, options, output) } else { remove_route(&ends, &route, options, output) }
        }
        RouteCommand::Link { add, dest, src } => {
            let ends = LinkEnds::of(dest, src, options)?;
            if *add { add_link(&ends, options, output) } else { remove_link(&ends, options, output) }
        }
        RouteCommand::LinkList(dest) => list(dest, options, output, listing::links),
        RouteCommand::RouteList(dest) => list(dest, options, output, listing::routes),
        RouteCommand::Flush(dest) => flush(dest, options, output),
        RouteCommand::Map(broker) => map::draw(&broker_address(broker, LinkTransport::Tcp)?, options, output),
        RouteCommand::Apply(file) => apply::apply(file, options, output),
    }
}

/// The two brokers of a link.
struct LinkEnds {
    /// The broker that dials, and that receives the request.
    near: BrokerAddress,
    /// The broker that is dialled.
    far: BrokerAddress,
}

impl LinkEnds {
    fn of(dest: &str, src: &str, options: &RouteOptions) -> Result<Self, RouteFailure> {
        // DEST comes first, on standard input too.
        let transport_of = |dials: bool| if dials { LinkTransport::Tcp } else { options.transport };
        let dest = broker_address(dest, transport_of(!options.src_local))?;
        let src = broker_address(src, transport_of(options.src_local))?;
        let (near, far) = if options.src_local { (src, dest) } else { (dest, src) };
        Ok(LinkEnds { near, far })
    }

    /// The arguments that identify the link.
    fn arguments(&self, options: &RouteOptions) -> Vec<(&'static str, Json)> {
        vec![
            ("vhost", Json::text(&self.near.url.vhost)),
            ("url", Json::text(&self.far.text)),
            ("dry_run", Json::Bool(options.dry_run)),
        ]
    }
}

/// Sends a change to the broker that dials. With `--quiet`, an error code in `harmless` is no failure.
fn request_change(
    ends: &LinkEnds,
    command: &str,
    arguments: Vec<(&str, Json)>,
    harmless: &[&str],
    options: &RouteOptions,
    output: &mut CommandOutput,
) -> Result<(), RouteFailure> {
    let mut connection = begin(&ends.near, options)?;
    let outcome = connection.ask(command, arguments);
    connection.end();
    match outcome {
        Err(RequestError { kind: RequestErrorKind::Refused(code), .. })
            if options.quiet && harmless.contains(&&*code) =>
        {
            Ok(())
        }
        Err(none) => Err(none.into()),
        Ok(result) => {
            if let Some(Json::List(warnings)) = result.get("warnings") {
                output.remarks.extend(warnings.iter().filter_map(|warning| match warning {
                    Json::Text(text) => Some(text.clone()),
                    _ => None,
                }));
            }
            if options.json {
                let _infallible = writeln!(output.out, "{}", result.line());
            }
            Ok(())
        }
    }
}

/// Adds a line about what was done, if `--verbose` is given.
fn report_done(options: &RouteOptions, output: &mut CommandOutput, what: String, done: &str) {
    if options.json {
        return;
    }
    if options.dry_run {
        let _infallible = writeln!(output.out, "{} would be {done}", Escaped(what));
    } else if options.verbose {
        let _infallible = writeln!(output.out, "{} is {done}", Escaped(what));
    }
}

fn add_route(
    ends: &LinkEnds,
    route: RouteSpec,
    options: &RouteOptions,
    output: &mut CommandOutput,
) -> Result<(), RouteFailure> {
    if route.kind == RouteKind::Dynamic && options.src_local {
        return refused(federation::PlanError::DynamicPush.to_string());
    }
    check_before_adding(ends, Some(&route), options, output)?;
    let mut arguments = ends.arguments(options);
    arguments.extend(route_spec::entries(&route));
    request_change(ends, "route-add", arguments, &["duplicate-route"], options, output)?;
    report_done(options, output, format!("{} with route {}", named(ends), route.title()), "added");
    readiness::wait_until_running(ends, Some(&route), options)
}

fn remove_route(
    ends: &LinkEnds,
    route: &RouteSpec,
    options: &RouteOptions,
    output: &mut CommandOutput,
) -> Result<(), RouteFailure> {
    let mut arguments = ends.arguments(options);
    arguments.push(("del_empty_link", Json::Bool(options.del_empty_link)));
    let meant = route_spec::entries(route);
    arguments.extend(meant.into_iter().filter(|(name, _)| ["exchange", "key", "queue", "direction"].contains(name)));
    request_change(ends, "route-delete", arguments, &["no-route", "no-link"], options, output)?;
    report_done(options, output, format!("route {} of {}", route.title(), named(ends)), "removed");
    Ok(())
}

fn add_link(ends: &LinkEnds, options: &RouteOptions, output: &mut CommandOutput) -> Result<(), RouteFailure> {
    check_before_adding(ends, None, options, output)?;
    let mut arguments = ends.arguments(options);
    arguments.push(("durable", Json::Bool(options.durable)));
    request_change(ends, "link-add", arguments, &[], options, output)?;
    report_done(options, output, named(ends), "added");
    readiness::wait_until_running(ends, None, options)
}

fn remove_link(ends: &LinkEnds, options: &RouteOptions, output: &mut CommandOutput) -> Result<(), RouteFailure> {
    request_change(ends, "link-delete", ends.arguments(options), &["no-link"], options, output)?;
    report_done(options, output, named(ends), "removed");
    Ok(())
}

fn named(ends: &LinkEnds) -> String {
    format!("the link from {} to {}", ends.near.short_name(), ends.far.short_name())
}

/// Inspects the other broker, and the brokers around both, before a link is requested. A broker that is unreachable
/// from here may be reachable from there, and only causes a remark. With `--force`, only what force cannot fix is an
/// error.
fn check_before_adding(
    ends: &LinkEnds,
    route: Option<&RouteSpec>,
    options: &RouteOptions,
    output: &mut CommandOutput,
) -> Result<(), RouteFailure> {
    let new = route.filter(|route| !matches!(route.kind, RouteKind::Queue { .. }));
    if options.force && new.is_none() {
        return Ok(());
    }
    let mut net = BrokerNetwork::new(options.timeout);
    let near = net.probe(&ends.near);
    let far = net.probe(&ends.far);
    if let Err(none) = net.outcome(near) {
        return refused(none.text.clone());
    }
    // The link's user need not be an administrator of the other broker; the user who asks may be one.
    if net.outcome(far).is_err_and(|none| none.kind == RequestErrorKind::NotAllowed) {
        net.probe_with_login(far, &ends.near.url);
    }
    match net.outcome(far) {
        Ok(()) => {}
        Err(_) if options.force => {}
        // An existing link keeps its login.
        Err(none)
            if none.kind == RequestErrorKind::NotAmqp
                || none.kind == RequestErrorKind::Login && !net.is_linked(near, far) =>
        {
            return refused(none.text.clone());
        }
        Err(none) => output.remarks.push(format!("{}; brokers that it may be joined with are not checked", none.text)),
    }
    if net.are_same(near, far) && !options.force {
        return refused(format!(
            "{} and {} are one broker, {}: it cannot have a route to itself",
            ends.near.short_name(),
            ends.far.short_name(),
            net.title(near)
        ));
    }
    let Some(route) = new else { return Ok(()) };
    net.explore(&ends.near.url);
    if !options.force {
        let unseen = net.unreachable().into_iter().filter(|(at, _)| *at != net.canonical(far));
        output.remarks.extend(unseen.map(|(_, why)| format!("{why}; second paths through it are not detected")));
    }
    let (from, to) = if options.src_local { (near, far) } else { (far, near) };
    let key = match &route.kind {
        RouteKind::Static { key } => Some(key.to_string()),
        _ => None,
    };
    let leg = RouteEdge { from, to, key, pushed: options.src_local, forced: route.forced };
    net.second_path(&route.exchange, leg).map_or(Ok(()), refused)
}

/// Asks a broker for the state of its links, and prints a listing.
fn list(
    dest: &str,
    options: &RouteOptions,
    output: &mut CommandOutput,
    listing: fn(&BrokerAddress, &Json, bool) -> String,
) -> Result<(), RouteFailure> {
    let dest = broker_address(dest, LinkTransport::Tcp)?;
    let reply = links_of(&dest, options)?;
    if options.json {
        let _infallible = writeln!(output.out, "{}", reply.page());
    } else {
        output.out.push_str(&listing(&dest, &reply, options.verbose));
    }
    Ok(())
}

fn links_of(dest: &BrokerAddress, options: &RouteOptions) -> Result<Json, RequestError> {
    let mut connection = begin(dest, options)?;
    let reply = connection.ask("links", vec![("vhost", Json::text(&dest.url.vhost))]);
    connection.end();
    reply
}

fn flush(dest: &str, options: &RouteOptions, output: &mut CommandOutput) -> Result<(), RouteFailure> {
    let near = broker_address(dest, LinkTransport::Tcp)?;
    let reply = links_of(&near, options)?;
    let (mut removed, mut links) = (0, 0);
    for link in listing::list(&reply, "links") {
        let far = BrokerAddress::of(listing::text(link, "peer").to_owned()).map_err(RouteFailure::Refused)?;
        let ends = LinkEnds { near: near.clone(), far };
        let quietly = RouteOptions { json: false, ..options.clone() };
        for route in listing::list(link, "routes") {
            let route = route_spec::read(route).map_err(RouteFailure::Refused)?;
            let kept = RouteOptions { del_empty_link: false, ..quietly.clone() };
            remove_route(&ends, &route, &kept, output)?;
            removed += 1;
        }
        if options.del_empty_link {
            remove_link(&ends, &quietly, output)?;
            links += 1;
        }
    }
    if options.json {
        let _infallible = writeln!(output.out, "{{\"routes\":{removed},\"links\":{links}}}");
    }
    Ok(())
}
