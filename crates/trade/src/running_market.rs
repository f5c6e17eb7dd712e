//! A running market: reporter, engine and gateways as processes, from the first order to the last answer.
//!
//! Owns the processes and the objects that they declared on the broker.

use std::path::Path;
use std::time::Duration;

use gauge::clock::now_ns;
use gauge::{NetworkMeter, NetworkUsage, RoleUsage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use super::engine::EngineTask;
use super::gateway::{GatewayStart, GatewayTask};
use super::market_address::MarketAddress;
use super::market_options::MarketLoad;
use super::market_roles::{EngineRole, FinishCommand, JournalFile, RoleResults};
use super::program_results::{EngineResults, GatewayResults};
use super::reporter::{ReporterResults, ReporterTask};
use crate::limits::MARKET_END_WAIT;
use harness::failure::CommandFailure;
use harness::launcher::has_ranks;
use harness::limits::ROLE_READY_WAIT;
use harness::placement::CpuPlacement;
use harness::role_handle::RoleHandle;
use harness::role_protocol::RoleReport;
use harness::run_recorder::check_interrupted;
use harness::target::{BenchmarkTarget, TargetAddress};
use harness::target_meter::TargetMeter;
use load::limits::{BEGIN_LEAD, ROLE_POLL_WAIT};

/// Parameters of one run.
pub(super) struct MarketRun<'a> {
    pub load: &'a MarketLoad,
    /// Orders a second of all gateways together; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// The reporter's file.
    pub file: Option<&'a Path>,
    /// After this many seconds the engine is killed, and another one replaces it.
    pub kill_engine_s: Option<f64>,
}

pub(super) struct MarketResults {
    pub traded: Vec<GatewayResults>,
    pub matched: EngineResults,
    pub reported: ReporterResults,
    /// Usage between the first order and the last answer; unknown for a killed engine.
    pub broker: Option<RoleUsage>,
    pub engine: Option<RoleUsage>,
    pub gateways: Option<RoleUsage>,
    /// Traffic between the broker and all others, in both directions; unknown under a launcher, where most are on other
    /// hosts.
    pub network: Option<NetworkUsage>,
}

/// Objects declared on the broker, deleted on drop.
struct DeclaredObjects(MarketAddress);

impl Drop for DeclaredObjects {
    fn drop(&mut self) {
        if let Err(error) = self.0.delete_all()
            && !harness::interrupt::requested()
        {
            cli::print_error(&format!(
                "harrier market: exchange and queues '{}…' may be left on the broker: {error}",
                self.0.name
            ));
        }
    }
}

/// The processes, in the order in which they end.
struct RunningMarket {
    gateways: Vec<RoleHandle>,
    engine: RoleHandle,
    reporter: RoleHandle,
    _declared: DeclaredObjects,
    /// The name of the journal, and its file for the case that the engine that would delete it is killed.
    journal: Option<String>,
    _scratch: Option<JournalFile>,
}

/// Runs a market once.
///
/// # Errors
/// A program or a broker failed; Ctrl-C.
pub(super) fn trade(
    run: &MarketRun<'_>,
    target: &BenchmarkTarget,
    placement: &CpuPlacement,
) -> Result<MarketResults, CommandFailure> {
    check_interrupted()?;
    let outcome = RunningMarket::start(run, target, placement).and_then(|market| market.trade(run, target, placement));
    outcome
        .map_err(|why| match target.exits_within(ROLE_POLL_WAIT) {
            true => format!("{}: the broker ended during the run ({why})", target.name),
            false => format!("{}: {why}", target.name),
        })
        .map_err(CommandFailure::from)
}

impl RunningMarket {
    fn start(run: &MarketRun<'_>, target: &BenchmarkTarget, placement: &CpuPlacement) -> Result<Self, String> {
        let TargetAddress::Amqp(url) = &target.address else { return Err("a market needs a broker".to_owned()) };
        let number = now_ns() as u32 ^ std::process::id().rotate_left(16);
        let place = MarketAddress { url: url.clone(), name: format!("hm{number:x}"), gateways: run.load.gateways };
        let declared = DeclaredObjects(place.clone());
        let journal = run.load.confirms.then(|| format!("harrier-market-{number:x}.journal"));
        let scratch = journal.as_deref().filter(|_| !has_ranks()).map(JournalFile::named);
        let task = ReporterTask { place: place.clone(), file: run.file.map(Path::to_owned) };
        // On this host even under a launcher, because its file is here.
        let reporter = RoleHandle::start_within(&[], "market-reporter", &task)?;
        let engine = engine(run.load, &place, journal.clone(), placement)?;
        let mut market =
            Self { gateways: Vec::new(), engine, reporter, _declared: declared, journal, _scratch: scratch };
        for gateway in 0..run.load.gateways {
            let task = GatewayTask {
                place: place.clone(),
                gateway,
                load: run.load.clone(),
                rate: run.rate.map(|rate| rate * run.load.orders_of(gateway) as f64 / run.load.orders as f64),
            };
            market.gateways.push(RoleHandle::start("market-gateway", &task, &placement.publisher)?);
        }
        market.reporter.ready(ROLE_READY_WAIT)?;
        market.engine.ready(ROLE_READY_WAIT)?;
        market.gateways.iter_mut().try_for_each(|role| role.ready(ROLE_READY_WAIT).map(drop))?;
        Ok(market)
    }

