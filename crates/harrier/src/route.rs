//! `harrier route`: joins brokers by links and routes, in the words of qpid-route.
//!
//! Enters: words.  Leaves: brokers told what to dial; listings, maps; an exit status.
//! Owns:   the order of what is looked at before something is asked of a broker, and what is a failure.
//! Never:  decides what a broker takes: the broker does; shows a password.

mod apply;
mod listing;
mod map;
mod net;
mod patience;
mod place;
mod second;
mod words;

use crate::ask::{Conversation, NoResult, Reason};
use crate::{print, route_spec, usage_error};
use definitions::Json;
use federation::{RouteDirection, RouteKind, RouteSpec};
use net::Net;
use place::Place;
use second::Leg;
use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;
use words::{Options, Transport, Unclear, Verb};

const USAGE: &str = "usage: harrier route [OPTIONS] dynamic add DEST SRC EXCHANGE
       harrier route [OPTIONS] dynamic del DEST SRC EXCHANGE
       harrier route [OPTIONS] route add   DEST SRC EXCHANGE KEY
       harrier route [OPTIONS] route del   DEST SRC EXCHANGE KEY
       harrier route [OPTIONS] queue add   DEST SRC EXCHANGE QUEUE
       harrier route [OPTIONS] queue del   DEST SRC EXCHANGE QUEUE
       harrier route [OPTIONS] route list  [DEST]
       harrier route [OPTIONS] route flush [DEST]
       harrier route [OPTIONS] route map   [BROKER]
       harrier route [OPTIONS] link add    DEST SRC
       harrier route [OPTIONS] link del    DEST SRC
       harrier route [OPTIONS] link list   [DEST]
       harrier route [OPTIONS] apply FILE

Joins brokers: messages of an exchange at SRC come to the exchange of that name at DEST, which dials SRC.

  dynamic     what the bindings at DEST want, and nothing else
  route       what is published with a key (a pattern, of a topic exchange)
  queue       what is in a queue at SRC, to an exchange at DEST
  link        the connection that routes ride on; it is added with the first of them
  map         every broker that can be found from one, and what flows between them
  apply       a topology declared in a file (TOML or JSON): shows what is different, and makes it so

DEST and SRC are [USER/PASSWORD@]HOST[:PORT], or addresses such as amqps://USER:PASSWORD@HOST:PORT/VHOST. The broker that
dials (DEST; SRC with -s) is asked as its administrator, whom its address names; default guest/guest@localhost:5672. The
other broker's address is what it dials, and its user is whom it is there.

  -t, --transport NAME  what an address without a scheme is dialled by: tcp (default), tls, unix or rdma
  -d, --durable         links and routes are there again when the broker starts again (it needs --state DIR)
  -s, --src-local       SRC dials and pushes; not for dynamic routes
  -e, --del-empty-link  a link goes with the last route on it
  --ack HOW             none: the source forgets a message when it is sent; confirm (default): when DEST has taken it.
                        A number, as for qpid-route, is none if it is 0, else confirm
  --credit N            messages under way that are not confirmed, at most; 0: no limit; default 1000
  --force               a second path is not refused, and what comes twice is dropped, where that can be
  --wait S              of add: waits up to S seconds until the link runs, and the route; else it fails, and says why
  --dry-run             nothing is done: it is checked and said
  --json                answers are JSON
  --dot                 of route map: for graphviz
  --timeout S           seconds to wait for a broker; default 10
  -v, --verbose         says what is done, and more in listings
  -q, --quiet           no remarks; a route that is there already, or not any more, is no failure

Examples:
  harrier route dynamic add leaf.example root.example amq.topic
  harrier route -d dynamic add admin/secret@leaf:5672 fed/secret@root:5672 amq.topic
  harrier route --wait 30 dynamic add leaf.example root.example amq.topic
  harrier route -s route add amqps://root.example push/secret@leaf:5672 orders 'eu.#'
  harrier route map leaf.example --dot | dot -Tsvg > map.svg
  harrier route apply --dry-run tree.toml

