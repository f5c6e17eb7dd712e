//! Asks a management API from a thread of its own, at intervals or one question after another, and times the answers.

use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use ureq::Agent;

use crate::limits::{PERF_HTTP_ANSWER_BYTES_MAX, PERF_HTTP_WAIT};
use gauge::clock::now_ns;

/// `guest:guest`, the user that a broker without users has.
const AUTHORIZATION: &str = "Basic Z3Vlc3Q6Z3Vlc3Q=";

/// Where a broker's API and its metrics are: two listeners, since each is at a port that the system has chosen.
#[derive(Clone, Debug)]
pub(crate) struct HttpOrigins {
    api: String,
    metrics: String,
}

impl HttpOrigins {
    /// Those of a broker that says this of its listeners: the API is before the metrics.
    pub fn of(management: &[String]) -> Result<Self, String> {
        match management {
            [api, metrics] => Ok(Self { api: format!("http://{api}"), metrics: format!("http://{metrics}") }),
            other => {
                Err(format!("the broker does not say where its API and its metrics are, but '{}'", other.join(" ")))
            }
        }
    }

    /// Of one listener for both.
    pub fn of_one(address: SocketAddr) -> Self {
        let origin = format!("http://{address}");
        Self { api: origin.clone(), metrics: origin }
    }

    fn url(&self, path: &str) -> String {
        let origin = if path.starts_with("/metrics") { &self.metrics } else { &self.api };
        format!("{origin}{path}")
    }
}

/// What is asked for in a round, given its number.
pub(crate) type AskedPaths = fn(usize) -> &'static [&'static str];

/// Asks until it is told to stop.
pub(crate) struct HttpObserver {
    stop: Sender<()>,
    thread: JoinHandle<Result<Vec<f64>, String>>,
}

impl HttpObserver {
    /// Begins to ask for the paths of `asked`, given the number of the round, and rests so long after each round.
    pub fn start(origins: &HttpOrigins, asked: AskedPaths, rest: Duration) -> Result<Self, String> {
        let (stop, stopped) = mpsc::channel();
        let origins = origins.clone();
        let observe = move || {
            let agent = agent();
            let mut answers_ms = Vec::new();
            for round in 0.. {
                for path in asked(round) {
                    answers_ms.push(answer(&agent, &origins, path)?.0);
                }
                match stopped.recv_timeout(rest) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            Ok(answers_ms)
        };
        let thread = std::thread::Builder::new().name("observer".to_owned()).spawn(observe);
        Ok(Self { stop, thread: thread.map_err(|error| format!("a thread cannot be started: {error}"))? })
    }

    /// How long each answer took in milliseconds, the shortest first.
    ///
    /// # Errors
    /// An answer that did not come, or another status than 200.
    pub fn finish(self) -> Result<Vec<f64>, String> {
        // Fails only if the thread has ended with an error, which follows.
        drop(self.stop);
        let mut answers_ms =
            self.thread.join().map_err(|_panicked| "the thread that asks has panicked".to_owned())??;
        answers_ms.sort_by(f64::total_cmp);
        Ok(answers_ms)
    }
}

/// One answer.
pub(crate) fn ask(origins: &HttpOrigins, path: &str) -> Result<String, String> {
    Ok(answer(&agent(), origins, path)?.1)
}

fn agent() -> Agent {
    // The broker is on this machine, whatever proxy the environment names.
    let limits = Agent::config_builder().proxy(None).timeout_global(Some(PERF_HTTP_WAIT));
    limits.http_status_as_error(false).build().into()
}

/// How long an answer took in milliseconds, and what it was.
fn answer(agent: &Agent, origins: &HttpOrigins, path: &str) -> Result<(f64, String), String> {
    let failed = |error: ureq::Error| format!("GET {path}: {error}");
    let began_ns = now_ns();
    let mut answer = agent.get(origins.url(path)).header("authorization", AUTHORIZATION).call().map_err(failed)?;
    let body = answer.body_mut().with_config().limit(PERF_HTTP_ANSWER_BYTES_MAX).read_to_string().map_err(failed)?;
    let elapsed_ms = (now_ns() - began_ns) as f64 / 1e6;
    match answer.status().as_u16() {
        200 => Ok((elapsed_ms, body)),
        status => Err(format!("GET {path}: {status} {body}")),
    }
}
