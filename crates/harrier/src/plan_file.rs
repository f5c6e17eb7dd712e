//! Durable links and routes as `federation.toml` in the state folder.
//!
//! The file contains passwords; `StateFolder` makes it readable by its owner only.

use crate::checked_text;
use crate::state_folder::StateFolder;
use client::Url;
use client::peer::peer;
use definitions::{Json, toml_text};
use federation::{FederationPlan, LinkKey, LinkSpec, route_spec};
use std::fmt::Write;

/// Its name in the state folder.
pub const FILE: &str = "federation.toml";

/// Reads the stored plan, if there is one.
///
/// # Errors
/// The file cannot be read or is invalid; where.
pub fn load(folder: &StateFolder) -> Result<FederationPlan, String> {
    let named = |why: String| format!("{}: {why}", folder.path_of(FILE));
    match folder.read(FILE) {
        Ok(Some(text)) => read(&text).map_err(named),
        Ok(None) => Ok(FederationPlan::default()),
        Err(error) => Err(named(format!("cannot be read: {error}"))),
    }
}

/// Stores the durable part of a plan.
///
/// # Errors
/// The file cannot be written, and is unchanged.
pub fn store(folder: &StateFolder, plan: &FederationPlan) -> Result<(), String> {
    let written = folder.write(FILE, &checked_text::seal(&text(plan)));
    written.map_err(|error| format!("{} cannot be written: {error}", folder.path_of(FILE)))
}

fn text(plan: &FederationPlan) -> String {
    let mut out = String::from(
        "# Durable links and routes to other brokers, with passwords. Written by the broker at each change of them:\n\
         # edit it only while the broker does not run, and remove the last line, the checksum of the others.\n",
    );
    for planned in plan.durable().links() {
        let LinkSpec { key, url, user, .. } = &planned.link;
        let [vhost, url, user] = [&*key.vhost, url, user].map(config::quoted);
        let _infallible = write!(out, "\n[[link]]\nvhost = {vhost}\nurl = {url}\nuser = {user}\n");
        for route in &planned.routes {
            out.push_str("\n[[link.route]]\n");
            for (name, value) in route_spec::entries(route) {
                let value = match value {
                    Json::Text(text) => config::quoted(&text),
                    other => other.line(),
                };
                let _infallible = writeln!(out, "{name} = {value}");
            }
        }
    }
    out
}