Status: 0 if it is done, 1 if it is refused or fails, 2 for wrong usage.
";

/// Runs the command with the words behind `route`.
pub fn main(words: &[OsString]) -> ExitCode {
    let Some(words) = words.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>() else {
        return usage_error("route takes words of UTF-8 only");
    };
    let understood = match words::understand(&words) {
        Ok(understood) => understood,
        Err(Unclear::Help) => return print(USAGE),
        Err(Unclear::Usage(why)) => return usage_error(&format!("{why}\n{USAGE}")),
    };
    let options = &understood.options;
    let mut said = Said::default();
    said.remarks.extend(understood.needless.iter().map(|why| (*why).to_owned()));
    let outcome = carry_out(&understood.verb, options, &mut said);
    if !options.quiet {
        for remark in &said.remarks {
            eprintln!("harrier route: {remark}");
        }
    }
    let printed = if said.out.is_empty() { ExitCode::SUCCESS } else { print(&said.out) };
    match outcome {
        Ok(()) => printed,
        Err(Failure::Usage(why)) => usage_error(&why),
        Err(Failure::Refused(why)) => {
            eprintln!("Failed: {why}");
            ExitCode::FAILURE
        }
    }
}

/// What there is to say.
#[derive(Default)]
struct Said {
    /// On standard output.
    out: String,
    /// On standard error, unless that is too much.
    remarks: Vec<String>,
}

/// Why something was not done.
enum Failure {
    /// The words cannot be meant so.
    Usage(String),
    /// Something is in the way.
    Refused(String),
}

impl From<NoResult> for Failure {
    fn from(none: NoResult) -> Self {
        Failure::Refused(none.text)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Refused(why.into()))
}

/// An address of the command line.
fn place(text: &str, transport: Transport) -> Result<Place, Failure> {
    Place::read(text, transport).map_err(Failure::Usage)
}

fn begin(at: &Place, options: &Options) -> Result<Conversation, NoResult> {
    Conversation::begin(&at.url, "harrier route", options.timeout)
}

fn carry_out(verb: &Verb<'_>, options: &Options, said: &mut Said) -> Result<(), Failure> {
    match verb {
        Verb::Route { add, dest, src, exchange, kind } => {
            let ends = Ends::of(dest, src, options)?;
            let route = RouteSpec {
                exchange: (*exchange).into(),
                kind: kind.clone(),
                direction: if options.src_local { RouteDirection::Push } else { RouteDirection::Pull },
                ack: options.ack,
                credit: options.credit,
                hops_max: federation::limits::HOPS_DEFAULT,
                durable: options.durable,
                forced: options.force,
            };
            if *add { add_route(&ends, route, options, said) } else { remove_route(&ends, &route, options, said) }
        }
        Verb::Link { add, dest, src } => {
            let ends = Ends::of(dest, src, options)?;
            if *add { add_link(&ends, options, said) } else { remove_link(&ends, options, said) }
        }
        Verb::LinkList(dest) => list(dest, options, said, listing::links),
        Verb::RouteList(dest) => list(dest, options, said, listing::routes),
        Verb::Flush(dest) => flush(dest, options, said),
        Verb::Map(broker) => map::draw(&place(broker, Transport::Tcp)?, options, said),
        Verb::Apply(file) => apply::apply(file, options, said),
    }
}

/// The two brokers of a link.
struct Ends {
    /// The one that dials, and is asked.
    near: Place,
    /// The one that is dialled.
    far: Place,
}

impl Ends {
    fn of(dest: &str, src: &str, options: &Options) -> Result<Self, Failure> {
        let (near, far) = if options.src_local { (src, dest) } else { (dest, src) };
        Ok(Ends { near: place(near, Transport::Tcp)?, far: place(far, options.transport)? })
    }

