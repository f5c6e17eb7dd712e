//! A market that stands: reporter, engine and gateways as processes of their own, from the first to the last answer.
//!
//! Enters: a broker, a load, a rate.  Leaves: what every program found and used.
//! Owns:   the processes, what they declared on the broker, the time at which gateways begin.
//! Never:  judges a figure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gauge::clock::now_ns;
use gauge::{Meter, Network, NetworkMeter, RoleUsage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use super::asked::Load;
use super::engine::EngineTask;
use super::found::{Matched, Traded};
use super::gateway::{Begin, GatewayTask};
use super::place::Place;
use super::reporter::{Reported, ReporterTask};
use crate::failure::Failure;
use crate::launcher::{Watch, has_ranks};
use crate::limits::{BEGIN_LEAD, MARKET_END_WAIT, ROLE_LOOK_WAIT, ROLE_READY_WAIT};
use crate::placement::{Cpus, Placement};
use crate::plan::Report;
use crate::process::Role;
use crate::record::go_on;
use crate::target::{Target, Way};

/// One run of a market.
pub(super) struct Wish<'a> {
    pub load: &'a Load,
    /// Orders a second, of all gateways together; `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// Where the reporter writes.
    pub file: Option<&'a Path>,
    /// After so many seconds the engine is killed, and another one takes its place.
    pub kill_engine_s: Option<f64>,
}

/// What became of it.
pub(super) struct Outcome {
    pub traded: Vec<Traded>,
    pub matched: Matched,
    pub reported: Reported,
    /// What was used between the first order and the last answer.
    pub broker: Option<RoleUsage>,
    pub engine: Option<RoleUsage>,
    pub gateways: Option<RoleUsage>,
    /// Between the broker and all others, both ways.
    pub network: Option<Network>,
}

/// What was declared on the broker; deleted with this.
struct Declared(Place);

impl Drop for Declared {
    fn drop(&mut self) {
        if let Err(error) = self.0.clear()
            && !crate::interrupt::requested()
        {
            eprintln!("harrier market: exchange and queues '{}…' may be left on the broker: {error}", self.0.name);
        }
    }
}

/// A journal that goes with the market.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that was never made is gone already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// The processes. The order of the fields is that in which they end.
struct Stand {
    gateways: Vec<Role>,
    engine: Role,
    reporter: Role,
    _declared: Declared,
    journal: Option<Scratch>,
}

/// Runs a market once.
///
/// # Errors
/// A program or a broker that failed; Ctrl-C.
pub(super) fn trade(wish: &Wish<'_>, target: &Target, placement: &Placement) -> Result<Outcome, Failure> {
    go_on()?;
    let outcome = Stand::up(wish, target, placement).and_then(|stand| stand.trade(wish, target, placement));
    outcome
        .map_err(|why| match target.ends_within(ROLE_LOOK_WAIT) {
            true => format!("{}: the broker has ended in the middle of the run ({why})", target.name),
            false => format!("{}: {why}", target.name),
        })
        .map_err(Failure::from)
}

impl Stand {
    fn up(wish: &Wish<'_>, target: &Target, placement: &Placement) -> Result<Self, String> {
        if has_ranks() {
            return Err("a market is started on one host: on many, start each of its programs there".to_owned());
        }
        let Way::Amqp(url) = &target.way else { return Err("a market needs a broker".to_owned()) };
        let number = now_ns() as u32 ^ std::process::id().rotate_left(16);
        let place = Place { url: url.clone(), name: format!("hm{number:x}"), gateways: wish.load.gateways };
        let declared = Declared(place.clone());
        let journal = wish
            .load
            .confirms
            .then(|| Scratch(std::env::temp_dir().join(format!("harrier-market-{number:x}.journal"))));
        let task = ReporterTask { place: place.clone(), file: wish.file.map(Path::to_owned) };
        let reporter = Role::start("market-reporter", &task, &Cpus::default())?;
        let engine = engine(wish.load, &place, journal.as_ref(), placement)?;
        let mut stand = Self { gateways: Vec::new(), engine, reporter, _declared: declared, journal };
        for gateway in 0..wish.load.gateways {
            let task = GatewayTask {
                place: place.clone(),
                gateway,
                load: wish.load.clone(),
                rate: wish.rate.map(|rate| rate * wish.load.orders_of(gateway) as f64 / wish.load.orders as f64),
            };
            stand.gateways.push(Role::start("market-gateway", &task, &placement.publisher)?);
        }
        stand.reporter.ready(ROLE_READY_WAIT)?;
        stand.engine.ready(ROLE_READY_WAIT)?;
        stand.gateways.iter_mut().try_for_each(|role| role.ready(ROLE_READY_WAIT).map(drop))?;
        Ok(stand)
    }

