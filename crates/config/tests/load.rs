//! The promises of the configuration, as tables: what sets what, what overrides what, what is refused and where.

use config::{BrokerConfig, BrokerInvocation, ConfigError, PasswordConfig, SETTINGS};
use std::ffi::OsString;
use std::path::PathBuf;

/// A file for one check, gone when dropped.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("harrier-config-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        TemporaryFile(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the file is there");
    }
}

/// `words` are separated by spaces; `''` is an empty one.
fn load(words: &str, variables: &[(&str, &str)], default_file: &str) -> Result<BrokerInvocation, ConfigError> {
    let words = words.split_whitespace().map(|word| OsString::from(if word == "''" { "" } else { word }));
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    BrokerConfig::load_with(words, variables, default_file.as_ref())
}

fn config(words: &str, variables: &[(&str, &str)], file: &str) -> BrokerConfig {
    match load(words, variables, file) {
        Ok(BrokerInvocation::Run(config) | BrokerInvocation::Print(config)) => *config,
        other => panic!("{other:?}"),
    }
}

/// Loads with a file of that text, named for the test. Errors have `FILE` for its path.
fn load_file(name: &str, text: &[u8]) -> Result<BrokerConfig, String> {
    let file = TemporaryFile::new(name, text);
    match load("", &[], &file.0.to_string_lossy()) {
        Ok(BrokerInvocation::Run(config)) => Ok(*config),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => {
            assert!(!error.is_usage(), "{error}");
            Err(error.to_string().replace(&*file.0.to_string_lossy(), "FILE"))
        }
    }
}

/// The line of a setting in the printed configuration.
fn value(config: &BrokerConfig, name: &str) -> String {
    let toml = config.to_bare_toml();
    let line = toml.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    line.unwrap_or_else(|| panic!("{name} is printed")).to_owned()
}

#[test]
fn nothing_configured_is_the_default() {
    let config = config("", &[], "/nowhere");
    assert_eq!(config.listen, ["127.0.0.1:5672"]);
    assert_eq!((config.frame_bytes_max, config.channel_max, config.heartbeat_s), (131072, 2047, 60));
    assert_eq!(config.message_bytes_max, 134217728);
    assert_eq!(config.tcp_congestion, None);
    assert_eq!(config.vhosts[0].name, "/");
    assert_eq!(&*config.users[0].name, "guest");
    assert!(config.users[0].password == PasswordConfig::Plain("guest".into()));
    assert_eq!((&*config.permissions[0].user, &*config.permissions[0].configure), ("guest", ".*"));
    assert_eq!(config.loopback_users, ["guest"]);
    assert!(config.file.is_none() && config.warnings.is_empty());
}

