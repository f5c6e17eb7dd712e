//! The `harrier` program: dispatches to the subcommands and sets the allocator.
//!
//! Exit status: 0, 1 for a failure, 2 for wrong usage; those of `harrier ctl` are of sysexits.h.
#![forbid(unsafe_code)]

mod address_source;
mod admin_connection;
mod admin_server;
mod broker;
mod checked_text;
mod ctl;
mod default_folder;
mod definitions_command;
mod dialler;
mod greeting;
mod hash_password;
mod initial_definitions;
mod kept_definitions;
mod limits;
mod log;
mod management;
mod options;
mod own_process;
mod peer;
mod plan_file;
mod policies;
mod process;
mod proxy;
mod rdma;
mod rdma_options;
mod reload;
mod resharding;
mod route;
mod route_spec;
mod secret_file;
mod state_folder;
mod stated_definitions;
mod store_command;
mod store_file;
mod tls;
mod toml_text;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use wire::{Escaped, EscapedLines};

#[global_allocator]
static HEAP: slab::Heap = slab::Heap;

/// Exit status for wrong usage.
const USAGE_STATUS: u8 = 2;

const USAGE: &str = "usage: harrier COMMAND [OPTIONS]

  broker      run a broker
  bench       measure a broker
  topology    run trees of brokers, and measure them
  market      a stock exchange that trades through a broker, and measures it
  proxy       connect clients of this host to a broker over another transport
  definitions check or write a file of definitions
  ctl         ask and change a running broker
  route       join brokers: links and routes between them
  store       check and show the durable store of a stopped broker
  rdma        inspect and test this machine's RDMA devices
  hash-password
              read a password from standard input, print its hash for the configuration
  help        print this and end
  version     print the version and end

harrier COMMAND --help describes a command.
";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((command, rest)) = words.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(USAGE_STATUS);
    };
    match command.to_str() {
        Some("broker") => broker::main(rest),
        Some("bench") => match rest.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>() {
            Some(words) => bench::main(&words),
            None => usage_error("bench takes words of UTF-8 only"),
        },
        Some("topology") => {
            match rest.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>() {
                Some(words) => bench::topology(&words),
                None => usage_error("topology takes words of UTF-8 only"),
            }
        }
        Some("market") => match rest.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>() {
            Some(words) => bench::market(&words),
            None => usage_error("market takes words of UTF-8 only"),
        },
        Some("definitions") => definitions_command::main(rest),
        Some("ctl") => ctl::main(rest),
        Some("route") => route::main(rest),
        Some("proxy") => proxy::main(rest),
        Some("store") => store_command::main(rest),
        Some("rdma") => rdma::main(rest),
        Some("hash-password") => hash_password::main(rest),
        Some("help" | "--help" | "-h") => print(USAGE),
        Some("version" | "--version" | "-V") => print(&format!("harrier {}\n", greeting::VERSION)),
        _ => usage_error(&format!("unknown command '{}'\n{USAGE}", command.to_string_lossy())),
    }
}

fn usage_error(why: &str) -> ExitCode {
    usage_failure(why, ExitCode::from(USAGE_STATUS))
}

fn usage_failure(why: &str, status: ExitCode) -> ExitCode {
    eprintln!("harrier: {}", EscapedLines(why.trim_end()));
    status
}

/// Whether people read standard output.
fn is_terminal_output() -> bool {
    io::stdout().is_terminal()
}

/// Whether people read standard error.
fn is_terminal_error() -> bool {
    io::stderr().is_terminal()
}

/// Writes a text to standard output; whatever a peer chose in it leaves the terminal as it is. A closed pipe is not an
/// error.
fn print(text: &str) -> ExitCode {
    print_or(text, ExitCode::FAILURE)
}

/// The same, with a status of its own if it fails.
fn print_or(text: &str, failure: ExitCode) -> ExitCode {
    match io::stdout().lock().write_all(EscapedLines(text).to_string().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("harrier: cannot write: {error}"));
            failure
        }
    }
}

/// Writes one line to standard error.
fn print_error(line: &str) {
    eprintln!("{}", Escaped(line));
}
