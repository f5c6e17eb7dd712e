//! A listener in a broker's place, which serves each connection on a thread of its own.

use std::net::{TcpListener, TcpStream};

use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::StandInTask;

/// Serves until its parent ends. `what` is the prefix of error messages.
pub(super) fn run(commands: &mut CommandReader, what: &'static str, serve: fn(TcpStream)) -> Result<(), String> {
    let StandInTask { address } = commands.task()?;
    let text = |error: std::io::Error| format!("{what}: {error}");
    let listener = TcpListener::bind((address, 0)).map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => _ = std::thread::spawn(move || serve(stream)),
                Err(error) => cli::print_error(&format!("harrier bench: {what}: {error}")),
            }
        }
    });
    report(&RoleReport::Ready { port })?;
    while commands.next_command::<()>()?.is_some() {}
    Ok(())
}