    fn trade(
        mut self,
        run: &MarketRun<'_>,
        target: &BenchmarkTarget,
        placement: &CpuPlacement,
    ) -> Result<MarketResults, String> {
        let mut broker = TargetMeter::of(target)?;
        let network = target.tcp_port().filter(|_| !has_ranks()).map(NetworkMeter::of_clients);
        broker.begin()?;
        let begin_ns = now_ns() + BEGIN_LEAD.as_nanos() as u64;
        self.gateways.iter_mut().try_for_each(|role| role.send_command(&GatewayStart { begin_ns }))?;
        let mut kill_ns = run.kill_engine_s.map(|seconds| begin_ns + (seconds * 1e9) as u64);
        let mut said: Vec<Option<RoleReport>> = self.gateways.iter().map(|_| None).collect();
        while let Some(waiting) = said.iter().position(Option::is_none) {
            if harness::interrupt::requested() {
                return Err(harness::interrupt::MESSAGE.to_owned());
            }
            let left_ns = kill_ns.map(|time_ns| time_ns.saturating_sub(now_ns()));
            if left_ns == Some(0) {
                kill_ns = None;
                self.replace_engine(run, placement)?;
                continue;
            }
            let wait = left_ns.map_or(ROLE_POLL_WAIT, |left_ns| ROLE_POLL_WAIT.min(Duration::from_nanos(left_ns)));
            said[waiting] = self.gateways[waiting].report_within(wait)?;
            // A failure is reported at once, not after the gateways' time-out.
            check_no_report(&mut self.engine)?;
            check_no_report(&mut self.reporter)?;
        }
        let broker = broker.end()?;
        let network = network.and_then(NetworkMeter::stop);
        let told =
            said.into_iter().flatten().map(parse_results).collect::<Result<Vec<RoleResults<GatewayResults>>, _>>()?;
        let gateways: RoleUsage = told.iter().map(|told| told.used).collect::<Vec<_>>().iter().collect();
        let matched: RoleResults<EngineResults> = finish_role(&mut self.engine)?;
        let reported: RoleResults<ReporterResults> = finish_role(&mut self.reporter)?;
        Ok(MarketResults {
            traded: told.into_iter().map(|told| told.found).collect(),
            matched: matched.found,
            reported: reported.found,
            broker,
            engine: matched.used.known().filter(|_| run.kill_engine_s.is_none()),
            gateways: gateways.known(),
            network,
        })
    }

    /// Kills the engine as a crash would, and starts another one with its journal.
    fn replace_engine(&mut self, run: &MarketRun<'_>, placement: &CpuPlacement) -> Result<(), String> {
        let pid = self.engine.pid().ok_or("the engine is not a process of this host")?;
        kill(Pid::from_raw(pid as i32), Signal::SIGKILL)
            .map_err(|error| format!("the engine cannot be killed: {error}"))?;
        self.engine = engine(run.load, &self._declared.0, self.journal.clone(), placement)?;
        self.engine.ready(ROLE_READY_WAIT).map(drop)
    }
}

fn engine(
    load: &MarketLoad,
    place: &MarketAddress,
    journal: Option<String>,
    placement: &CpuPlacement,
) -> Result<RoleHandle, String> {
    let task = EngineTask { place: place.clone(), load: load.clone(), journal: None, ends_with_gateways: false };
    RoleHandle::start("market-engine", &EngineRole { task, journal }, &placement.consumer)
}

/// Checks that a role is running and has not reported.
fn check_no_report(role: &mut RoleHandle) -> Result<(), String> {
    match role.report_within(Duration::ZERO)? {
        None => Ok(()),
        Some(other) => Err(format!("a program of the market sent {other:?} during the run")),
    }
}

/// Sends the command to end, and receives the results.
fn finish_role<T: DeserializeOwned>(role: &mut RoleHandle) -> Result<T, String> {
    role.send_command(&FinishCommand)?;
    parse_results(role.report(MARKET_END_WAIT)?)
}

fn parse_results<T: DeserializeOwned>(report: RoleReport) -> Result<T, String> {
    match report {
        RoleReport::Results(value) => {
            serde_json::from_value(value).map_err(|error| format!("a report not understood: {error}"))
        }
        other => Err(format!("a program of the market answered {other:?} instead of its results")),
    }
}