#[test]
fn every_setting_is_set_by_every_source() {
    for setting in SETTINGS {
        let (text, toml) = match setting.name {
            "listen" | "management_listen" | "metrics_listen" => ("[::1]:1", "[\"[::1]:1\"]"),
            "loopback_users" | "management_hosts" => ("me", "[\"me\"]"),
            "tls_certificates" | "tls_keys" | "management_tls_certificates" | "management_tls_keys" => {
                ("a.pem", "[\"a.pem\"]")
            }
            "tls_client_ca"
            | "tls_client_crl"
            | "definitions"
            | "state"
            | "cluster_name"
            | "management_path_prefix" => ("a.pem", "\"a.pem\""),
            "tls_version_min" => ("1.3", "\"1.3\""),
            "tls_client_certificates" => ("required", "\"required\""),
            "tls_login_from" => ("common_name", "\"common_name\""),
            "tls_login_san_type" => ("email", "\"email\""),
            "rdma_token" => ("allow", "\"allow\""),
            "rdma_poll" => ("busy", "\"busy\""),
            "rdma_credits" => ("70", "70"),
            "log_level" => ("trace", "\"trace\""),
            "log_format" => ("json", "\"json\""),
            "tcp_congestion" => ("bbr", "\"bbr\""),
            "tcp_nodelay" => ("false", "false"),
            "memory_limit" => ("33%", "\"33%\""),
            "frame_bytes_max" | "session_output_bytes_max" => ("5000", "5000"),
            "rdma_frame_bytes_max" | "rdma_receive_buffer_bytes" => ("5000", "5000"),
            "queue_types_as_classic" | "store_lose_damaged" | "connections_follow_queues" => ("true", "true"),
            "store_sync" => ("never", "\"never\""),
            "segment_bytes" | "store_scrub_rate" => ("4194304", "4194304"),
            "idle_processors" => ("poll", "\"poll\""),
            _ => ("7", "7"),
        };
        assert_ne!(setting.default_value().to_toml(), toml, "{}", setting.name);
        let file =
            TemporaryFile::new(&format!("every-{}", setting.name), format!("{} = {toml}", setting.name).as_bytes());
        let path = file.0.to_string_lossy().into_owned();
        let with_underscores = format!("--{}", setting.name);
        let options = [
            format!("{} {text}", setting.option()),
            format!("{}={text}", setting.option()),
            format!("{with_underscores}={text}"),
        ];
        for words in options {
            let config = config(&words, &[], "/nowhere");
            assert_eq!(value(&config, setting.name), toml, "{words}");
            assert_eq!(config.origin(setting.name).to_string(), setting.option());
        }
        let by_variable = config("", &[(&setting.variable(), text)], "/nowhere");
        assert_eq!(value(&by_variable, setting.name), toml, "{}", setting.variable());
        assert_eq!(by_variable.origin(setting.name).to_string(), setting.variable());
        let by_file = config("", &[], &path);
        assert_eq!(value(&by_file, setting.name), toml);
        assert_eq!(by_file.origin(setting.name).to_string(), format!("{path}:1"));
    }
}

#[test]
fn a_flag_without_a_value_is_set() {
    let set = |words: &str| config(words, &[], "/nowhere").store_lose_damaged;
    assert!(!set("") && set("--store-lose-damaged") && set("--store-lose-damaged --shards 1"));
    assert!(set("--store-lose-damaged true") && !set("--store-lose-damaged=false"));
}

#[test]
fn without_a_folder_nothing_is_kept() {
    for (words, folder) in [("", None), ("--state none", None), ("--state /var/x", Some("/var/x"))] {
        assert_eq!(config(words, &[], "/nowhere").state_folder(), folder, "{words}");
    }
}

#[test]
fn the_free_space_to_leave_depends_on_segments_and_threads_unless_it_is_configured() {
    let limit = |words: &str, shards| config(words, &[], "/nowhere").disk_free_limit_bytes(shards);
    assert_eq!((limit("", 1), limit("", 16)), (1 << 30, 4 << 30));
    assert_eq!((limit("--segment-bytes 1GiB", 1), limit("--disk-free-limit 3MiB", 16)), (4 << 30, 3 << 20));
}

#[test]
fn one_source_overrides_another() {
    let file = TemporaryFile::new("override", b"shards = 1\nspin_us = 1\nbacklog = 1\nlisten = [\"h:1\", \"h:2\"]");
    let path = file.0.to_string_lossy().into_owned();
    let variables = [("HARRIER_SHARDS", "2"), ("HARRIER_SPIN_US", "2"), ("HARRIER_LISTEN", "h:3, h:4,")];
    let all = config("--shards 3", &variables, &path);
    assert_eq!((all.shards, all.spin_us, all.backlog, all.heartbeat_s), (3, 2, 1, 60));
    assert_eq!(all.listen, ["h:3", "h:4"]);
    assert_eq!(config("", &[], &path).listen, ["h:1", "h:2"]);
    assert_eq!(config("--listen h:5 --shards 1 --listen=h:6 --shards 9", &[], &path).listen, ["h:5", "h:6"]);
    assert_eq!(config("--shards 1 --shards 9", &[], &path).shards, 9);
    assert!(config("--loopback-users ''", &[], &path).loopback_users.is_empty());
    assert!(config("", &[("HARRIER_LOOPBACK_USERS", "")], &path).loopback_users.is_empty());
    // The file may be named by each; the command line wins.
    let named = config(&format!("--config {path}"), &[("HARRIER_CONFIG", "/nowhere/else")], "/nowhere");
    assert_eq!(named.file.as_deref(), Some(file.0.as_path()));
    assert_eq!(config("", &[("HARRIER_CONFIG", &path)], "/nowhere").shards, 1);
    // Container platforms make such variables for a service called harrier.
    let odd = config("", &[("HARRIER_SERVICE_HOST", "10.0.0.1"), ("HOME", "/")], "/nowhere");
    assert_eq!(odd.warnings, ["HARRIER_SERVICE_HOST is no setting, and ignored"]);
}

