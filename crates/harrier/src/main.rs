//! The `harrier` program: parse, build, run.
#![forbid(unsafe_code)]

mod broker;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((command, rest)) if command == "broker" => broker::main(rest),
        Some((command, rest)) if command == "bench" => bench::main(rest),
        _ => {
            eprintln!("usage: harrier broker");
            ExitCode::from(2)
        }
    }
}