    /// What tells a broker which link is meant.
    fn arguments(&self, options: &Options) -> Vec<(&'static str, Json)> {
        vec![
            ("vhost", Json::text(&self.near.url.vhost)),
            ("url", Json::text(&self.far.text)),
            ("dry_run", Json::Bool(options.dry_run)),
        ]
    }
}

/// Asks the broker that dials; without much ado if `harmless` is what is wrong and nobody wants to know.
fn order(
    ends: &Ends,
    command: &str,
    arguments: Vec<(&str, Json)>,
    harmless: &[&str],
    options: &Options,
    said: &mut Said,
) -> Result<(), Failure> {
    let mut conversation = begin(&ends.near, options)?;
    let outcome = conversation.ask(command, arguments);
    conversation.end();
    match outcome {
        Err(NoResult { kind: Reason::Said(code), .. }) if options.quiet && harmless.contains(&&*code) => Ok(()),
        Err(none) => Err(none.into()),
        Ok(result) => {
            if let Some(Json::List(warnings)) = result.get("warnings") {
                said.remarks.extend(warnings.iter().filter_map(|warning| match warning {
                    Json::Text(text) => Some(text.clone()),
                    _ => None,
                }));
            }
            if options.json {
                let _infallible = writeln!(said.out, "{}", result.line());
            }
            Ok(())
        }
    }
}

/// A line about what was done, for those who want one.
fn tell(options: &Options, said: &mut Said, what: String, done: &str) {
    if options.json {
        return;
    }
    if options.dry_run {
        let _infallible = writeln!(said.out, "{what} would be {done}");
    } else if options.verbose {
        let _infallible = writeln!(said.out, "{what} is {done}");
    }
}

fn add_route(ends: &Ends, route: RouteSpec, options: &Options, said: &mut Said) -> Result<(), Failure> {
    if route.kind == RouteKind::Dynamic && options.src_local {
        return refused(federation::PlanError::DynamicPush.to_string());
    }
    look_first(ends, Some(&route), options, said)?;
    let mut arguments = ends.arguments(options);
    arguments.extend(route_spec::written(&route));
    order(ends, "route-add", arguments, &["duplicate-route"], options, said)?;
    tell(options, said, format!("{} with route {}", named(ends), route.title()), "added");
    patience::running(ends, Some(&route), options)
}

fn remove_route(ends: &Ends, route: &RouteSpec, options: &Options, said: &mut Said) -> Result<(), Failure> {
    let mut arguments = ends.arguments(options);
    arguments.push(("del_empty_link", Json::Bool(options.del_empty_link)));
    let meant = route_spec::written(route);
    arguments.extend(meant.into_iter().filter(|(name, _)| ["exchange", "key", "queue", "direction"].contains(name)));
    order(ends, "route-delete", arguments, &["no-route", "no-link"], options, said)?;
    tell(options, said, format!("route {} of {}", route.title(), named(ends)), "removed");
    Ok(())
}

fn add_link(ends: &Ends, options: &Options, said: &mut Said) -> Result<(), Failure> {
    look_first(ends, None, options, said)?;
    let mut arguments = ends.arguments(options);
    arguments.push(("durable", Json::Bool(options.durable)));
    order(ends, "link-add", arguments, &[], options, said)?;
    tell(options, said, named(ends), "added");
    patience::running(ends, None, options)
}

fn remove_link(ends: &Ends, options: &Options, said: &mut Said) -> Result<(), Failure> {
    order(ends, "link-delete", ends.arguments(options), &["no-link"], options, said)?;
    tell(options, said, named(ends), "removed");
    Ok(())
}

fn named(ends: &Ends) -> String {
    format!("the link from {} to {}", ends.near.shown(), ends.far.shown())
}

