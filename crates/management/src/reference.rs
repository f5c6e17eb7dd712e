//! The reference page and the OpenAPI document, made from the table of routes.

use crate::limits;
use crate::route::{HttpMethod, RequiredTag, Route, RouteScope};
use crate::routes::ROUTES;
use definitions::Json;
use std::fmt::Write;

const HEAD: &str = "# The management API

<!-- Generated from the table of routes: cargo run -p harrier-management --example reference -- page -->

The paths, methods and tags of the HTTP API, which is RabbitMQ's 3.10 with the fields that 4.x added.
A name in a path is escaped once: the virtual host `/` is `%2F`, the default exchange is
`amq.default`, and a slash at the end counts for nothing. Every GET can be a HEAD; OPTIONS needs no
login and lists the methods of a path. [An OpenAPI document](management/openapi.json) has the same
routes for programs.

The tag is what a user needs: *any* is one of `management`, `policymaker`, `monitoring` and
`administrator`; *owner* is any of them for what is the user's own, `monitoring` to see what others
have, and `administrator` to change it. Where *vhost* is marked, the user needs some permission in the
virtual host that the path names; an administrator needs none. Declaring, publishing, getting, purging
and binding take the same permissions as over AMQP.

## Lists
A list is an array. With `page` it is an object with `items` and counts: `page_size` is 100, and at
most PAGE_ROWS; `name` selects the names that contain it, and with `use_regex=true` those that the
regular expression (PATTERN_BYTES bytes at most) is found in. `sort` names a field, with dots for a
field in an object, and `sort_reverse=true` turns the order round. `columns=name,messages` leaves the other fields
out of any answer. `disable_stats=true` leaves the counts out of queues, and with
`enable_queue_totals=true` all but the numbers of messages.

## Changes
Bodies are JSON whatever their type says; an empty one is an object without fields, and fields that mean
nothing are ignored. Booleans and numbers may be texts (`\"true\"`, `\"5\"`), `arguments` and
`properties` an empty list. What the body leaves out is as in AMQP: an exchange is direct, exchanges
and queues are transient. Names have 255 bytes at most. Queues take turns on the shards.
- *Users*: `password`, or `password_hash` with `hashing_algorithm`
  (`rabbit_password_hashing_sha256`, `harrier_argon2`); without either, or with an empty one, no password
  lets the user in. `tags` is a list, or a text with commas, and must be there. A password is kept as its
  salted SHA-256.
- *Virtual hosts*: `description`, `tags`, `metadata`, `default_queue_type` and `tracing` are shown and
  exported, and have no effect. One that is protected is not deleted.
- *Bindings*: POST answers 201 with `Location`, relative to the path: destination and key of the
  properties, escaped once more.
- *Policies, limits, parameters*: the rules of [definitions files](operations/definitions.md).
- *Parameters* are those of [federation and shovels](operations/upstreams-and-shovels.md), at most
  PARAMETERS_KEPT of PARAMETER_BYTES bytes. A key that would have no effect here is refused. Beside
  RabbitMQ's keys an entry has `user`, in whose name its links act: who has set it. Passwords in
  addresses are shown to administrators alone. Global parameters have no effect.
- *Definitions files* add to what is there. Policies and parameters replace those of their names;
  exchanges and queues must be new, or the same. A file with a fault changes nothing.

Each change is a line of the log, target `audit`: who, from where, route, names, and the status of the
answer, or that the client left before there was one. Bodies and queries are not in it.

## Answers
| status | when |
|---|---|
| 200 | the answer is in the body |
| 201, 204 | it was created; it was there already, or is gone |
| 400 | the request is malformed, or the broker refuses it: `reason` says why |
| 401 | no login, a wrong one, or a user without the tag or permission |
| 403 | a browser sent a change for another site, or asked by a name that is not this host's |
| 404, 405 | there is no such path or object; the path has other methods, which `Allow` lists |
| 412 | the virtual host is protected from deletion |
| 413, 414, 431 | the body, the path or the headers are too long |
| 503 | too many connections or long answers, or the broker stops |
";

