//! `harrier topology plan`: its output, its errors, and the use of its routes and its tree by other commands.

use super::{BrokerProcess, TempFolder, harrier, output, route};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

/// A profile of one host: linear costs, measured up to 16 consumers, 8 brokers and 5 levels.
fn profile(folder: &TempFolder) -> String {
    let known = |us: f64| json!({"value": us, "low": us * 0.9, "high": us * 1.1});
    let of = |bytes: u64, factor: f64| {
        json!({"message_bytes": bytes, "basis": "processor", "take_in_us": known(2.0 * factor), "relay_in_us": known(2.5 * factor),
            "copy_to_consumer_us": known(0.5 * factor), "copy_to_broker_us": known(0.7 * factor),
            "per_level_ratio": {"value": 1.0, "low": 1.0, "high": 1.0}, "first_latency_us": known(60.0),
            "hop_latency_us": known(30.0), "copy_latency_us": known(2.0), "wire_bytes_per_copy": bytes as f64 + 200.0,
            "reach": {"consumers": 16, "brokers": 8, "levels": 5}})
    };
    let profile = json!({"schema": "harrier-profile", "version": 1, "sharing": "one_host", "cores": 2, "link_bits_per_s": null,
        "made_by": "a test", "observations": [], "costs": [{"transport": "tcp", "ack": "none", "sizes": [of(64, 1.0), of(4096, 3.0)]}]});
    let file = folder.path("profile.json");
    std::fs::write(&file, profile.to_string()).expect("a file");
    file
}