/// Looks at the other broker, and at those around both, before a link is asked for. What cannot be reached from here may be
/// reached from there, and is only remarked. With force nothing is in the way but what force cannot mend.
fn look_first(ends: &Ends, route: Option<&RouteSpec>, options: &Options, said: &mut Said) -> Result<(), Failure> {
    let new = route.filter(|route| !matches!(route.kind, RouteKind::Queue { .. }));
    if options.force && new.is_none() {
        return Ok(());
    }
    let mut net = Net::new(options.timeout);
    let near = net.look(&ends.near);
    let far = net.look(&ends.far);
    if let Err(none) = net.outcome(near) {
        return refused(none.text.clone());
    }
    // The link's user at the other broker need not be an administrator there; whoever asks may be one.
    if net.outcome(far).is_err_and(|none| none.kind == Reason::NotAllowed) {
        net.look_again(far, &ends.near.url);
    }
    match net.outcome(far) {
        Ok(()) => {}
        Err(_) if options.force => {}
        // A link that is there keeps the login that it has.
        Err(none) if none.kind == Reason::NotAmqp || none.kind == Reason::Login && !net.is_linked(near, far) => {
            return refused(none.text.clone());
        }
        Err(none) => said.remarks.push(format!("{}; what it may be joined with is not looked at", none.text)),
    }
    if net.are_one(near, far) && !options.force {
        return refused(format!(
            "{} and {} are one broker, {}: it cannot have a route to itself",
            ends.near.shown(),
            ends.far.shown(),
            net.title(near)
        ));
    }
    let Some(route) = new else { return Ok(()) };
    net.explore(&ends.near.url);
    if !options.force {
        let unseen = net.unseen().into_iter().filter(|(at, _)| *at != net.the(far));
        said.remarks.extend(unseen.map(|(_, why)| format!("{why}; second paths through it are not seen")));
    }
    let (from, to) = if options.src_local { (near, far) } else { (far, near) };
    let key = match &route.kind {
        RouteKind::Static { key } => Some(key.to_string()),
        _ => None,
    };
    let leg = Leg { from, to, key, pushed: options.src_local, forced: route.forced };
    net.second_path(&route.exchange, leg).map_or(Ok(()), refused)
}

/// Asks a broker how its links stand.
fn list(
    dest: &str,
    options: &Options,
    said: &mut Said,
    listing: fn(&Place, &Json, bool) -> String,
) -> Result<(), Failure> {
    let dest = place(dest, Transport::Tcp)?;
    let found = links_of(&dest, options)?;
    if options.json {
        let _infallible = writeln!(said.out, "{}", found.page());
    } else {
        said.out.push_str(&listing(&dest, &found, options.verbose));
    }
    Ok(())
}

fn links_of(dest: &Place, options: &Options) -> Result<Json, NoResult> {
    let mut conversation = begin(dest, options)?;
    let found = conversation.ask("links", vec![("vhost", Json::text(&dest.url.vhost))]);
    conversation.end();
    found
}

fn flush(dest: &str, options: &Options, said: &mut Said) -> Result<(), Failure> {
    let near = place(dest, Transport::Tcp)?;
    let found = links_of(&near, options)?;
    let (mut removed, mut links) = (0, 0);
    for link in listing::list(&found, "links") {
        let far = Place::of(listing::text(link, "peer").to_owned()).map_err(Failure::Refused)?;
        let ends = Ends { near: near.clone(), far };
        let quietly = Options { json: false, ..options.clone() };
        for route in listing::list(link, "routes") {
            let route = route_spec::read(route).map_err(Failure::Refused)?;
            let kept = Options { del_empty_link: false, ..quietly.clone() };
            remove_route(&ends, &route, &kept, said)?;
            removed += 1;
        }
        if options.del_empty_link {
            remove_link(&ends, &quietly, said)?;
            links += 1;
        }
    }
    if options.json {
        let _infallible = writeln!(said.out, "{{\"routes\":{removed},\"links\":{links}}}");
    }
    Ok(())
}
