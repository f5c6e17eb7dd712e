//! Admin requests to a running broker: what is defined, who may ask, and how others are refused.

use super::{BrokerProcess, PATIENCE, TempFolder, harrier, output, read_frame, send};
use client::{
    Client, ClientChannel, ClientError, ConsumeOptions, ExchangeOptions, Properties, Publish, QueueOptions,
    RawProperties, Table, Value,
};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use wire::method::{Method, connection};
use wire::{ShortStr, TableRef};

const QUEUE: &str = "amq.harrier.requests";
const REPLIES: &str = "amq.rabbitmq.reply-to";

/// No virtual host `/`, one administrator, and two users who are not.
const CONFIG: &str = "
[[vhost]]
name = \"shop\"
max_queues = 50
[[vhost]]
name = \"other\"
[[user]]
name = \"root\"
password = \"r00t\"
tags = [\"administrator\"]
max_channels = 9
[[user]]
name = \"clerk\"
password = \"c1erk\"
tags = [\"management\"]
max_channels = 1
[[permission]]
user = \"root\"
vhost = \"shop\"
configure = \".*\"
write = \".*\"
read = \".*\"
[[permission]]
user = \"clerk\"
vhost = \"shop\"
configure = \".*\"
write = \".*\"
read = \".*\"
[[policy]]
vhost = \"shop\"
name = \"ttl\"
pattern = '^orders'
definition = { message-ttl = 1000 }
";

fn start(folder: &TempFolder, shards: &str) -> BrokerProcess {
    let config = folder.path("harrier.toml");
    std::fs::write(&config, CONFIG).expect("writes");
    let unix = format!("unix:{}", folder.path("h.sock"));
    BrokerProcess::start(&["--listen", "127.0.0.1:0", "--listen", &unix, "--shards", shards, "--config", &config])
}

fn url(broker: &BrokerProcess, login: &str) -> String {
    format!("amqp://{login}@{}/shop", broker.address)
}

fn ctl(words: &[&str]) -> (Option<i32>, String, String) {
    let output = output(&[&["ctl", "definitions"], words].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn export(url: &str) -> String {
    let (status, stdout, stderr) = ctl(&["--url", url]);
    assert_eq!((status, &*stderr), (Some(0), ""));
    stdout
}

fn names(export: &str, section: &str) -> Vec<String> {
    let export: serde_json::Value = serde_json::from_str(export).expect("JSON");
    let items = export[section].as_array().unwrap_or_else(|| panic!("{section} in {export}"));
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

/// Declarations of clients, on as many shards as there are.
fn declare(broker: &BrokerProcess) -> Vec<Client> {
    let declared = [("orders.1", true, false), ("orders.2", false, false), ("mine", true, true)];
    let connect = |(queue, durable, exclusive): &(&str, bool, bool)| {
        let mut client = Client::connect(&url(broker, "root:r00t")).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let exchange = ExchangeOptions { durable: true, ..ExchangeOptions::default() };
        client.declare_exchange(channel, "sales", "topic", &exchange).expect("declared");
        let arguments = Table::new().with("x-max-priority", Value::I32(5)).expect("short");
        let options = QueueOptions { durable: *durable, exclusive: *exclusive, arguments, ..QueueOptions::default() };
        client.declare_queue(channel, queue, &options).expect("declared");
        for key in ["a.*", "b.#"] {
            client.bind_queue(channel, queue, "sales", key, &Table::new()).expect("bound");
        }
        client
    };
    declared.iter().map(connect).collect()
}

#[test]
fn what_is_defined_now_is_exported_and_a_broker_begins_with_it() {
    for shards in ["1", "2"] {
        let folder = TempFolder::new(&format!("ctl-{shards}"));
        let broker = start(&folder, shards);
        let clients = declare(&broker);
        let text = export(&url(&broker, "root:r00t"));
        assert_eq!(names(&text, "queues"), ["orders.1", "orders.2"], "no exclusive ones");
        assert_eq!(names(&text, "exchanges"), ["sales"]);
        assert_eq!(names(&text, "users"), ["root", "clerk"]);
        assert_eq!(names(&text, "policies"), ["ttl"]);
        assert_eq!(names(&text, "vhosts"), ["shop", "other"]);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let keys: Vec<_> = read["bindings"].as_array().expect("a list").iter().map(|b| &b["routing_key"]).collect();
        assert_eq!(keys, ["a.*", "b.#", "a.*", "b.#"]);
        assert_eq!(read["queues"][0]["arguments"]["x-max-priority"], 5);
        assert_eq!(read["parameters"][0]["value"]["max-queues"], 50);
        assert!(!text.contains("r00t\"") && text.contains("rabbit_password_hashing_sha256"), "{text}");
        // A single virtual host, over another transport.
        let unix = format!("amqp+unix://root:r00t@{}?vhost=shop", folder.path("h.sock"));
        let (_, of_shop, _) = ctl(&["--url", &unix, "--vhost=shop"]);
        assert_eq!((names(&of_shop, "queues").len(), names(&of_shop, "vhosts")), (2, vec!["shop".to_owned()]));
        assert!(!of_shop.contains("\"users\""), "{of_shop}");
        let (_, of_other, _) = ctl(&["--url", &unix, "--vhost", "other"]);
        assert_eq!((names(&of_other, "queues").len(), names(&of_other, "policies").len()), (0, 0));
        // The address on standard input, where nobody else sees it.
        let mut asking = harrier();
        asking.args(["ctl", "definitions", "--url", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut asking = asking.spawn().expect("the program starts");
        let mut stdin = asking.stdin.take().expect("a pipe");
        stdin.write_all(format!("{unix}\n").as_bytes()).expect("written");
        drop(stdin);
        let same = asking.wait_with_output().expect("an end").stdout;
        assert_eq!(names(&String::from_utf8_lossy(&same), "queues"), ["orders.1", "orders.2"]);
        drop(clients);
        let file = folder.path("exported.json");
        std::fs::write(&file, &text).expect("writes");
        let second = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--definitions", &file]);
        assert_eq!(export(&url(&second, "root:r00t")), text, "it is what was exported");
    }
}

#[test]
fn the_default_user_may_ask_from_loopback() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2"]);
    let text = export(&format!("amqp://{}", broker.address));
    assert_eq!((names(&text, "users"), names(&text, "vhosts")), (vec!["guest".to_owned()], vec!["/".to_owned()]));
}

#[test]
fn who_gets_no_answer_hears_why() {
    let folder = TempFolder::new("ctl-errors");
    let broker = start(&folder, "2");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let other = |serve: fn(std::net::TcpStream)| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        format!("amqp://{address}")
    };
    let root = url(&broker, "root:r00t");
    let cases = [
        (
            69,
            vec![format!("--url=amqp://{free}")],
            format!("no broker answers at {free}: the link is lost: Connection ref"),
        ),
        (
            77,
            vec![format!("--url={}", url(&broker, "root:wrong"))],
            "refuses the connection: 403 ACCESS_REFUSED - Lo".into(),
        ),
        (
            77,
            vec![format!("--url=amqp://root:r00t@{}", broker.address)],
            "refuses the connection: 530 NOT_ALLOWED - vhost / not found".into(),
        ),
        (
            77,
            vec![format!("--url={}", url(&broker, "clerk:c1erk"))],
            format!(
                "harrier ctl: the broker at {} refuses: 403 ACCESS_REFUSED - user 'clerk' is no administrator",
                broker.address
            ),
        ),
        (
            65,
            vec![format!("--url={root}"), "--vhost=nowhere".into()],
            "there is no virtual host 'nowhere' (not-found)".into(),
        ),
        (69, vec![format!("--url={}", other(web_server))], "is not an AMQP broker".into()),
        (
            69,
            vec![format!("--url={}", other(another_broker))],
            "is not Harrier, and takes no requests: it is Carrier 3".into(),
        ),
    ];
    for (expected, words, expect) in cases {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (status, stdout, stderr) = ctl(&words);
        assert_eq!((status, &*stdout), (Some(expected), ""), "{words:?}: {stderr}");
        assert!(stderr.contains(&expect) && stderr.lines().count() == 1, "{words:?}: {stderr}");
    }
}

fn web_server(mut stream: std::net::TcpStream) {
    let _asked = stream.read(&mut [0; 64]);
    let _answered = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
}

/// A broker that admits everybody and is not Harrier.
fn another_broker(mut stream: std::net::TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.read_exact(&mut [0; 8]).expect("a header");
    let text = |text: &str| Value::LongStr(text.as_bytes().into());
    let properties = Table::new().with("product", text("Carrier")).expect("short");
    let properties = properties.with("version", text("3")).expect("short").to_bytes();
    let start = connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: TableRef::new(&properties),
        mechanisms: b"PLAIN",
        locales: b"en_US",
    };
    send(&mut stream, &start.into());
    read_frame(&mut stream);
    send(&mut stream, &connection::Tune { channel_max: 9, frame_max: 131_072, heartbeat: 0 }.into());
    read_frame(&mut stream);
    read_frame(&mut stream);
    send(&mut stream, &Method::ConnectionOpenOk(connection::OpenOk {}));
    let _gone = stream.read(&mut [0; 64]);
}

/// A client that consumes replies.
fn requester(broker: &BrokerProcess, login: &str) -> (Client, ClientChannel) {
    let mut client = Client::connect(&url(broker, login)).expect("connects");
    let channel = client.open_channel().expect("a channel");
    let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
    client.consume(channel, REPLIES, &options).expect("the pseudo-queue");
    (client, channel)
}

fn request(client: &mut Client, channel: ClientChannel, body: &[u8]) -> Result<(), ClientError> {
    let short = |text: &'static str| Some(ShortStr::literal(text).to_owned());
    let properties = Properties { reply_to: short(REPLIES), correlation_id: short("7"), ..Properties::default() };
    let properties = properties.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", QUEUE) };
    client.publish(channel, &to, body).map(drop)
}

fn answer(client: &mut Client) -> String {
    let answer = client.next_delivery(PATIENCE).expect("the connection goes on").expect("an answer");
    let properties = answer.properties;
    assert_eq!(properties.correlation_id().map(|id| id.as_bytes()), Some(&b"7"[..]));
    assert_eq!(properties.content_type().map(|kind| kind.as_bytes()), Some(&b"application/json"[..]));
    String::from_utf8_lossy(answer.body()).into_owned()
}

#[test]
fn what_is_no_request_is_told_so() {
    let folder = TempFolder::new("ctl-requests");
    let broker = start(&folder, "2");
    // One on each shard.
    for (mut client, channel) in [requester(&broker, "root:r00t"), requester(&broker, "root:r00t")] {
        let cases: [(&[u8], &str); 11] = [
            (b"", r#"{"code":"malformed","text":"the request is not JSON: "#),
            (b"\xff\x00", r#"{"code":"malformed","text":"the request is not JSON: "#),
            (b"[]", r#"{"code":"malformed","text":"a request is an object, not a list"}"#),
            (b"{}", r#"{"code":"malformed","text":"the request has no version"}"#),
            (
                br#"{"version":2}"#,
                r#"{"code":"unknown-version","text":"unknown request version 2; this broker has version 1"}"#,
            ),
            (br#"{"version":1}"#, r#"{"code":"malformed","text":"the request has no command"}"#),
            (br#"{"version":1,"as":"root"}"#, r#"{"code":"malformed","text":"a request has no 'as'"}"#),
            (
                br#"{"version":1,"command":"explode"}"#,
                r#"{"code":"unknown-command","text":"command 'explode' is not known here"}"#,
            ),
            (
                br#"{"version":1,"command":"definitions","arguments":{"all":true}}"#,
                r#"{"code":"unknown-argument","text":"command 'definitions' has no argument 'all'"}"#,
            ),
            (
                br#"{"version":1,"command":"definitions","arguments":{"vhost":1}}"#,
                r#"{"code":"malformed","text":"argument 'vhost' is a string, not a whole number"}"#,
            ),
            (
                br#"{"version":1,"command":"definitions","arguments":[]}"#,
                r#"{"code":"malformed","text":"arguments are an object, not a list"}"#,
            ),
        ];
        for (body, expect) in cases {
            request(&mut client, channel, body).expect("written");
            let told = answer(&mut client);
            assert!(told.starts_with(&format!(r#"{{"version":1,"error":{expect}"#)), "{told}");
        }
        request(&mut client, channel, br#"{"version":1,"command":"definitions","arguments":{"vhost":"other"}}"#)
            .expect("written");
        assert!(answer(&mut client).starts_with(r#"{"version":1,"result":{"product_name":"Harrier""#));
    }
}

#[test]
fn the_request_queue_is_nobody_s_and_a_flood_leaves_the_broker_well() {
    let folder = TempFolder::new("ctl-flood");
    let broker = start(&folder, "2");
    let (mut client, channel) = requester(&broker, "root:r00t");
    // The pseudo-queue cannot be declared, consumed, purged or bound.
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    type Attempt<'a> = &'a dyn Fn(&mut Client, ClientChannel) -> Result<(), ClientError>;
    let attempts: [(Attempt, &str); 6] = [
        (
            &|client, channel| client.declare_queue(channel, QUEUE, &QueueOptions::default()).map(drop),
            "403 ACCESS_REFUSED",
        ),
        (&|client, channel| client.declare_queue(channel, QUEUE, &passive).map(drop), "404 NOT_FOUND"),
        (&|client, channel| client.purge_queue(channel, QUEUE).map(drop), "404 NOT_FOUND"),
        (&|client, channel| client.get(channel, QUEUE, true).map(drop), "404 NOT_FOUND"),
        (&|client, channel| client.consume(channel, QUEUE, &ConsumeOptions::default()).map(drop), "404 NOT_FOUND"),
        (&|client, channel| client.bind_queue(channel, QUEUE, "amq.fanout", "", &Table::new()), "404 NOT_FOUND"),
    ];
    for (at, (attempt, expect)) in attempts.iter().enumerate() {
        let other = client.open_channel().expect("a channel");
        let error = attempt(&mut client, other).expect_err("there is no such queue").to_string();
        assert!(error.contains(expect), "attempt {at}: {error}");
    }
    let file = folder.path("thief.json");
    let thief = format!(r#"{{"vhosts":[{{"name":"/"}}],"queues":[{{"vhost":"/","name":"{QUEUE}"}}]}}"#);
    std::fs::write(&file, thief).expect("writes");
    let checked = output(&["definitions", "check", &file]);
    let stderr = String::from_utf8_lossy(&checked.stderr);
    assert!(stderr.contains(".queues[0]: ACCESS_REFUSED - queue name 'amq.harrier.requests' contains"), "{stderr}");
    // Invalid requests at full speed: each is answered until there are too many, which closes the channel.
    let mut answers = 0;
    let sent = 2_000;
    for _ in 0..sent {
        // Writing to a closed channel fails, which is fine.
        let _closed = request(&mut client, channel, b"garbage");
    }
    let end = loop {
        match client.next_delivery(PATIENCE) {
            Ok(Some(_)) => answers += 1,
            Ok(None) => panic!("{answers} answers and no end"),
            Err(error) => break error.to_string(),
        }
        if answers == sent {
            break "506 RESOURCE_ERROR - too many requests wait to be answered".to_owned();
        }
    };
    assert!(end.contains("506 RESOURCE_ERROR - too many requests wait to be answered"), "{end}");
    // Users who may not ask do not disturb it either. Each uses its single channel again and again.
    let mut clerk = Client::connect(&url(&broker, "clerk:c1erk")).expect("connects");
    for body in [&[b'x'; 10][..], &[b'x'; 100_000]] {
        let channel = clerk.open_channel().expect("the one channel");
        for _ in 0..20 {
            request_of_anybody(&mut clerk, channel, body);
        }
        let error = clerk.next_delivery(PATIENCE).expect_err("the channel is closed").to_string();
        assert!(error.contains("403 ACCESS_REFUSED - user 'clerk' is no administrator"), "{error}");
    }
    clerk.open_channel().expect("the one channel");
    let error = clerk.open_channel().expect_err("one is allowed").to_string();
    assert!(error.contains("has reached the maximum allowed user limit of (1)"), "{error}");
    // The administrator's requests are still answered quickly.
    for (body, reply_to, expect) in [
        (&[b'x'; 65_537][..], Some(REPLIES), "406 PRECONDITION_FAILED - a request of 65537 bytes; 65536 are the most"),
        (b"", None, "406 PRECONDITION_FAILED - the reply-to of a request is 'amq.rabbitmq.reply-to' of its own"),
        (
            b"",
            Some("orders"),
            "406 PRECONDITION_FAILED - the reply-to of a request is 'amq.rabbitmq.reply-to' of its own",
        ),
    ] {
        let (mut client, channel) = requester(&broker, "root:r00t");
        let reply_to = reply_to.map(|name| ShortStr::new(name.as_bytes()).expect("short").to_owned());
        let properties = Properties { reply_to, ..Properties::default() }.to_bytes();
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", QUEUE) };
        client.confirm_select(channel).expect("confirms");
        client.publish(channel, &to, body).expect("written");
        let error = match client.wait_confirms(channel, 0) {
            Err(error) => error.to_string(),
            Ok(_) => {
                assert_eq!(client.take_refused(channel).unwrap_or_else(|_| vec![1]), [1], "it is not confirmed");
                client.next_delivery(PATIENCE).expect_err("the channel is closed").to_string()
            }
        };
        assert!(error.contains(expect), "{error}");
    }
    assert_eq!(names(&export(&url(&broker, "root:r00t")), "vhosts"), ["shop", "other"]);
}

/// A request without a reply-to, for a client that has not opened one.
fn request_of_anybody(client: &mut Client, channel: ClientChannel, body: &[u8]) {
    let _closed = client.publish(channel, &Publish::to("", QUEUE), body);
}