/// The output of a successful plan.
fn planned(words: &[&str]) -> String {
    let output = output(&[&["topology", "plan"], words].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{words:?}");
    text(&output.stdout)
}

/// The error text of a refused plan, with status 2 and an empty standard output.
fn refused(words: &[&str]) -> String {
    let output = output(&[&["topology", "plan"], words].concat());
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_plan_names_trees_a_bottleneck_and_routes() {
    let folder = TempFolder::new("plan");
    let file = profile(&folder);
    let text = planned(&["-n", "32", "-m", "64", "--profile", &file]);
    for part in [
        "chosen: B-",
        " --sizes 64 --transport tcp --ack none\n",
        "# slowest: ",
        "us a message",
        "harrier route --ack none dynamic add b1.0 b0 amq.fanout",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let document: Value =
        serde_json::from_str(&planned(&["-n", "32", "-m", "64", "--profile", &file, "--json"])).expect("JSON");
    let front = document["front"].as_array().expect("trees");
    let rates: Vec<f64> = front.iter().map(|one| one["stream_per_s"]["value"].as_f64().expect("a rate")).collect();
    assert!(rates.windows(2).all(|pair| pair[0] >= pair[1]) && rates.len() > 3, "{rates:?}");
    assert!(front.iter().any(|one| one["tree"] == document["chosen"]["tree"]), "{document}");
    let routes = document["layout"]["routes"].as_array().expect("routes").len() as u64;
    assert_eq!(Some(routes + 1), document["chosen"]["brokers"].as_u64());
    // Every row is a tree of the front.
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("B-")).collect();
    assert_eq!(rows.len(), front.len(), "{text}");
    // The time of one broker with sixteen consumers: 2 + 16 * 0.5.
    let one: Value = serde_json::from_str(&planned(&[
        "-n",
        "16",
        "-m",
        "64",
        "--objective",
        "brokers",
        "--profile",
        &file,
        "--json",
    ]))
    .expect("JSON");
    assert_eq!(one["chosen"]["tree"], "B-16C");
    assert!((one["chosen"]["stream_per_s"]["value"].as_f64().expect("a rate") - 1e5).abs() < 1.0, "{one}");
}

#[test]
fn what_was_not_measured_is_refused_and_what_cannot_be_is_named() {
    let folder = TempFolder::new("plan-refused");
    let file = profile(&folder);
    for (words, why) in [
        (vec!["-n", "0", "-m", "64"], "--consumers 0: a tree without consumers delivers nothing"),
        (
            vec!["-n", "16", "-m", "8K"],
            "has no costs of messages of 8192 bytes: messages of 64 to 4096 bytes were measured",
        ),
        (vec!["-n", "16", "-m", "64", "--ack", "confirm"], "has no costs over tcp with ack confirm"),
        (vec!["-n", "100", "-m", "64", "--max-brokers", "2"], "--max-brokers 2: 8 brokers are needed at least"),
        (vec!["-n", "16", "-m", "64", "--min-rate", "1e9"], "--min-rate 1000000000: no tree is predicted to be faster"),
        (vec!["-n", "1000000", "-m", "64"], "5 levels, 8 brokers below a broker and 16 consumers"),
    ] {
        let told = refused(&[&words[..], &["--profile", &file]].concat());
        assert!(told.contains(why), "{words:?}: {told}");
    }
    let text = planned(&["-n", "1000000", "-m", "8K", "--profile", &file, "--extrapolate"]);
    assert!(
        text.contains("EXTRAPOLATED: this size was not measured") && text.contains("EXTRAPOLATED: size, "),
        "{text}"
    );
    let between = planned(&["-n", "16", "-m", "1K", "--profile", &file]);
    assert!(between.contains("interpolated between 64 and 4096 bytes"), "{between}");
    let other = folder.path("other.json");
    std::fs::write(&other, r#"{"schema": "harrier-profile", "version": 9}"#).expect("a file");
    let told = refused(&["-n", "16", "-m", "64", "--profile", &other]);
    assert!(told.contains("version 9") && told.contains("calibrate again"), "{told}");
}

#[test]
fn the_routes_of_a_plan_join_brokers() {
    let folder = TempFolder::new("plan-routes");
    let file = profile(&folder);
    let start = |name: &str| {
        let state = folder.path(name);
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1", "--state", &state, "--cluster-name", name])
    };
    let brokers = ["root", "left", "right"].map(start);
    let (hosts, routes) = (folder.path("hosts"), folder.path("routes.toml"));
    let listed: String = brokers.iter().map(|broker| format!("{}\n", broker.address)).collect();
    std::fs::write(&hosts, format!("# the root first\n{listed}")).expect("a file");
    let text = planned(&["-n", "32", "-m", "64", "--profile", &file, "--hosts", &hosts, "--routes", &routes]);
    assert!(text.contains("chosen: B-2B-32C "), "{text}");
    assert!(text.contains(&format!("dynamic add {} {} amq.fanout", brokers[2].address, brokers[0].address)), "{text}");
    let made = route::done(&["apply", &routes]);
    assert!(made.contains("b1.0") && made.contains("b1.1"), "{made}");
    assert_eq!(route::done(&["apply", &routes]), "nothing is different\n");
    let told = refused(&["-n", "100", "-m", "64", "--profile", &file, "--hosts", &hosts]);
    assert!(told.contains("--hosts with 3 of them: 8 brokers are needed at least"), "{told}");
}

#[test]
fn the_tree_of_a_plan_runs() {
    let folder = TempFolder::new("plan-runs");
    let file = profile(&folder);
    // Its leaves have three and two consumers.
    for form in [&["--json"][..], &[]] {
        let plan = planned(
            &[&["-n", "5", "-m", "64", "--min-rate", "250000", "--objective", "brokers", "--profile", &file], form]
                .concat(),
        );
        let words = ["topology", "run", "-", "--messages", "200"];
        let mut run = harrier();
        run.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().expect("the program starts");
        run.stdin.take().expect("a pipe").write_all(plan.as_bytes()).expect("it reads");
        let output = run.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("# harrier topology run B-2B-5C: 3 brokers, 5 consumers"), "{plan}: {text}");
        let errors = String::from_utf8_lossy(&output.stderr);
        // A debug build says only that it is one.
        let whole = text.contains("# every consumer got every message once and in order (5 consumers)");
        assert!(whole || errors.contains("64 bytes: this program was built without optimisation"), "{text}{errors}");
        assert_eq!(text.lines().filter(|line| line.starts_with("64 ")).count(), 1, "the plan's size alone: {text}");
    }
}

#[test]
fn the_paper_s_tables_are_predicted_from_its_others() {
    let text = planned(&["--paper"]);
    assert_eq!(text.matches("(the best within 10 %: reached)").count(), 7, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("B-")).count(), 35, "{text}");
}
