//! Invariants of docs/invariants.md that can be seen in the sources: where locks, clocks and chance are, and which test holds
//! each invariant.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files of the broker's crates that have locks, each with its reason. None of them is taken for a message that comes and
/// goes over sockets without a stamp.
const LOCKS: [(&str, &str); 20] = [
    ("crates/ib/src/cm.rs", "librdmacm's calls that must not overlap, while connections are made"),
    ("crates/ib/src/cm_id.rs", "the event channel of a connection, which may move to another one"),
    ("crates/ib/src/shared_receive_queue.rs", "what is dropped with the queue, at its end"),
    ("crates/link/src/sim/connection.rs", "a simulated link, whose two ends share it"),
    ("crates/link/src/tls/server.rs", "the certificates, at a handshake and at a reload"),
    ("crates/proxy/src/dialler.rs", "jobs of the dialling threads"),
    ("crates/reactor/src/sync.rs", "stand-ins in models, which are in no program"),
    ("crates/rsocket/src/close_queue.rs", "the closing threads' turn to take what is next"),
    ("crates/rsocket/src/poller.rs", "sockets that the polling thread watches"),
    ("crates/shard/src/connection_limits.rs", "counts of users and virtual hosts, when a connection opens"),
    ("crates/shard/src/cpu_latency.rs", "the request for processors that stay awake"),
    ("crates/shard/src/login_failures.rs", "failed logins by source, for a login by password"),
    ("crates/shard/src/model_ring.rs", "a stand-in in models, which is in no program"),
    ("crates/shard/src/password_verifier.rs", "jobs of the verifying threads"),
    (
        "crates/shard/src/shared_state.rs",
        "the window of stamps, for stamped messages of federation only; counters at the end",
    ),
    ("crates/shard/src/tokens.rs", "bootstrap tokens, at a login and at an RDMA connection"),
    ("crates/shard/src/vhost_bytes.rs", "bytes of virtual hosts with a limit, every 2 ms"),
    ("crates/verbs/src/card/listener_group.rs", "ports that listen at one address, when a connection is requested"),
    ("crates/verbs/src/port.rs", "a port, for each call over RDMA; only its own shard calls"),
    ("crates/verbs/src/sim/mod.rs", "the simulated network"),
];

/// Files that read a clock or sleep outside tests, each with its reason.
const CLOCKS: [(&str, &str); 23] = [
    ("crates/client/src/clock.rs", "a client waits by the clock"),
    ("crates/ctl/src/time_limit.rs", "a program that waits at a terminal"),
    ("crates/disk/src/file_disk.rs", "how long each write takes, twice a group, on the disk's own thread"),
    ("crates/gauge/src/clock.rs", "the clock of measurements"),
    ("crates/harrier/src/admin_server/links.rs", "rates of a link, for an administrator"),
    ("crates/harrier/src/admin_server/state_backup.rs", "how long nothing was written, for an administrator"),
    ("crates/harrier/src/broker.rs", "how long the start took"),
    ("crates/harrier/src/log.rs", "what repeats itself within a second"),
    ("crates/harrier/src/management/clock.rs", "times in answers, and how often shards are asked"),
    ("crates/harrier/src/rdma/self_test.rs", "how long each step of a check took"),
    ("crates/harrier/src/tls.rs", "whether a certificate has expired"),
    ("crates/link/src/tls/tls_link.rs", "the deadline of a blocking wait for bytes of TLS"),
    ("crates/management/src/server.rs", "when a login failed, when a session was used, and how long requests take"),
    ("crates/proxy/src/proxy.rs", "the moment from which totals count"),
    ("crates/reactor/src/event_loop.rs", "the reactor, where time enters"),
    ("crates/route/src/readiness.rs", "a program that waits at a terminal"),
    ("crates/shard/src/server.rs", "the moment from which all shards count"),
    ("crates/shard/src/test_clock.rs", "tests"),
    ("crates/shard/src/tokens.rs", "the age of a token when an RDMA connection is requested, once for each connection"),
    ("crates/sim/src/seed_runner.rs", "how long the program runs"),
    ("crates/sim/src/simulated_clock.rs", "an instant from which simulated time counts"),
    ("crates/verbs/src/card/card_device.rs", "the device's clock"),
    ("crates/verbs/src/sim/real_time.rs", "the clock of a simulated device"),
];