#[test]
fn what_the_command_line_refuses() {
    let cases = [
        ("--shards", "--shards: it needs a value"),
        ("--listen --shards 2", "--listen: it needs a value"),
        (
            "--segment-bytes 4194303",
            "--segment-bytes: 4194303 is out of range; it takes bytes from 4 MiB to 1 GiB, units allowed",
        ),
        ("--shards x", "--shards: 'x' is no whole number; it takes a number from 0 to 256"),
        ("--shards -1", "--shards: '-1' is negative; it takes a number from 0 to 256"),
        ("--shards=257", "--shards: 257 is out of range; it takes a number from 0 to 256"),
        (
            "--frame_bytes_max 4095",
            "--frame-bytes-max: 4095 is out of range; it takes bytes from 4 KiB to 16 MiB, units allowed",
        ),
        ("--memory-limit 0%", "--memory-limit: '0%' is no percentage from 1% to 100%"),
        (
            "--memory-limit 2XiB",
            "--memory-limit: '2XiB' is no size; sizes are bytes, or whole numbers of KiB, MiB, GiB, kB, MB, GB",
        ),
        (
            "--queue-memory-share 101",
            "--queue-memory-share: 101 is out of range; it takes a percentage from 1% to 100%",
        ),
        ("--log-format xml", "--log-format: 'xml' is not one of text, json"),
        ("--listen ''", "--listen: at least 1 is needed"),
        ("--shard 2", "--shard: unknown option; did you mean --shards?"),
        ("--frame-max=1", "--frame-max: unknown option"),
        ("--vhost /", "--vhost: unknown option"),
        ("broker", "'broker' is no option; options begin with --"),
        ("--help=1", "--help: it takes no value"),
        ("--help --shards x", "--shards: 'x' is no whole number; it takes a number from 0 to 256"),
        (
            "--shards x --spin-us 1001",
            "--shards: 'x' is no whole number; it takes a number from 0 to 256\n--spin-us: 1001 is out of range; it takes microseconds from 0 to 1000",
        ),
    ];
    for (words, expect) in cases {
        let error = load(words, &[], "/nowhere").expect_err(words);
        assert_eq!(error.to_string(), expect, "{words}");
        assert!(error.is_usage());
    }
    let error = load("", &[("HARRIER_SHARDS", "")], "/nowhere").expect_err("an empty number");
    assert_eq!(error.to_string(), "HARRIER_SHARDS: '' is no whole number; it takes a number from 0 to 256");
    assert!(!error.is_usage());
    let error = load("--config /nowhere/h.toml", &[], "/nowhere").expect_err("no file");
    assert_eq!(error.to_string(), "/nowhere/h.toml: there is no such file");
    let error = load("--config=/", &[], "/nowhere").expect_err("a folder");
    assert!(error.to_string().starts_with("/: cannot be read: "), "{error}");
}

