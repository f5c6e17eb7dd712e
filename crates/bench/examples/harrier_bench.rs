//! The benchmarks without the broker, for measuring other brokers: `harrier_bench [bench] de-spsc --url amqp://…`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    bench::main(words.strip_prefix(&["bench".to_owned()]).unwrap_or(&words))
}
