//! Changes made by `harrier ctl` last, beside what the configuration states; which of the two counts, and how that is told.

use super::ctl_commands::{ctl, done};
use super::{BrokerProcess, TempFolder};
use rustix::process::Signal;

const CONFIG: &str = r#"
[[vhost]]
name = "/"
max_queues = 50
[[user]]
name = "root"
password = "r00t"
tags = ["administrator"]
[[permission]]
user = "root"
vhost = "/"
configure = ".*"
write = ".*"
read = ".*"
[[policy]]
vhost = "/"
name = "stated"
pattern = "^s"
definition = { max-length = 1 }
"#;

/// A broker with a configuration file and a state folder, which are the same after a restart.
struct KeptBroker {
    /// It ends before its folder is removed.
    process: Option<BrokerProcess>,
    folder: TempFolder,
}

impl KeptBroker {
    fn new(name: &str, config: &str) -> Self {
        let mut broker = KeptBroker { process: None, folder: TempFolder::new(name) };
        broker.configure(config);
        broker.start();
        broker
    }

    fn configure(&self, config: &str) {
        std::fs::write(self.folder.path("harrier.toml"), config).expect("written");
    }

    fn start(&mut self) {
        let (config, state) = (self.folder.path("harrier.toml"), self.folder.path("state"));
        let words = ["--listen", "127.0.0.1:0", "--shards", "1", "--config", &config, "--state", &state];
        let api = ["--management-listen", "none", "--metrics-listen", "none"];
        self.process = Some(BrokerProcess::start(&[&words[..], &api].concat()));
    }

    fn restart(&mut self) {
        let process = self.process.take().expect("it runs");
        process.signal(Signal::TERM);
        let (status, log) = process.end();
        assert_eq!(status, Some(0), "{log}");
        self.start();
    }

    /// Reads the configuration again.
    fn reload(&self, config: &str) {
        self.configure(config);
        let process = self.process.as_ref().expect("it runs");
        process.signal(Signal::HUP);
        process.await_line("the configuration was reloaded");
    }

    fn url(&self) -> String {
        format!("amqp://root:r00t@{}", self.process.as_ref().expect("it runs").address)
    }

    fn done(&self, words: &[&str]) -> String {
        done(&self.url(), words)
    }
}

/// What is made at run time, and the list that shows it.
const MADE: &[(&[&str], &[&str], &str)] = &[
    (
        &["add_vhost", "shop", "--description", "x"],
        &["list_vhosts", "name", "description", "configured"],
        "shop\tx\tfalse\n",
    ),
    (&["add_user", "ada", "s3cret"], &["list_users", "user", "configured"], "ada\tfalse\n"),
    (&["set_user_tags", "ada", "management"], &["list_users"], "ada\t[management]\n"),
    (
        &["set_permissions", "-p", "shop", "ada", "a", "b", "c"],
        &["list_permissions", "-p", "shop", "user", "configure", "write", "read", "configured"],
        "ada\ta\tb\tc\tfalse\n",
    ),
    (
        &["set_topic_permissions", "-p", "shop", "ada", "amq.topic", "b", "c"],
        &["list_user_topic_permissions", "ada", "exchange", "configured"],
        "amq.topic\tfalse\n",
    ),
    (
        &["set_policy", "made", "^m", "{\"max-length\": 2}"],
        &["list_policies", "name", "definition", "configured"],
        "made\t{\"max-length\":2}\tfalse\n",
    ),
    (
        &["set_operator_policy", "op", "^m", "{\"max-length\": 2}"],
        &["list_operator_policies", "name", "configured"],
        "op\tfalse\n",
    ),
    (
        &["set_parameter", "federation-upstream", "up", "{\"uri\": \"amqp://h\"}"],
        &["list_parameters", "name", "value"],
        "up\t{\"uri\":\"amqp://h\"}\n",
    ),
    (&["set_global_parameter", "colour", "\"blue\""], &["list_global_parameters"], "colour\tblue\n"),
    (
        &["set_vhost_limits", "-p", "shop", "{\"max-queues\": 3}"],
        &["list_vhost_limits", "-p", "shop"],
        "shop\t{\"max-queues\":3}\n",
    ),
    (&["set_user_limits", "ada", "{\"max-channels\": 3}"], &["list_user_limits"], "ada\t{\"max-channels\":3}\n"),
    (&["create_queue", "m", "--durable"], &["list_queues", "name", "policy"], "m\tmade\n"),
];