#[test]
fn what_a_file_refuses() {
    let cases: &[(&str, &str)] = &[
        ("shards = 4\nshard = 4", "FILE:2: shard: unknown setting; did you mean shards?"),
        ("\n\nframe-bytes-max = 4096", "FILE:3: frame-bytes-max: unknown setting; did you mean frame_bytes_max?"),
        ("colour = 4096", "FILE:1: colour: unknown setting"),
        ("shards = \"4\"", "FILE:1: shards: an integer is needed, not a string"),
        ("shards = 1.5", "FILE:1: shards: an integer is needed, not a float"),
        ("shards = -1", "FILE:1: shards: '-1' is negative; it takes a number from 0 to 256"),
        ("shards = 0x101", "FILE:1: shards: 257 is out of range; it takes a number from 0 to 256"),
        ("listen = \"h:1\"", "FILE:1: listen: a list of strings is needed, not a string"),
        ("listen = []", "FILE:1: listen: at least 1 is needed"),
        ("listen = [1]", "FILE:1: listen: a list of strings is needed"),
        ("listen = [\"\"]", "FILE:1: listen: an item is empty"),
        ("log_level = true", "FILE:1: log_level: a string is needed, not a boolean"),
        ("memory_limit = true", "FILE:1: memory_limit: an integer or a string is needed, not a boolean"),
        ("tcp_congestion = \"a\\nb\"", "FILE:1: tcp_congestion: control characters have no place in it"),
        ("tcp_nodelay = \"true\"", "FILE:1: tcp_nodelay: a boolean is needed, not a string"),
        ("tcp_nodelay = 1", "FILE:1: tcp_nodelay: a boolean is needed, not an integer"),
        (
            "send_buffer_bytes = \"2GiB\"",
            "FILE:1: send_buffer_bytes: 2GiB is out of range; it takes bytes from 0 B to 1 GiB, units allowed",
        ),
        ("shards = 1\nshards = 2", "FILE:2: duplicate key"),
        (
            "[broker]\nshards = 1",
            "FILE:1: broker: a table of that name is unknown; settings stand alone, above all tables",
        ),
        ("shards = 1\nlisten = [", "FILE:2: unclosed array, expected `]`"),
        ("vhost = \"/\"", "FILE:1: vhost: it is written [[vhost]], once for each, and not as a string"),
        ("[vhost]\nname = \"/\"", "FILE:1: vhost: it is written [[vhost]], once for each, and not as a table"),
        ("[[vhost]]\n", "FILE:1: vhost.name: it is missing"),
        ("[[vhost]]\nname = 1", "FILE:2: vhost.name: a string is needed, not an integer"),
        ("[[vhost]]\nname = \"\"", "FILE:2: vhost.name: a name is not empty"),
        (
            "[[vhost]]\nname = \"a\"\nnme = \"\"",
            "FILE:3: vhost.nme: unknown key; [[vhost]] has name, max_connections, max_queues, max_queue_bytes",
        ),
        (
            "[[vhost]]\nname = \"a\"\nshards = 2",
            "FILE:3: vhost.shards: this setting belongs above the first [[…]]; [[vhost]] has name, max_connections, max_queues, max_queue_bytes",
        ),
        ("[[vhost]]\nname = \"a\"\n[[vhost]]\nname = \"a\"", "FILE:3: vhost.name: there are two virtual hosts 'a'"),
        ("[[user]]\nname = \"a\"", "FILE:1: user.password: it is missing"),
        (
            "[[user]]\nname = \"a\"\npassword = \"\"\npassword_hash = \"\"",
            "FILE:3: user.password: a user has a password or a password_hash",
        ),
        (
            "[[user]]\nname = \"a\"\npassword = \"\"\ntags = [1]",
            "FILE:4: user.tags: a list of strings is needed, each a name of at most 255 bytes",
        ),
        (
            "[[permission]]\nuser = \"a\"\nvhost = \"/\"\nconfigure = \"\"\nwrite = \"\"\nread = \"\"",
            "FILE:1: permission.user: there is no user 'a'",
        ),
        (
            "[[permission]]\nuser = \"guest\"\nvhost = \"b\"\nconfigure = \"\"\nwrite = \"\"\nread = \"\"",
            "FILE:1: permission.vhost: there is no virtual host 'b'",
        ),
        (
            "[[vhost]]\nname = \"a\"\nmax_queues = -1",
            "FILE:3: vhost.max_queues: '-1' is negative; it takes a number from 0 to 4294967295",
        ),
        (
            "[[user]]\nname = \"a\"\npassword_hash = \"\"\nmax_channels = \"many\"",
            "FILE:4: user.max_channels: an integer is needed, not a string",
        ),
        (
            "[[topic_permission]]\nuser = \"a\"\nvhost = \"b\"\nexchange = \"x\"\nwrite = \"\"\nread = \"\"",
            "FILE:1: topic_permission.user: there is no user 'a'\nFILE:1: topic_permission.vhost: there is no virtual host 'b'",
        ),
        (
            "[[policy]]\nvhost = \"/\"\nname = \"p\"\npattern = 1\npriority = 1.5\napply_to = \"x\"\ndefinition = { a = 1.5 }",
            "FILE:4: policy.pattern: a string is needed, not an integer\nFILE:5: policy.priority: a whole number is needed\n\
             FILE:6: policy.apply_to: it takes queues, exchanges, all\nFILE:7: policy.definition.a: a policy's value is a \
             number, a text, a boolean or a list of them, not a float",
        ),
        (
            "shards = 999\nspin_us = 9999\n\n[[vhost]]\n",
            "FILE:1: shards: 999 is out of range; it takes a number from 0 to 256\nFILE:2: spin_us: 9999 is out of range; it takes microseconds from 0 to 1000\nFILE:4: vhost.name: it is missing",
        ),
    ];
    for (at, (text, expect)) in cases.iter().enumerate() {
        let error = load_file(&format!("refused-{at}"), text.as_bytes()).expect_err(text);
        assert_eq!(error, *expect, "{text}");
    }
    let long = format!("[[vhost]]\nname = \"{}\"", "x".repeat(256));
    let error = load_file("long", long.as_bytes()).expect_err("a long name");
    assert_eq!(error, "FILE:2: vhost.name: a name of 256 bytes is too long; 255 are the most");
    let error = load_file("utf8", b"# a\n# \xff").expect_err("no UTF-8");
    assert_eq!(error, "FILE:2: this is not UTF-8");
}