/// The reference page, `docs/management.md`.
pub fn reference() -> String {
    let mut page = HEAD
        .replace("PAGE_ROWS", &limits::PAGE_ROWS_MAX.to_string())
        .replace("PARAMETERS_KEPT", &limits::PARAMETERS_KEPT_MAX.to_string())
        .replace("PARAMETER_BYTES", &limits::PARAMETER_BYTES_MAX.to_string())
        .replace("PATTERN_BYTES", &limits::PATTERN_BYTES_MAX.to_string());
    for (heading, routes) in ROUTES {
        let written = write!(page, "\n## {heading}\n| method | path | tag | vhost | |\n|---|---|---|---|---|\n");
        written.expect("text can be written");
        for route in *routes {
            let scope = match route.scope {
                RouteScope::Vhost => "yes",
                RouteScope::VisibleVhost => "yes, or monitoring",
                RouteScope::Anywhere => "",
            };
            let (method, tag) = (route.method.name(), route.tag.name());
            let row = writeln!(page, "| {method} | `{}` | {tag} | {scope} | {} |", route.pattern, route.does);
            row.expect("text can be written");
        }
    }
    page
}

fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into())
}

/// The OpenAPI 3.0 document, `docs/management/openapi.json`.
pub fn openapi() -> String {
    let mut paths: Vec<(String, Vec<(String, Json)>)> = Vec::new();
    for (heading, route) in
        ROUTES.iter().flat_map(|(heading, routes)| routes.iter().map(move |route| (*heading, route)))
    {
        let entry = (route.method.name().to_lowercase(), operation(heading, route));
        match paths.iter_mut().find(|(pattern, _)| pattern == route.pattern) {
            Some((_, methods)) => methods.push(entry),
            None => paths.push((route.pattern.to_owned(), vec![entry])),
        }
    }
    let about = "RabbitMQ's management API as Harrier answers it. Generated from the table of routes.";
    let basic = object([("type", Json::text("http")), ("scheme", Json::text("basic"))]);
    let info = object([
        ("title", Json::text("Harrier management API")),
        ("description", Json::text(about)),
        ("version", Json::text("3.10.8")),
    ]);
    let components = object([("securitySchemes", object([("basic", basic)]))]);
    // A line for each operation, so that a change of the table is a change of few lines.
    let paths = paths.into_iter().map(|(pattern, methods)| {
        let methods = methods.into_iter().map(|(name, operation)| format!("      \"{name}\": {}", operation.line()));
        format!("    {}: {{\n{}\n    }}", Json::Text(pattern).line(), methods.collect::<Vec<_>>().join(",\n"))
    });
    format!(
        "{{\n  \"openapi\": \"3.0.3\",\n  \"info\": {},\n  \"components\": {},\n  \"paths\": {{\n{}\n  }}\n}}\n",
        info.line(),
        components.line(),
        paths.collect::<Vec<_>>().join(",\n")
    )
}

fn operation(heading: &str, route: &Route) -> Json {
    let parts = route.pattern.split('/');
    let names = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters = names.map(|name| {
        let schema = match name {
            "kind" => {
                object([("type", Json::text("string")), ("enum", Json::List(vec![Json::text("q"), Json::text("e")]))])
            }
            _ => object([("type", Json::text("string"))]),
        };
        object([
            ("name", Json::text(name)),
            ("in", Json::text("path")),
            ("required", Json::Bool(true)),
            ("schema", schema),
        ])
    });
    let security = match route.tag {
        RequiredTag::Open => Vec::new(),
        _ => vec![object([("basic", Json::List(Vec::new()))])],
    };
    let mut responses = vec![("200", "The answer."), ("401", "Not authorised."), ("404", "Not found.")];
    if route.method.is_change() {
        responses.extend([("201", "Created."), ("204", "Done."), ("400", "Refused; the reason says why.")]);
    }
    responses.sort_unstable();
    let responses =
        responses.into_iter().map(|(code, text)| (code.to_owned(), object([("description", Json::text(text))])));
    let mut fields = vec![
        ("tags".to_owned(), Json::List(vec![Json::text(heading)])),
        ("summary".to_owned(), Json::text(route.does)),
        ("x-harrier-tag".to_owned(), Json::text(route.tag.name())),
        ("security".to_owned(), Json::List(security)),
        ("parameters".to_owned(), Json::List(parameters.collect())),
    ];
    if matches!(route.method, HttpMethod::Put | HttpMethod::Post) {
        let json = object([("schema", object([]))]);
        fields.push(("requestBody".to_owned(), object([("content", object([("application/json", json)]))])));
    }
    fields.push(("responses".to_owned(), Json::Object(responses.collect())));
    Json::Object(fields)
}
