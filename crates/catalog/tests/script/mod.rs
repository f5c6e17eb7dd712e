//! A small language for tests: commands in, what they answered out.
//!
//! Enters: `bind x a.*.c q1; route x a.b.c`.  Leaves: `q1`, with ` | ` between the answers.
//! Owns:   a catalog with vhost `/`.
//!
//! Commands that succeed say nothing unless they ask something. `''` is an empty word.
#![allow(dead_code, reason = "each test file uses a part of the language")]

use catalog::{
    BindingDestination, Catalog, CatalogLimits, ConnectionSlot, Definition, DefinitionOutcome, ExchangeKind,
    ExecutedDefinition, Name, Refusal, RefusalScope, ResourceKind, SessionId, ShardId, VhostId,
};
use wire::{Properties, RawProperties, ShortString, Table, Value};

pub struct RoutingScript {
    pub catalog: Catalog,
    pub vhost: VhostId,
}

pub fn check(commands: &str, expected: &str) {
    assert_eq!(RoutingScript::new().run(commands), expected, "{commands}");
}

pub fn session(number: u32) -> SessionId {
    SessionId { shard: ShardId(0), slot: ConnectionSlot::new(number), serial: 1 }
}

pub fn value(text: &str) -> Value {
    match text {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "void" => return Value::Void,
        _ => {}
    }
    match text.split_once(':') {
        Some(("i16", number)) => Value::I16(number.parse().expect("an i16")),
        Some(("i64", number)) => Value::I64(number.parse().expect("an i64")),
        Some(("f64", number)) => Value::F64(number.parse().expect("an f64")),
        Some(("f32", number)) => Value::F32(number.parse().expect("an f32")),
        Some(("s", text)) => Value::text(text),
        _ => text.parse().map_or_else(|_| Value::text(text), Value::I32),
    }
}

pub fn table<'a>(words: impl IntoIterator<Item = &'a str>) -> Table {
    let entry = |word: &str| {
        let (name, text) = word.split_once('=').expect("name=value");
        (ShortString::try_from(name).expect("short"), value(text))
    };
    words.into_iter().map(entry).collect()
}

fn word(word: &str) -> &str {
    if word == "''" { "" } else { word }
}

fn name(kind: ResourceKind, text: &str) -> Result<Name, Refusal> {
    Name::new(kind, word(text).as_bytes())
}

impl RoutingScript {
    pub fn new() -> Self {
        Self::with(CatalogLimits::default())
    }

    pub fn with(limits: CatalogLimits) -> Self {
        let mut catalog = Catalog::new(limits);
        let executed = catalog.execute(&Definition::CreateVhost { name: "/".into() }).expect("a first vhost");
        let DefinitionOutcome::Vhost { id, created: true } = executed.outcome else { panic!("{executed:?}") };
        Self { catalog, vhost: id }
    }

    pub fn run(&mut self, commands: &str) -> String {
        let answers = commands.split(';').map(str::trim).filter(|command| !command.is_empty()).filter_map(|command| {
            self.command(command).unwrap_or_else(|refusal| {
                let end = if refusal.scope == RefusalScope::Connection { "connection " } else { "" };
                Some(format!("{end}{} {}", refusal.code.number(), refusal.text))
            })
        });
        answers.collect::<Vec<_>>().join(" | ")
    }

    pub fn execute(&mut self, definition: &Definition) -> Result<ExecutedDefinition, Refusal> {
        let version = self.catalog.version();
        let result = self.catalog.execute(definition);
        let changed = result.as_ref().is_ok_and(|executed| executed.changed);
        assert_eq!(self.catalog.version(), version + u64::from(changed), "{definition:?}");
        result
    }