#[test]
fn a_file_of_accounts() {
    let text = "[[vhost]]\nname = \"a\"\n[[vhost]]\nname = \"b\"\n[[user]]\nname = \"u\"\npassword = \"p\\\"\\\\\"\n\
                tags = [\"administrator\"]\n[[user]]\nname = \"v\"\npassword_hash = \"secret\"\n[[permission]]\nuser = \"u\"\n\
                vhost = \"b\"\nconfigure = \"^x\"\nwrite = \"\"\nread = \".*\"\n";
    let config = load_file("accounts", text.as_bytes()).expect("sound");
    assert_eq!(config.vhosts.iter().map(|vhost| &*vhost.name).collect::<Vec<_>>(), ["a", "b"]);
    assert!(config.users[0].password == PasswordConfig::Plain("p\"\\".into()));
    assert_eq!(config.users[0].tags, ["administrator"]);
    assert_eq!((&*config.permissions[0].configure, &*config.permissions[0].write), ("^x", ""));
    let (plain, unused) = (&*config.warnings[0], &*config.warnings[1]);
    assert!(
        plain.ends_with(":5: the password of user 'u' can be read there; harrier hash-password makes a password_hash")
    );
    assert_eq!((unused, config.warnings.len()), ("user 'v' has no permission on any virtual host", 2));
    assert!(!format!("{config:?}").contains("secret"), "a password is not shown");
    // Vhosts alone: the default user has them all.
    let config = load_file("vhosts", b"[[vhost]]\nname = \"a\"\n[[vhost]]\nname = \"b\"\n").expect("sound");
    let pairs: Vec<_> = config.permissions.iter().map(|all| (&*all.user, &*all.vhost)).collect();
    assert_eq!(pairs, [("guest", "a"), ("guest", "b")]);
}