    fn trade(mut self, wish: &Wish<'_>, target: &Target, placement: &Placement) -> Result<Outcome, String> {
        let mut broker = Watch::of(target)?;
        let network = target.tcp_port().map(NetworkMeter::of_clients);
        let pids: Vec<u32> = self.gateways.iter().filter_map(Role::pid).collect();
        let (gateways, mut engine) = (Meter::start(&pids), Some(meter(&self.engine)));
        broker.begin()?;
        let begin_ns = now_ns() + BEGIN_LEAD.as_nanos() as u64;
        self.gateways.iter_mut().try_for_each(|role| role.order(&Begin { begin_ns }))?;
        let mut kill_ns = wish.kill_engine_s.map(|seconds| begin_ns + (seconds * 1e9) as u64);
        let mut said: Vec<Option<Report>> = self.gateways.iter().map(|_| None).collect();
        while let Some(waiting) = said.iter().position(Option::is_none) {
            if crate::interrupt::requested() {
                return Err(crate::interrupt::MESSAGE.to_owned());
            }
            let left_ns = kill_ns.map(|time_ns| time_ns.saturating_sub(now_ns()));
            if left_ns == Some(0) {
                kill_ns = None;
                engine = None;
                self.replace_engine(wish, placement)?;
                continue;
            }
            let wait = left_ns.map_or(ROLE_LOOK_WAIT, |left_ns| ROLE_LOOK_WAIT.min(Duration::from_nanos(left_ns)));
            said[waiting] = self.gateways[waiting].report_within(wait)?;
            // Who failed is told at once, and not when the gateways have lost their patience.
            silent(&mut self.engine)?;
            silent(&mut self.reporter)?;
        }
        let broker = broker.end()?;
        let network = network.and_then(NetworkMeter::stop);
        let (engine, gateways) = (engine.and_then(|meter| meter.stop().known()), gateways.stop().known());
        let traded = said.into_iter().flatten().map(found).collect::<Result<Vec<Traded>, _>>()?;
        let matched = end(&mut self.engine)?;
        let reported = end(&mut self.reporter)?;
        Ok(Outcome { traded, matched, reported, broker, engine, gateways, network })
    }

    /// Kills the engine as a crash would, and starts another one with its journal.
    fn replace_engine(&mut self, wish: &Wish<'_>, placement: &Placement) -> Result<(), String> {
        let pid = self.engine.pid().ok_or("the engine is no process of this host")?;
        kill(Pid::from_raw(pid as i32), Signal::SIGKILL)
            .map_err(|error| format!("the engine cannot be killed: {error}"))?;
        self.engine = engine(wish.load, &self._declared.0, self.journal.as_ref(), placement)?;
        self.engine.ready(ROLE_READY_WAIT).map(drop)
    }
}

fn engine(load: &Load, place: &Place, journal: Option<&Scratch>, placement: &Placement) -> Result<Role, String> {
    let journal = journal.map(|scratch| scratch.0.clone());
    let task = EngineTask { place: place.clone(), load: load.clone(), journal, ends_with_gateways: false };
    Role::start("market-engine", &task, &placement.consumer)
}

fn meter(role: &Role) -> Meter {
    Meter::start(&role.pid().into_iter().collect::<Vec<_>>())
}

/// A role that has nothing to say yet, and did not end.
fn silent(role: &mut Role) -> Result<(), String> {
    match role.report_within(Duration::ZERO)? {
        None => Ok(()),
        Some(other) => Err(format!("a program of the market said {other:?} in the middle of the run")),
    }
}

/// Tells a program to end, and takes what it found.
fn end<T: DeserializeOwned>(role: &mut Role) -> Result<T, String> {
    let pid = role.pid().ok_or("a program of the market is no process of this host")?;
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).map_err(|error| format!("it cannot be told to end: {error}"))?;
    found(role.report(MARKET_END_WAIT)?)
}

fn found<T: DeserializeOwned>(report: Report) -> Result<T, String> {
    match report {
        Report::Found(value) => {
            serde_json::from_value(value).map_err(|error| format!("a report not understood: {error}"))
        }
        other => Err(format!("a program of the market answered {other:?} instead of what it found")),
    }
}