    fn command(&mut self, command: &str) -> Result<Option<String>, Refusal> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["route", exchange, key, ref headers @ ..] => {
                return Ok(Some(self.route(word(exchange), word(key), headers)));
            }
            ["queues"] => {
                let names: Vec<&str> = self.catalog.queues().map(|(_, queue)| queue.name.as_str()).collect();
                return Ok(Some(names.join(" ")));
            }
            ["exchanges"] => {
                let names = self.catalog.exchanges().map(|(_, exchange)| exchange.name.as_str());
                let names: Vec<&str> = names.filter(|name| !name.is_empty() && !name.starts_with("amq.")).collect();
                return Ok(Some(names.join(" ")));
            }
            ["bindings", exchange] => return Ok(Some(self.bindings(word(exchange)))),
            ["use", queue, number] => {
                let session = session(number.parse().expect("a session"));
                self.catalog.queue_for(self.vhost, word(queue).as_bytes(), session)?;
                return Ok(None);
            }
            ["passive", exchange] => {
                self.catalog.exchange_for(self.vhost, word(exchange).as_bytes())?;
                return Ok(None);
            }
            ["publish", exchange] => {
                let name = word(exchange).as_bytes();
                let id = self.catalog.exchange(self.vhost, name);
                let id = id.ok_or_else(|| self.catalog.no_exchange(self.vhost, name))?;
                return self.catalog.check_publishable(id).map(|()| None);
            }
            _ => {}
        }
        let definition = self.definition(&words)?;
        let executed = self.execute(&definition)?;
        if executed.queues_removed.is_empty() {
            return Ok(None);
        }
        let names: Vec<&str> = executed.queues_removed.iter().map(|queue| queue.name.as_str()).collect();
        Ok(Some(format!("removed {}", names.join(" "))))
    }

    pub fn definition(&self, words: &[&str]) -> Result<Definition, Refusal> {
        let vhost = self.vhost;
        let flag = |flags: &[&str], flag: &str| flags.contains(&flag);
        let arguments = |flags: &[&str]| {
            table(flags.iter().copied().filter(|flag| flag.contains('=') && !flag.starts_with("session=")))
        };
        let of_session = |flags: &[&str]| {
            flags
                .iter()
                .find_map(|flag| flag.strip_prefix("session="))
                .map(|number| session(number.parse().expect("one")))
        };
        Ok(match *words {
            ["exchange", text, kind, ref flags @ ..] => Definition::DeclareExchange {
                vhost,
                kind: ExchangeKind::parse(word(kind).as_bytes())?,
                name: name(ResourceKind::Exchange, text)?,
                durable: flag(flags, "durable"),
                auto_delete: flag(flags, "auto-delete"),
                internal: flag(flags, "internal"),
                arguments: arguments(flags),
            },
            ["queue", text, ref flags @ ..] => Definition::DeclareQueue {
                vhost,
                name: name(ResourceKind::Queue, text)?,
                server_named: flag(flags, "server-named"),
                durable: flag(flags, "durable"),
                auto_delete: flag(flags, "auto-delete"),
                exclusive: of_session(flags),
                arguments: arguments(flags),
                home: ShardId(1),
            },
            [verb @ ("bind" | "unbind"), exchange, key, queue, ref flags @ ..] => {
                let (exchange, queue) = (name(ResourceKind::Exchange, exchange)?, name(ResourceKind::Queue, queue)?);
                let (routing_key, arguments, session) =
                    (word(key).as_bytes().into(), arguments(flags), of_session(flags));
                if verb == "bind" {
                    Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session }
                } else {
                    Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session }
                }
            }
            [verb @ ("bind-exchange" | "unbind-exchange"), source, key, destination, ref flags @ ..] => {
                let (source, destination) =
                    (name(ResourceKind::Exchange, source)?, name(ResourceKind::Exchange, destination)?);
                let (routing_key, arguments) = (word(key).as_bytes().into(), arguments(flags));
                if verb == "bind-exchange" {
                    Definition::BindExchange { vhost, source, destination, routing_key, arguments }
                } else {
                    Definition::UnbindExchange { vhost, source, destination, routing_key, arguments }
                }
            }
            ["delete-queue", text, ref flags @ ..] => {
                Definition::DeleteQueue { vhost, name: name(ResourceKind::Queue, text)?, session: of_session(flags) }
            }
            ["delete-exchange", text, ref flags @ ..] => Definition::DeleteExchange {
                vhost,
                name: name(ResourceKind::Exchange, text)?,
                if_unused: flag(flags, "if-unused"),
            },
            ["gone", number] => Definition::SessionGone { session: session(number.parse().expect("a session")) },
            ref other => panic!("no such command: {other:?}"),
        })
    }

    pub fn route(&mut self, exchange: &str, key: &str, headers: &[&str]) -> String {
        let id = self.catalog.exchange(self.vhost, exchange.as_bytes()).unwrap_or_else(|| panic!("no {exchange}"));
        let bytes = match headers {
            [] => Properties::default().to_bytes(),
            _ => Properties { headers: Some(table(headers.iter().copied())), ..Properties::default() }.to_bytes(),
        };
        let route = self.catalog.route(id, key.as_bytes(), RawProperties::new(&bytes));
        let mut names: Vec<&str> = route
            .queues
            .iter()
            .map(|queue| {
                let definition = self.catalog.queue_definition(queue.id).expect("routes lead to queues that are there");
                assert_eq!(definition.home, queue.home);
                definition.name.as_str()
            })
            .collect();
        names.sort_unstable();
        if names.is_empty() { "-".into() } else { names.join(" ") }
    }

    fn bindings(&self, exchange: &str) -> String {
        let id = self.catalog.exchange(self.vhost, exchange.as_bytes()).unwrap_or_else(|| panic!("no {exchange}"));
        let shown = self.catalog.bindings_from(id).map(|binding| {
            let to = match binding.destination {
                BindingDestination::Queue(id) => self.catalog.queue_definition(id).map(|queue| queue.name.clone()),
                BindingDestination::Exchange(id) => {
                    self.catalog.exchange_info(id).map(|exchange| exchange.name.clone())
                }
            };
            format!("{}>{}", String::from_utf8_lossy(binding.routing_key), to.expect("bindings lead somewhere"))
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}