#[test]
fn what_is_printed_makes_the_same_configuration() {
    let rules = "[[topic_permission]]\nuser = \"u\"\nvhost = \"ä \\\" \\\\ b\"\nexchange = \"x\"\nwrite = '^\\.'\nread = \"\"\n\
                 [[policy]]\nvhost = \"v\"\nname = \"p\"\npattern = '^\\.'\npriority = -3\n[policy.definition]\n\
                 message-ttl = 0x10\nha-params = [\"a\", 1, true]\n[[operator_policy]]\nvhost = \"v\"\nname = \"o\"\n\
                 pattern = ''\napply_to = \"queues\"\ndefinition = { expires = 5 }\n";
    let accounts = "queue_memory_share = 7\nframe_bytes_max = \"1MiB\"\n[[vhost]]\nname = \"ä \\\" \\\\ b\"\n[[user]]\nname = \"u\"\n\
                    password = \"\\u0001'\\\"\"\ntags = [\"a\", \"b\"]\nmax_channels = 4\n";
    let accounts = &accounts.replacen("b\"\n", "b\"\nmax_queue_bytes = \"2KiB\"\nmax_queues = 0\n", 1);
    let file = TemporaryFile::new("print", format!("{accounts}{rules}").as_bytes());
    let path = file.0.to_string_lossy().into_owned();
    let words = "--listen unix:/a\"b --listen [::1]:5 --memory-limit 2GiB --tcp-congestion bbr --log-level warn";
    for (words, path) in [("", "/nowhere"), (words, "/nowhere"), (words, &*path), ("--memory-limit 9%", &*path)] {
        let first = config(words, &[], path);
        let printed = first.to_toml();
        let second = load_file("printed", printed.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(second.to_bare_toml(), first.to_bare_toml());
        for setting in SETTINGS {
            assert_eq!(printed.matches(&format!("\n{} = ", setting.name)).count(), 1, "{}", setting.name);
        }
    }
    let printed = config("--shards 3", &[], "/nowhere").to_toml();
    assert!(
        printed.contains("It takes a number from 0 to 256. Default: 0. Set by --shards.\nshards = 3\n"),
        "{printed}"
    );
}

#[test]
fn help_tells_every_setting() {
    assert!(matches!(load("--help", &[], "/nowhere"), Ok(BrokerInvocation::Help)));
    assert!(matches!(load("-h --shards 2", &[], "/nowhere"), Ok(BrokerInvocation::Help)));
    assert!(matches!(load("--print-config --shards 2", &[], "/nowhere"), Ok(BrokerInvocation::Print(_))));
    let help = config::help();
    for setting in SETTINGS {
        assert!(help.contains(&format!("\n  {} ", setting.option())), "{}", setting.name);
        assert!(setting.help.trim().ends_with('.'), "{}: sentences end with a full stop", setting.name);
    }
    let long = help.lines().find(|line| line.chars().count() > 120);
    assert_eq!(long, None, "lines of the help fit a terminal");
}

#[test]
fn the_reference_page_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == config::reference(),
        "docs/configuration.md is out of date: cargo run -p harrier-config --example reference > docs/configuration.md"
    );
}

#[test]
fn the_example_of_the_reference_page_is_sound() {
    let page = config::reference();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let config = load_file("example", example.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((config.shards, config.permissions.len(), config.warnings.len()), (4, 1, 1));
}

#[test]
fn the_machine_gives_what_is_left_to_it() {
    let machine = config::Machine { cores: 6, memory_bytes: Some(10_000_000_000) };
    let cases = [
        ("", 5, 4_000_000_000, 2_000_000_000),
        ("--shards 2 --memory-limit 2GB --queue-memory-share 10", 2, 2_000_000_000, 200_000_000),
    ];
    for (words, shards, memory, queue) in cases {
        let config = config(words, &[], "/nowhere");
        assert_eq!(config.shard_count(&machine), shards);
        assert_eq!(config.memory_limit_bytes(&machine).map_err(|error| error.to_string()), Ok(memory));
        assert_eq!(config.queue_limit_bytes(memory), queue);
    }
    let unknown = config::Machine { cores: 0, memory_bytes: None };
    let config = config("", &[], "/nowhere");
    assert_eq!(config.shard_count(&unknown), 1);
    let error = config.memory_limit_bytes(&unknown).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "default: memory_limit: the machine does not tell its memory; give the limit in bytes"
    );
}
