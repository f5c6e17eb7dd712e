//! `harrier ctl`: sends requests to a running broker from the command line. The broker decides who may ask.

use crate::admin_connection::ask;
use crate::{address_source, print, print_error, usage_error};
use client::Url;
use definitions::Json;
use std::ffi::OsString;
use std::process::ExitCode;

mod store_table;

const USAGE: &str = "usage: harrier ctl definitions [--url URL] [--vhost NAME]
       harrier ctl store [--url URL] [--json]

Asks a running broker, as one of its administrators, over any address it listens on.

  definitions   print what is defined now, declarations of clients included, as a definitions file:
                JSON for harrier broker --definitions, or for rabbitmqctl import_definitions
  store         print what the durable store has written since the broker started, how long that took, and what it
                holds: a row for each shard's log of messages, for all of them, and for the definitions

  --url URL     the broker and the login: amqp://USER:PASSWORD@HOST:PORT/VHOST, amqps://..., or
                amqp+unix://USER:PASSWORD@/PATH?vhost=VHOST. VHOST is any that the user may open.
                '-' reads it from standard input and @FILE from a file, where nobody else sees the password.
                Default: amqp://guest:guest@127.0.0.1:5672/%2F
  --vhost NAME  only what is in this virtual host: no users, no permissions
  --json        as JSON, with all numbers

Status: 0 for success, 1 if the broker does not answer or refuses, 2 for wrong usage.
";

/// Runs `harrier ctl`.
pub fn main(words: &[OsString]) -> ExitCode {
    let Some(words) = words.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>() else {
        return usage_error("ctl takes words of UTF-8 only");
    };
    if words.iter().any(|word| ["--help", "-h"].contains(word)) {
        return print(USAGE);
    }
    let order = match CtlArguments::of(&words) {
        Ok(order) => order,
        Err(why) => return usage_error(&format!("{why}\n{USAGE}")),
    };
    let arguments = order.vhost.into_iter().map(|name| ("vhost", Json::text(name))).collect();
    match ask(&order.url, order.command, arguments) {
        Ok(found) if order.command == "store" && !order.is_json => print(&store_table::text(&found)),
        Ok(found) => print(&(found.page() + "\n")),
        Err(why) => {
            print_error(&format!("harrier ctl: {why}"));
            ExitCode::FAILURE
        }
    }
}

struct CtlArguments<'a> {
    command: &'a str,
    url: Url,
    vhost: Option<&'a str>,
    is_json: bool,
}

impl<'a> CtlArguments<'a> {
    fn of(words: &[&'a str]) -> Result<Self, String> {
        let (command, mut rest) = match words {
            [] => return Err("ctl needs a command".to_owned()),
            [command, rest @ ..] => (*command, rest),
        };
        if !["definitions", "store"].contains(&command) {
            return Err(format!("unknown command 'ctl {command}'"));
        }
        let (mut url, mut vhost, mut is_json) = (None, None, false);
        while let [word, behind @ ..] = rest {
            if *word == "--json" && command == "store" {
                (is_json, rest) = (true, behind);
                continue;
            }
            let (option, value, behind) = match (word.split_once('='), behind) {
                (Some((option, value)), _) => (option, value, behind),
                (None, [value, behind @ ..]) => (*word, *value, behind),
                (None, []) => (*word, "", behind),
            };
            let place = match option {
                "--url" => &mut url,
                "--vhost" if command == "definitions" => &mut vhost,
                other => return Err(format!("unknown option '{other}'")),
            };
            if value.is_empty() {
                return Err(format!("{option} needs a value"));
            }
            if place.replace(value).is_some() {
                return Err(format!("{option} is given twice"));
            }
            rest = behind;
        }
        Ok(CtlArguments { command, url: address_source::url(url)?, vhost, is_json })
    }
}

#[cfg(test)]
mod tests {
    use super::CtlArguments;

    fn check(words: &[&str], expect: Result<(&str, &str, Option<&str>), &str>) {
        let order = CtlArguments::of(words);
        let found = order.as_ref().map(|order| (&*order.url.address, &*order.url.vhost, order.vhost));
        assert_eq!(found.map_err(|why| &**why), expect, "{words:?}");
    }

    #[test]
    fn words_are_understood_or_told() {
        check(&["definitions"], Ok(("127.0.0.1:5672", "/", None)));
        check(&["definitions", "--url", "amqp://a:b@h:1/v"], Ok(("h:1", "v", None)));
        check(&["definitions", "--url=amqp://h:1", "--vhost", "/"], Ok(("h:1", "/", Some("/"))));
        check(&["definitions", "--vhost=a=b"], Ok(("127.0.0.1:5672", "/", Some("a=b"))));
        check(&[], Err("ctl needs a command"));
        check(&["queues"], Err("unknown command 'ctl queues'"));
        check(&["definitions", "--json"], Err("unknown option '--json'"));
        check(&["store", "--url", "amqp://h:1", "--json"], Ok(("h:1", "/", None)));
        check(&["store", "--vhost", "a"], Err("unknown option '--vhost'"));
        check(&["definitions", "--vhost"], Err("--vhost needs a value"));
        check(&["definitions", "--vhost", "a", "--vhost=b"], Err("--vhost is given twice"));
        check(&["definitions", "--url", "h:1"], Err("'h:1': expected amqp://, amqps://, amqp+rdma:// or amqp+unix:"));
    }
}
