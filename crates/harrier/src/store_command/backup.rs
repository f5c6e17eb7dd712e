//! `harrier store backup`: has a running broker copy its state folder.

use admin::{ask, broker_url};
use cli::{print, print_error};
use definitions::Json;
use std::process::ExitCode;

/// Asks the broker.
///
/// # Errors
/// Wrong usage.
pub fn main(given: &cli::ArgMatches) -> Result<ExitCode, String> {
    let (folder, is_json) = (cli::text(given, "FOLDER").unwrap_or_default(), cli::has(given, "json"));
    if !folder.starts_with('/') {
        return Err(format!("'{folder}' is no absolute path"));
    }
    let url = broker_url(cli::text(given, "url"))?;
    let outcome = ask(&url, "backup", vec![("folder", Json::text(folder))]);
    Ok(match outcome {
        Ok(found) if is_json => print(&(found.page() + "\n")),
        Ok(found) => {
            let number = |key: &str| match found.get(key) {
                Some(Json::Int(number)) => *number,
                _ => 0,
            };
            let (segments, held_ms) = (number("segments"), number("held_us") as f64 / 1_000.0);
            print(&format!("{folder}: {segments} segments; nothing was written for {held_ms:.1} ms\n"))
        }
        Err(why) => {
            print_error(&format!("harrier store: {why}"));
            ExitCode::FAILURE
        }
    })
}
