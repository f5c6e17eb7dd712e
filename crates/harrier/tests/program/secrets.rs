//! Passwords that nobody else sees: addresses from standard input and files, files that only their owner reads.

use super::ctl_commands::done as ctl_done;
use super::route::done;
use super::{BrokerProcess, TempFolder, harrier};
use crate::certificates::Authority;
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

/// Runs `harrier route` with this input; its status, standard output and standard error.
fn route(words: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = harrier();
    command.arg("route").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // It may end without having read it.
    let _told = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn set_mode(path: &str, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its owner may");
}

/// The first file of a folder by its name, if it has one.
fn first_file(folder: &str) -> Option<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    Some(entries.min()?.to_str().expect("UTF-8").to_owned())
}

/// What a broker logs until it is ready.
fn log_of_start(words: &[&str]) -> String {
    let mut command = harrier();
    let mut broker = command.arg("broker").args(words).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut log = String::new();
    for line in BufReader::new(broker.stderr.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        log.push_str(&line);
        log.push('\n');
        if line.contains("harrier broker is ready") {
            break;
        }
    }
    broker.kill().expect("it runs");
    broker.wait().expect("it ends");
    log
}

#[test]
fn route_reads_addresses_from_standard_input_and_files() {
    let folder = TempFolder::new("secrets-route");
    let (dest, src) =
        (BrokerProcess::start(&["--listen", "127.0.0.1:0"]), BrokerProcess::start(&["--listen", "127.0.0.1:0"]));
    let [near, far] = [&dest, &src].map(|broker| format!("guest/guest@{}", broker.address));
    let file = folder.path("source");
    std::fs::write(&file, format!("{far}\n")).expect("written");
    let from_file = format!("@{file}");
    set_mode(&file, 0o600);
    let both = format!("{near}\n{far}\n");
    let pushed = format!("{far}\n{near}\n");
    // DEST is the first line, whichever of them dials.
    for (words, input) in [
        (&["-q", "route", "add", "-", "-", "amq.direct", "a"][..], both.as_str()),
        (&["-q", "-s", "route", "add", "-", "-", "amq.direct", "b"], pushed.as_str()),
        (&["-q", "--dead-letter-exchange", "amq.fanout", "route", "add", "-", &from_file, "amq.direct", "c"], &near),
    ] {
        assert_eq!(route(words, input), (Some(0), String::new(), String::new()), "{words:?}");
    }
    let listed = done(&["--json", "route", "list", &dest.address]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let routes = listed["links"][0]["routes"].as_array().expect("routes");
    let of = |name: &str| routes.iter().map(|route| route[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("key"), ["a", "b", "c"]);
    assert_eq!(of("direction"), ["pull", "push", "pull"]);
    assert_eq!(of("dead_letter_exchange")[2], "amq.fanout");
    assert_eq!(of("given_up"), [0, 0, 0]);
    // A file that others can read works, with a warning.
    set_mode(&file, 0o644);
    let (status, _, stderr) = route(&["-q", "link", "add", "-", &from_file], &near);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("others can read it, and it has passwords (mode 0644"), "{stderr}");
    for (words, input, why) in [
        (&["link", "add", "-", "-"][..], near.as_str(), "standard input: there is no address"),
        (&["link", "add", "-", "@/nowhere"], &near, "/nowhere: cannot be read"),
        (&["link", "add", "-", "-"], "http://a:secret@h\n", "the address: expected amqp://"),
        (
            &["--dead-letter-exchange=x", "--ack=none", "route", "add", "-", "-", "x", "k"],
            &both,
            "without acknowledgements",
        ),
        (&["--dead-letter-exchange=x", "queue", "add", "-", "-", "x", "q"], &both, "a queue route has none"),
    ] {
        let (status, _, stderr) = route(words, input);
        assert!(status == Some(2) && stderr.contains(why) && !stderr.contains("secret"), "{words:?}: {stderr}");
    }
}

#[test]
fn a_broker_warns_of_files_with_passwords_that_others_can_read() {
    let folder = TempFolder::new("secrets-broker");
    let (config, state) = (folder.path("harrier.toml"), folder.path("state"));
    let [plan, parameters] = ["federation.toml", "parameters.json"].map(|file| folder.path(&format!("state/{file}")));
    let authority = Authority::new("secrets-broker");
    let [server, api] = ["server", "api"].map(|name| authority.issue(name, &["127.0.0.1"]));
    let shown = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let [certificate, key, api_certificate, api_key] =
        [&server.certificate, &server.key, &api.certificate, &api.key].map(|path| shown(path));
    std::fs::create_dir(&state).expect("a folder");
    // An administrator, who may send requests and get answers.
    let user = "[[user]]\nname = \"u\"\npassword = \"secret\"\ntags = [\"administrator\"]\n[[permission]]\nuser = \"u\"\n\
                vhost = \"/\"\nconfigure = \".*\"\nwrite = \".*\"\nread = \".*\"\n";
    std::fs::write(&config, user).expect("written");
    std::fs::write(&plan, "# nothing\n").expect("written");
    let words = [
        &["--listen", "127.0.0.1:0", "--config", &config, "--state", &state][..],
        &["--tls-certificates", &certificate, "--tls-keys", &key],
        &["--management-tls-certificates", &api_certificate, "--management-tls-keys", &api_key],
    ];
    let words = words.concat();
    // The files of the store are nobody else's from the first start on, and there are some when a broker has stopped in order.
    let first = BrokerProcess::start(&words);
    let root = format!("amqp://u:secret@{}", first.address);
    ctl_done(&root, &["set_parameter", "federation-upstream", "up", "{\"uri\": \"amqp://u:secret@h\"}"]);
    first.signal(Signal::TERM);
    let (status, log) = first.end();
    assert_eq!(status, Some(0), "{log}");
    let log = log_of_start(&words);
    assert!(!log.contains("it has messages or definitions"), "{log}");
    for (mode, is_warned) in [(0o644, true), (0o600, false)] {
        [&config, &plan, &parameters, &key, &api_key].into_iter().for_each(|file| set_mode(file, mode));
        // Each life makes and removes some; the journal of definitions always has one.
        let names = ["definitions", "log"].into_iter();
        let segments: Vec<String> =
            names.filter_map(|name| first_file(&folder.path(&format!("state/{name}")))).collect();
        assert!(segments[0].contains("definitions"), "{segments:?}");
        segments.iter().for_each(|segment| set_mode(segment, mode));
        let log = log_of_start(&words);
        for segment in &segments {
            let warning = format!("{segment}: others can read it, and it has messages or definitions (mode 0644");
            assert_eq!(log.contains(&warning), is_warned, "mode {mode:o}: {log}");
        }
        for (file, content) in [
            ("harrier.toml", "passwords"),
            ("federation.toml", "passwords"),
            ("parameters.json", "passwords"),
            (&key, "private keys"),
            (&api_key, "private keys"),
        ] {
            let warning = format!("{file}: others can read it, and it has {content} (mode 0644");
            assert_eq!(log.contains(&warning), is_warned, "mode {mode:o}: {log}");
        }
    }
    std::fs::write(&plan, "").expect("emptied");
    let broken = harrier().arg("broker").args(words).output().expect("it ends");
    let told = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(broken.status.code() == Some(1) && told.contains("federation.toml: it is empty"), "{told}");
}
