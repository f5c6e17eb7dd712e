//! The supervisor of one broker of a tree: starts it, adds its routes with `harrier route`, meters it and stops it.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use client::ExchangeOptions;
use serde::Serialize;
use serde_json::Value;

use crate::limits::ROUTE_WAIT;
use gauge::clock::{Deadline, pause};
use gauge::{NetworkMeter, ProcessMeter};
use harness::broker_network::{CapturedOutput, NetworkBroker};
use harness::command_reader::CommandReader;
use harness::interrupt;
use harness::launcher::address_towards;
use harness::picked_port::on_picked_port;
use harness::placement::CpuList;
use harness::ready_line::ReadyLine;
use harness::role_client::connect;
use harness::role_process::{ChildProcess, launch_command, this_program};
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::{
    BrokerAddresses, BrokerLogin, ListenAddress, RouteTask, RoutesStatus, SupervisorCommand, SupervisorTask,
    TreeTransport,
};
use report::document::NodeUsage;

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    // On a signal, the broker is stopped first.
    interrupt::listen()?;
    let task: SupervisorTask = commands.task()?;
    let supervisor = BrokerSupervisor::start(&task)?;
    report_results(&supervisor.addresses)?;
    let mut meters = None;
    while let Some(command) = commands.next_command()? {
        match command {
            SupervisorCommand::AddRoute(route) => {
                supervisor.add_route(&task, &route)?;
                report(&RoleReport::Armed)?;
            }
            SupervisorCommand::RouteStatus => report_results(&supervisor.route_status()?)?,
            SupervisorCommand::Quit => return Ok(()),
            SupervisorCommand::Begin => {
                let pids = [supervisor.broker.pid()];
                meters = Some((NetworkMeter::of(&pids), ProcessMeter::start(&pids)));
                report(&RoleReport::Armed)?;
            }
            SupervisorCommand::End => {
                let ended =
                    meters.take().map(|(network, meter)| NodeUsage { usage: meter.stop(), network: network.stop() });
                report_results(&ended.ok_or("received `End` before `Begin`")?)?;
            }
        }
    }
    Ok(())
}

fn report_results<T: Serialize>(what: &T) -> Result<(), String> {
    report(&RoleReport::Results(serde_json::to_value(what).map_err(|error| error.to_string())?))
}

struct BrokerSupervisor {
    broker: NetworkBroker,
    addresses: BrokerAddresses,
    /// The broker's files, deleted with it.
    _folder: BrokerDirectory,
}

impl BrokerSupervisor {
    fn start(task: &SupervisorTask) -> Result<Self, String> {
        let folder = BrokerDirectory::new()?;
        let ip = match &task.place {
            ListenAddress::At(address) => *address,
            ListenAddress::Towards(other) => address_towards(other)?,
        };
        let login = task
            .login
            .as_ref()
            .map_or_else(String::new, |BrokerLogin { user, password }| format!("{user}:{password}@"));
        let mut words = Vec::new();
        if !task.cluster_name.is_empty() {
            words.extend(["--cluster-name".to_owned(), task.cluster_name.clone()]);
        }
        match &task.login {
            Some(login) => words.extend(["--config".to_owned(), folder.write_config(login)?]),
            None => {
                words.extend(["--loopback-users".to_owned(), String::new()].into_iter().filter(|_| !ip.is_loopback()))
            }
        }
        words.extend_from_slice(&task.options);
        let url = |ready: &ReadyLine| Ok(format!("amqp://{login}{}", ready.first()?));
        let start = |listen: &[&str]| {
            let listen = listen.iter().map(|&word| word.to_owned());
            NetworkBroker::start_with_options(&listen.chain(words.iter().cloned()).collect::<Vec<_>>(), url)
        };
        let any_port = SocketAddr::new(ip, 0).to_string();
        let (broker, source) = match task.transport {
            TreeTransport::Tcp => {
                let broker = start(&["--listen", &any_port])?;
                let source = broker.url.clone();
                (broker, source)
            }
            TreeTransport::Unix => {
                let path = folder.0.join("broker.sock").to_string_lossy().into_owned();
                let source = match login.as_str() {
                    "" => format!("amqp+unix:{path}"),
                    login => format!("amqp+unix://{login}{path}"),
                };
                (start(&["--listen", &any_port, "--listen", &format!("unix:{path}")])?, source)
            }
            // At the same port as over TCP.
            TreeTransport::Rdma => on_picked_port(|port| {
                let address = SocketAddr::new(ip, port).to_string();
                let rdma = format!("amqp+rdma://{address}");
                let broker = start(&["--listen", &address, "--rdma-token", "allow", "--listen", &rdma])?;
                Ok((broker, format!("amqp+rdma://{login}{address}")))
            })?,
        };
        let url = broker.url.clone();
        let declare = || -> client::Result<()> {
            let mut client = connect(&url, "keeper")?;
            let channel = client.open_channel()?;
            client.declare_exchange(channel, &task.exchange, &task.exchange_type, &ExchangeOptions::default())?;
            client.close()
        };
        declare().map_err(|error| format!("the exchange of the tree cannot be declared: {error}"))?;
        Ok(Self { broker, addresses: BrokerAddresses { url, source }, _folder: folder })
    }

