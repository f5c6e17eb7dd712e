//! `harrier broker`: a broker from its configuration to its end.

use catalog::{Definition, Limits, Name, Password, Permission};
use link::ListenOptions;
use session::{Greeting, SessionLimits};
use shard::{Server, ServerOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::time::Duration;
use wire::{Table, Value};

pub fn main(args: &[String]) -> ExitCode {
    let get = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let vhost = Name::from("/");
    let user = Name::from("guest");
    let yes = |table: Table, name: &str| table.with(name, Value::Bool(true)).expect("short");
    let capabilities = [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ]
    .iter()
    .fold(Table::default(), |t, n| yes(t, n));
    let properties = Table::default()
        .with("product", Value::LongStr(b"Harrier".to_vec().into()))
        .expect("short")
        .with("capabilities", Value::Table(capabilities))
        .expect("short");
    let server = Server::start(ServerOptions {
        listen: vec![get("--listen").unwrap_or("127.0.0.1:5672".into()).parse().expect("an address")],
        listen_options: ListenOptions::default(),
        shards: get("--shards").map_or(1, |n| n.parse().expect("a number")),
        session: SessionLimits::default(),
        greeting: Greeting::new(&properties, "PLAIN AMQPLAIN"),
        catalog: Limits::default(),
        definitions: vec![
            Definition::CreateVhost { name: vhost.clone() },
            Definition::PutUser {
                name: user.clone(),
                password: Password::plain("guest"),
                tags: vec![],
                loopback_only: true,
            },
            Definition::SetPermission { user, vhost, permission: Permission::all() },
        ],
        output_bytes_max: 512 * 1024,
        memory_bytes_max: 9 << 30,
        queue_bytes_max: 4 << 30,
        connections_max: 100_000,
        login_timeout: Duration::from_secs(10),
        spin: Duration::from_micros(get("--spin-us").map_or(0, |n| n.parse().expect("a number"))),
        drain_timeout: Duration::from_secs(10),
    });
    let server = match server {
        Ok(server) => server,
        Err(error) => {
            eprintln!("harrier broker: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).expect("signals");
    for _ in signals.forever() {
        break;
    }
    server.stop();
    server.join().expect("shards");
    ExitCode::SUCCESS
}