/// Files that draw from the system's random numbers.
const CHANCE: [(&str, &str); 2] = [
    ("crates/harrier/src/process.rs", "salts, passwords and the broker's identity"),
    ("crates/shard/src/server.rs", "the seed of each shard's generator"),
];

/// Crates that a message of a running broker passes, or that share the broker's threads.
const PATH_OF_A_MESSAGE: [&str; 14] = [
    "broker",
    "catalog",
    "durability",
    "federation",
    "ib",
    "link",
    "proxy",
    "queues",
    "reactor",
    "rsocket",
    "session",
    "shard",
    "slab",
    "verbs",
];

/// The sources of a crate without its tests and examples.
fn sources(below: &str) -> Vec<PathBuf> {
    let files = house::files(below, ".rs").into_iter();
    files.filter(|path| path.components().any(|part| part.as_os_str() == "src") && !is_tests(path)).collect()
}

/// The crates of the tools measure, and may look at clocks anywhere.
fn sources_of_the_broker() -> impl Iterator<Item = PathBuf> {
    const TOOLS: [&str; 5] = ["bench", "harness", "load", "trade", "trees"];
    let is_tool = |path: &PathBuf| TOOLS.iter().any(|name| path.starts_with(format!("crates/{name}")));
    sources("crates").into_iter().filter(move |path| !is_tool(path))
}

