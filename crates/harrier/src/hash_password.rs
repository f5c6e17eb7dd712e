//! `harrier hash-password`: hashes a password for the configuration.
//!
//! The password comes from standard input, because others could read the command line.

use crate::process::salt;
use catalog::Password;
use cli::{given, print, print_error};
use secrets::read_password;
use std::ffi::OsString;
use std::process::ExitCode;

const DESCRIPTION: &str = "\
Prints the hash of a password: Argon2, for password_hash of the configuration. It takes one line:
the password is read from standard input, because others could read the command line. With --sha256 it is the hash that RabbitMQ keeps, which is cheaper to guess.";

/// The command as declared.
pub fn command() -> cli::Command {
    cli::Command::new("hash-password")
        .about("read a password from standard input, print its hash for the configuration")
        .long_about(DESCRIPTION)
        .override_usage("harrier hash-password [--sha256]")
        .arg(cli::flag("sha256", "the hash that RabbitMQ keeps"))
}

/// Runs `harrier hash-password`.
pub fn main(words: &[OsString]) -> ExitCode {
    let sha256 = match given(command(), words) {
        Ok(given) => cli::has(&given, "sha256"),
        Err(status) => return status,
    };
    match hash(sha256) {
        Ok(hash) => print(&format!("{hash}\n")),
        Err(why) => {
            print_error(&format!("harrier hash-password: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn hash(sha256: bool) -> Result<String, String> {
    let secret = &*read_password()?;
    let salt = salt().map_err(|error| format!("no random salt is available: {error}"))?;
    let password = match sha256 {
        true => Password::sha256(secret, [salt[0], salt[1], salt[2], salt[3]]),
        false => Password::argon2(secret, &salt),
    };
    Ok(password.written().unwrap_or_default())
}
