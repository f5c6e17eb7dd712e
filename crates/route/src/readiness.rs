//! Waits until an added link, and its route, run.
//!
//! Waiting ends at once if the link cannot run without someone's intervention.

use crate::listing::{flag, list, text};
use crate::{LinkEnds, RouteFailure, RouteOptions, begin, named, refused};
use definitions::Json;
use federation::{RouteSpec, route_spec};
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[expect(clippy::disallowed_methods, reason = "who waits at a terminal must know when to end")]
fn now() -> Instant {
    Instant::now()
}

/// Waits, if `--wait` is given.
pub fn wait_until_running(
    ends: &LinkEnds,
    route: Option<&RouteSpec>,
    options: &RouteOptions,
) -> Result<(), RouteFailure> {
    let Some(wait) = options.wait.filter(|_| !options.dry_run) else { return Ok(()) };
    let until = now() + wait;
    let mut conversation = begin(&ends.near, options)?;
    let outcome = loop {
        let reply = conversation.ask("links", vec![("vhost", Json::text(&ends.near.url.vhost))])?;
        let stands = RouteReadiness::of(&reply, &ends.far.peer(), route);
        match stands {
            RouteReadiness::Running => break Ok(()),
            RouteReadiness::Failed(why) => break Err(why),
            RouteReadiness::Pending(why) if now() >= until => {
                break Err(format!("{why}; gave up after {} s", wait.as_secs()));
            }
            RouteReadiness::Pending(_) => conversation.pause(POLL_INTERVAL)?,
        }
    };
    conversation.end();
    outcome.or_else(|why| refused(format!("{} {why}", named(ends))))
}

/// The state of a link and its route.
#[derive(Debug, PartialEq, Eq)]
enum RouteReadiness {
    Running,
    /// It may still start to run; its current state.
    Pending(String),
    /// It cannot run without intervention; why.
    Failed(String),
}

impl RouteReadiness {
    fn of(reply: &Json, peer: &str, route: Option<&RouteSpec>) -> Self {
        let Some(link) = list(reply, "links").iter().find(|link| text(link, "peer") == peer) else {
            return RouteReadiness::Failed("was removed meanwhile".to_owned());
        };
        let state = text(link, "state");
        let why = match (text(link, "why"), text(link, "last_error")) {
            ("", "") => String::new(),
            ("", why) | (why, _) => format!(": {why}"),
        };
        let Some(route) = route else {
            return match state {
                "running" => RouteReadiness::Running,
                "idle" => RouteReadiness::Failed("is idle: it has no routes, and connects with the first".to_owned()),
                _ => RouteReadiness::Pending(format!("is {state}{why}")),
            };
        };
        let is = |known: &Json| route_spec::read(known).is_ok_and(|known| known.carries_same(route));
        let Some(known) = list(link, "routes").iter().find(|known| is(known)) else {
            return RouteReadiness::Failed(format!("has no route {} any more", route.title()));
        };
        match (flag(known, "runs"), text(known, "error")) {
            (true, _) => RouteReadiness::Running,
            (false, "") => RouteReadiness::Pending(format!("is {state}{why}")),
            (false, error) => {
                RouteReadiness::Pending(format!("is {state}, and its route {} waits: {error}", route.title()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RouteReadiness;
    use definitions::Json;
    use federation::route_spec;

    #[test]
    fn what_does_not_run_says_why() {
        let told = |link: &str, with_route: bool| {
            let reply = Json::read(format!("{{\"links\":[{{\"peer\":\"a\",{link}}}]}}").as_bytes()).expect("JSON");
            let route = Json::read(br#"{"exchange":"x"}"#).expect("JSON");
            let route = route_spec::read(&route).expect("a route");
            match RouteReadiness::of(&reply, "a", with_route.then_some(&route)) {
                RouteReadiness::Running => "runs".to_owned(),
                RouteReadiness::Pending(why) => why,
                RouteReadiness::Failed(why) => format!("never: {why}"),
            }
        };
        assert_eq!(told(r#""state":"running""#, false), "runs");
        assert!(told(r#""state":"idle""#, false).starts_with("never: is idle: it has no routes"));
        assert_eq!(told(r#""state":"connecting""#, false), "is connecting");
        assert_eq!(told(r#""state":"refused","why":"403","last_error":"403""#, false), "is refused: 403");
        assert_eq!(told(r#""state":"connecting","last_error":"lost""#, false), "is connecting: lost");
        let with = |route: &str| told(&format!(r#""state":"running","routes":[{route}]"#), true);
        assert_eq!(with(r#"{"exchange":"x","runs":true}"#), "runs");
        assert_eq!(
            with(r#"{"exchange":"x","runs":false,"error":"no"}"#),
            "is running, and its route x(<dynamic>) waits: no"
        );
        assert_eq!(with(r#"{"exchange":"y","runs":true}"#), "never: has no route x(<dynamic>) any more");
        assert_eq!(
            RouteReadiness::of(&Json::Null, "a", None),
            RouteReadiness::Failed("was removed meanwhile".to_owned())
        );
    }
}