fn is_tests(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// The code of a file in front of its own tests.
fn code(path: &Path) -> String {
    let source = house::read(path);
    house::source::code(source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default())
}

fn check(found: BTreeSet<String>, listed: &[(&str, &str)], what: &str) {
    let listed: BTreeSet<_> = listed.iter().map(|(path, _)| (*path).to_owned()).collect();
    let more: Vec<_> = found.difference(&listed).collect();
    let fewer: Vec<_> = listed.difference(&found).collect();
    assert!(
        more.is_empty() && fewer.is_empty(),
        "{what}: in files that are not listed: {more:#?}, listed in vain: {fewer:#?}"
    );
}

#[test]
fn locks_are_only_where_they_are_listed() {
    const WORDS: [&str; 3] = ["Mutex", "RwLock", "Condvar"];
    let files = PATH_OF_A_MESSAGE.iter().flat_map(|name| sources(&format!("crates/{name}/src")));
    let found = files.filter(|path| house::source::identifiers(&code(path)).any(|(_, word)| WORDS.contains(&word)));
    check(found.map(|path| path.display().to_string()).collect(), &LOCKS, "locks");
}

#[test]
fn clocks_are_read_only_where_they_are_listed() {
    let found = sources_of_the_broker().filter(|path| code(path).contains("clippy::disallowed_methods"));
    check(found.map(|path| path.display().to_string()).collect(), &CLOCKS, "clocks");
}

#[test]
fn chance_is_drawn_only_where_it_is_listed() {
    const WORDS: [&str; 4] = ["OsRng", "getrandom", "ThreadRng", "from_os_rng"];
    let found = sources_of_the_broker()
        .filter(|path| house::source::identifiers(&code(path)).any(|(_, word)| WORDS.contains(&word)));
    check(found.map(|path| path.display().to_string()).collect(), &CHANCE, "random numbers of the system");
}

#[test]
fn what_the_program_prints_is_escaped() {
    /// Where the program writes to the terminal itself, each with its reason.
    const PRINTING: [(&str, &str); 6] = [
        ("crates/cli/src/terminal.rs", "what all commands print"),
        ("crates/harness/src/role_protocol.rs", "the reports of a role, in JSON, to the program that started it"),
        ("crates/harrier/src/log.rs", "every line of the log"),
        ("crates/harrier/src/main.rs", "the list of its commands, for who names none"),
        ("crates/report/src/progress.rs", "the line of progress, which has words of ours alone"),
        ("crates/report/src/stdout.rs", "what the tools print"),
    ];
    const CALLS: [&str; 4] = ["print!(", "println!(", "stdout()", "stderr()"];
    let prints = |path: &PathBuf| {
        let code = code(path);
        CALLS.iter().any(|call| code.contains(call))
    };
    const CRATES: [&str; 12] =
        ["admin", "bench", "cli", "ctl", "harness", "harrier", "load", "report", "route", "secrets", "trade", "trees"];
    let files = CRATES.iter().flat_map(|name| sources(&format!("crates/{name}/src")));
    let found = files.filter(prints);
    check(found.map(|path| path.display().to_string()).collect(), &PRINTING, "writes to the terminal");
}

#[test]
fn every_crate_that_peers_reach_names_its_limits() {
    /// Those that read no bytes of a peer and keep nothing for one.
    const WITHOUT: [&str; 6] = ["cli", "harrier", "house", "reactor", "report", "splitmix"];
    let mut crates: Vec<_> = house::files("crates", "Cargo.toml")
        .into_iter()
        .filter_map(|path| Some(path.components().nth(1)?.as_os_str().to_string_lossy().into_owned()))
        .filter(|name| !WITHOUT.contains(&name.as_str()))
        .filter(|name| !house::root().join(format!("crates/{name}/src/limits.rs")).exists())
        .collect();
    crates.sort();
    assert!(crates.is_empty(), "crates without limits.rs: {crates:?}");
}

/// The tests named in some Markdown, as links whose text is a name in backquotes and whose target is a file.
fn tests_named(text: &str) -> Vec<(String, String)> {
    let pieces = text.split("[`").skip(1);
    let links = pieces
        .filter_map(|piece| piece.split_once("`](").and_then(|(name, rest)| Some((name, rest.split_once(')')?.0))));
    links.map(|(name, file)| (name.to_owned(), file.to_owned())).collect()
}

#[test]
fn every_invariant_names_the_test_that_holds_it() {
    const PAGE: &str = "docs/invariants.md";
    let page = house::read(PAGE);
    let invariants: Vec<_> = page.split("\n- ").skip(1).collect();
    assert!(invariants.len() >= 10, "only {} invariants were found", invariants.len());
    for invariant in invariants {
        let title: String = invariant.chars().take(60).collect();
        let tests = tests_named(invariant);
        assert!(!tests.is_empty(), "{PAGE}: `{title}…` names no test");
        for (name, file) in tests {
            let file = Path::new(PAGE).with_file_name("").join(file);
            let file = file.display();
            assert!(house::root().join(file.to_string()).exists(), "{PAGE}: {file} does not exist");
            let is_there = house::read(file.to_string()).contains(&name);
            assert!(is_there, "{PAGE}: {file} has no test {name}");
        }
    }
}

/// Who picks a port that is free and has it bound later, and why it cannot bind port 0 and tell.
const PORTS_ARE_PICKED: [(&str, &str); 5] = [
    ("crates/harness/src/picked_port.rs", "listeners over RDMA, whose port many devices share"),
    ("tests/free-port", "brokers of others"),
    ("tests/rabbitmq/start", "RabbitMQ"),
    ("tests/mpi/run", "the daemons of Slurm, which name each other's ports in a file"),
    ("tests/management/clients", "Prometheus, which tells its port nowhere"),
];

#[test]
fn ports_are_picked_only_where_nothing_else_is_possible() {
    let name = concat!("free", "_port");
    let mut found: Vec<String> = Vec::new();
    for path in ["crates", "tests", "fuzz"].iter().flat_map(|folder| house::files(folder, "")) {
        let Ok(text) = std::fs::read_to_string(house::root().join(&path)) else { continue };
        let is_named = text.lines().any(|line| house::source::identifiers(line).any(|(_, word)| word == name));
        found.extend(is_named.then(|| path.display().to_string()));
    }
    let mut listed: Vec<_> = PORTS_ARE_PICKED.iter().map(|(path, _)| (*path).to_owned()).collect();
    listed.sort();
    assert_eq!(found.len(), listed.len(), "{found:?}, and listed are {listed:?}");
    found.sort();
    assert_eq!(found, listed, "left: who picks a port, right: who may");
}