#[test]
fn what_is_made_at_run_time_is_there_after_a_restart() {
    let mut broker = KeptBroker::new("ctl-restart", CONFIG);
    for (words, ..) in MADE {
        assert_eq!(broker.done(words), "", "{words:?}");
    }
    for _ in 0..2 {
        for (words, list, expect) in MADE {
            let shown = broker.done(list);
            assert!(shown.contains(expect), "{words:?}: {shown}");
        }
        assert!(broker.done(&["store"]).starts_with("log "));
        broker.restart();
    }
    // The configuration is read again, with another policy: what was made at run time stays.
    broker.reload(&CONFIG.replace("max-length = 1", "max-length = 7"));
    let policies = broker.done(&["list_policies", "name", "definition", "configured"]);
    for expect in ["stated\t{\"max-length\":7}\ttrue\n", "made\t{\"max-length\":2}\tfalse\n"] {
        assert!(policies.contains(expect), "{policies}");
    }
    broker.reload(CONFIG.split_once("[[policy]]").expect("a policy").0);
    let policies = broker.done(&["list_policies", "name"]);
    assert_eq!(policies, "name\nmade\n");
}

#[test]
fn what_the_configuration_states_counts_again_after_a_restart_and_that_is_told() {
    let mut broker = KeptBroker::new("ctl-stated", CONFIG);
    let stated = [
        ("list_users", "user", "root\ttrue\n"),
        ("list_vhosts", "name", "/\ttrue\n"),
        ("list_permissions", "user", "root\ttrue\n"),
        ("list_policies", "name", "stated\ttrue\n"),
        ("list_vhost_limits", "vhost", "/\ttrue\n"),
    ];
    for (list, column, expect) in stated {
        assert!(broker.done(&[list, column, "configured"]).contains(expect), "{list}");
    }
    let changes: [(&[&str], &str); 4] = [
        (&["set_policy", "stated", "^s", "{\"max-length\": 9}"], "policies, vhost '/', name 'stated'"),
        (&["set_permissions", "root", ".*", ".*", "^none$"], "permissions, user 'root', vhost '/'"),
        (&["set_vhost_limits", "{\"max-queues\": 9}"], "vhost limits, vhost '/'"),
        (&["set_user_tags", "root", "administrator", "monitoring"], "users, name 'root'"),
    ];
    for (words, what) in changes {
        let result = ctl(&broker.url(), words, "");
        assert_eq!((result.status, &*result.stdout), (0, ""), "{result:?}");
        let note = format!("note: the configuration states this too ({what}): when the broker starts again");
        assert!(result.stderr.contains(&note), "{words:?}: {result:?}");
        assert_eq!(ctl(&broker.url(), &[&["-q"], words].concat(), "").stderr, "", "{words:?}");
    }
    let shown = |broker: &KeptBroker| {
        let lists: [&[&str]; 4] = [
            &["list_policies", "definition"],
            &["list_permissions", "read"],
            &["list_vhost_limits", "limits"],
            &["list_users", "tags"],
        ];
        lists.map(|words| broker.done(words).lines().nth(1).expect("a row").to_owned())
    };
    assert_eq!(shown(&broker), ["{\"max-length\":9}", "^none$", "{\"max-queues\":9}", "[administrator, monitoring]"]);
    broker.restart();
    assert_eq!(shown(&broker), ["{\"max-length\":1}", ".*", "{\"max-queues\":50}", "[administrator]"]);
}