    fn add_route(&self, task: &SupervisorTask, route: &RouteTask) -> Result<(), String> {
        let credit = route.credit.to_string();
        let words = ["--ack", &route.ack, "--credit", &credit, "dynamic", "add", &self.addresses.url, &route.source];
        run_route_command(&[&words[..], &[&task.exchange]].concat()).map(drop)
    }

    fn route_status(&self) -> Result<RoutesStatus, String> {
        let text = run_route_command(&["--json", "link", "list", &self.addresses.url])?;
        let links = serde_json::from_str(&text).map_err(|error| format!("harrier route: {error} in '{text}'"))?;
        Ok(parse_route_status(&links))
    }
}

/// Runs `harrier route` with these arguments and returns its output.
fn run_route_command(words: &[&str]) -> Result<String, String> {
    let program = this_program()?;
    let arguments: Vec<String> = std::iter::once("route").chain(words.iter().copied()).map(str::to_owned).collect();
    let mut command = launch_command(&CpuList::default(), &program.to_string_lossy(), &arguments)?;
    command.stdin(Stdio::null());
    output_of(&mut command)
}

/// Runs a short command and returns its output.
fn output_of(command: &mut Command) -> Result<String, String> {
    let [mut output, mut errors] = [CapturedOutput::new()?, CapturedOutput::new()?];
    command.stdout(output.writer()?).stderr(errors.writer()?);
    let mut process = ChildProcess::start("command", command)?;
    let deadline = Deadline::after(ROUTE_WAIT);
    let status = loop {
        match process.ended()? {
            Some(status) => break status,
            None if interrupt::requested() => return Err(interrupt::MESSAGE.to_owned()),
            None if deadline.passed() => {
                return Err(format!("harrier route did not finish within {} s", ROUTE_WAIT.as_secs()));
            }
            None => pause(std::time::Duration::from_millis(2)),
        }
    };
    let text = output.text()?;
    if status.success() {
        return Ok(text);
    }
    let why = errors.text()?;
    let why = if why.trim().is_empty() { text } else { why };
    Err(why.trim().lines().next().map_or_else(|| format!("harrier route ended with {status}"), str::to_owned))
}

/// Parses the route status from `harrier route --json link list`, which lists links with their routes.
fn parse_route_status(links: &Value) -> RoutesStatus {
    let mut routes = RoutesStatus { run: true, why: String::new() };
    let mut count = 0;
    let mut waiting = vec![(links, links)];
    while let Some((value, link)) = waiting.pop() {
        match value {
            Value::Array(values) => waiting.extend(values.iter().map(|value| (value, link))),
            Value::Object(fields) => {
                let link = if fields.contains_key("routes") { value } else { link };
                if let Some(Value::Bool(runs)) = fields.get("runs") {
                    count += 1;
                    if !runs {
                        routes.run = false;
                        routes.why = describe_state(value, link);
                    }
                    continue;
                }
                waiting.extend(fields.values().map(|value| (value, link)));
            }
            _ => {}
        }
    }
    if count == 0 {
        routes = RoutesStatus { run: false, why: "there is no route".to_owned() };
    }
    routes
}

/// Describes the state of a route that is not running.
fn describe_state(route: &Value, link: &Value) -> String {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let state = link.get("state").map(|state| state.as_str().map_or_else(|| state.to_string(), str::to_owned));
    let parts = [state, text(route, "error"), text(link, "last_error")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "a route does not run".to_owned() } else { parts.join(": ") }
}

/// A private directory for the files of one broker.
struct BrokerDirectory(PathBuf);

impl BrokerDirectory {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("harrier-keeper-{}", std::process::id()));
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Writes a configuration with an administrator and returns its path.
    fn write_config(&self, login: &BrokerLogin) -> Result<String, String> {
        let path = self.0.join("harrier.toml");
        let BrokerLogin { user, password } = login;
        let text = format!(
            "[[user]]\nname = \"{user}\"\npassword = \"{password}\"\ntags = [\"administrator\"]\n\n\
             [[permission]]\nuser = \"{user}\"\nvhost = \"/\"\nconfigure = \".*\"\nwrite = \".*\"\nread = \".*\"\n"
        );
        let write =
            || fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(text.as_bytes());
        write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for BrokerDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            cli::print_error(&format!("harrier topology: {}: {error}", self.0.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(links: &Value, expected: Result<(), &str>) {
        let routes = parse_route_status(links);
        let found = if routes.run { Ok(()) } else { Err(routes.why.as_str()) };
        assert_eq!(found, expected, "{links}");
    }

    #[test]
    fn route_status_follows_the_links() {
        let link =
            |state: &str, runs: bool| json!({"state": state, "last_error": "no way", "routes": [{"runs": runs}]});
        check(&json!([]), Err("there is no route"));
        check(&json!([link("running", true)]), Ok(()));
        check(&json!({"links": [link("running", true), link("running", true)]}), Ok(()));
        check(&json!([link("running", true), link("backing off", false)]), Err("backing off: no way"));
        check(&json!([{"state": "running", "routes": [{"runs": false, "error": "404"}]}]), Err("running: 404"));
        check(&json!([{"state": "running", "routes": []}]), Err("there is no route"));
    }
}