fn read(text: &str) -> Result<FederationPlan, String> {
    // The broker writes no empty file, which would be read as the wish to have no links.
    if text.trim().is_empty() {
        return Err(
            "it is empty, so its links and routes are lost: restore it, or delete it to begin without any".to_owned()
        );
    }
    // Whoever edits it removes the checksum, and earlier versions wrote none.
    checked_text::check(text)?;
    let file = toml_text::read(text)?;
    let mut plan = FederationPlan::default();
    toml_text::only(&file, &["link"])?;
    for (at, link) in toml_text::tables(&file, "link")?.iter().enumerate() {
        let place = |why: String| format!("link {}: {why}", at + 1);
        toml_text::only(link, &["vhost", "url", "user", "route"]).map_err(place)?;
        let entry = |name: &str| {
            let text = route_spec::text(link, name).map_err(place)?;
            text.ok_or_else(|| place(format!("{name} is missing")))
        };
        let url = entry("url")?;
        let parsed = Url::parse(url).map_err(|_| place("url: not the address of a broker".to_owned()))?;
        let key = LinkKey::of_operator(entry("vhost")?.into(), peer(&parsed).into());
        if plan.link(&key).is_some() {
            return Err(place(format!("there are two links to {}", key.peer)));
        }
        let spec = LinkSpec {
            key: key.clone(),
            url: url.into(),
            user: entry("user")?.into(),
            durable: true,
            options: Default::default(),
        };
        plan.add_link(spec, &[]).map_err(|why| place(why.to_string()))?;
        for (number, route) in toml_text::tables(link, "route").map_err(place)?.iter().enumerate() {
            let place = |why: String| place(format!("route {}: {why}", number + 1));
            toml_text::only(route, &route_spec::ENTRIES).map_err(place)?;
            let route = route_spec::read(route).map_err(place)?;
            plan.add_route(&key, route).map_err(|why| place(why.to_string()))?;
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::{read, text};
    use crate::checked_text;
    use client::Url;
    use client::peer::peer;
    use definitions::{Json, toml_text};
    use federation::{FederationPlan, LinkKey, LinkSpec, route_spec};

    #[test]
    fn what_is_durable_is_read_as_it_was_written() {
        let mut plan = FederationPlan::default();
        for (vhost, url) in [("/", "amqp://a:p%22w@host:1"), ("shop\\", "amqp+unix://a:b@/run/x.sock?vhost=v")] {
            let key = LinkKey::of_operator(vhost.into(), peer(&Url::parse(url).expect("an address")).into());
            let link = LinkSpec {
                key: key.clone(),
                url: url.into(),
                user: "gu\"est".into(),
                durable: true,
                options: Default::default(),
            };
            plan.add_link(link, &[]).expect("a link");
            for route in [
                r#"{"exchange":"x","durable":true,"credit":7}"#,
                r#"{"exchange":"x","key":"a\"b\u0001","durable":true,"ack":"none"}"#,
                r#"{"exchange":"y","queue":"q","direction":"push","durable":true,"forced":true}"#,
            ] {
                let route = route_spec::read(&Json::read(route.as_bytes()).expect("JSON")).expect("a route");
                plan.add_route(&key, route).expect("a route");
            }
        }
        // Those of earlier versions have no checksum, nor have those that somebody has edited.
        for written in [text(&plan), checked_text::seal(&text(&plan))] {
            assert_eq!(read(&written), Ok(plan.clone()));
        }
        assert_eq!(read(&text(&FederationPlan::default())), Ok(FederationPlan::default()));
        let changed = checked_text::seal(&text(&plan)).replace("host:1", "host:2");
        let why = read(&changed).expect_err("another address");
        assert!(why.contains("its checksum differs"), "{why}");
    }

    #[test]
    fn what_is_quoted_is_read_as_it_was() {
        for letters in ["", "a\"b\\c", "\u{0}\n\t\u{7f}é"] {
            let value = toml_text::read(&format!("x = {}\n", config::quoted(letters))).expect("TOML");
            assert_eq!(value.get("x"), Some(&Json::text(letters)));
        }
    }

    #[test]
    fn what_is_no_plan_is_told() {
        let link = "[[link]]\nvhost = \"/\"\nurl = \"amqp://a:secret@h\"\nuser = \"u\"\n";
        let lost = "it is empty, so its links and routes are lost: restore it, or delete it to begin without any";
        for (text, expect) in [
            (String::new(), lost),
            ("\n \n".to_owned(), lost),
            ("link = 1".to_owned(), "link: tables are needed, [[link]], not a whole number"),
            ("links = []".to_owned(), "'links' is not known here; there may be link"),
            ("[[link]]\nurl = \"h\"\n".to_owned(), "link 1: url: not the address of a broker"),
            ("[[link]]\nurl = \"amqp://h\"\n".to_owned(), "link 1: vhost is missing"),
            (format!("{link}{link}"), "link 2: there are two links to amqp://h:5672"),
            (format!("{link}[[link.route]]\nkey = \"a\"\n"), "link 1: route 1: exchange: a route has one"),
            (
                format!("{link}[[link.route]]\nexchange = \"x\"\n[[link.route]]\nexchange = \"x\"\n"),
                "link 1: route 2: duplicate route: the link to amqp://h:5672 has x(<dynamic>) already",
            ),
        ] {
            let why = read(&text).expect_err("refused");
            assert!(why == expect && !why.contains("secret"), "{why}");
        }
    }
}
