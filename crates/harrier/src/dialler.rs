//! Connects to other brokers for federation links.
//!
//! Each dial has a thread of its own, since name resolution and connecting take time. Retries are the link's decision.
//! RDMA devices are opened by the port that owns them.

use crate::own_process::OwnProcess;
use client::{Client, ClientError, ConnectOptions, DialPlan, RdmaDialRequest, Url};
use federation::LinkLogin;
use shard::{DialCallback, DialError, DialFallback, DialProgress, DialedLink, RdmaDial};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Time limit for connecting.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Dials with the client library, and within the process.
pub struct Dialler(pub OwnProcess);

impl shard::BrokerDialler for Dialler {
    fn dial(&self, url: &str, tell: DialCallback) {
        if let Some(connected) = self.0.dial(url) {
            return tell(connected);
        }
        let url = url.to_owned();
        on_a_thread(tell, move |tell| dial(&url, tell));
    }
}

fn on_a_thread(tell: DialCallback, work: impl FnOnce(DialCallback) + Send + 'static) {
    // A dial that gets no thread must be answered as well.
    let tell = Arc::new(Mutex::new(Some(tell)));
    let told = Arc::clone(&tell);
    let take = |tell: &Mutex<Option<DialCallback>>| tell.lock().unwrap_or_else(PoisonError::into_inner).take();
    let thread = std::thread::Builder::new().name("dial".to_owned());
    let spawned = thread.spawn(move || {
        if let Some(tell) = take(&tell) {
            work(tell);
        }
    });
    if let Err(error) = spawned
        && let Some(tell) = take(&told)
    {
        tell(Err(DialError { text: format!("no thread to dial on: {error}").into(), is_refusal: false }));
    }
}

fn options() -> ConnectOptions {
    ConnectOptions { answer_wait: DIAL_TIMEOUT, ..ConnectOptions::default() }
}

fn dial(url: &str, tell: DialCallback) {
    match Url::parse(url).and_then(|url| client::prepare(&url, &options())) {
        Err(error) => tell(Err(dial_error(&error))),
        Ok(DialPlan::Stands(dialled)) => on_connected(*dialled, tell),
        Ok(DialPlan::Ask(ask)) => resolve_rdma(*ask, tell),
    }
}

fn dial_error(error: &ClientError) -> DialError {
    let is_refusal = matches!(
        error,
        ClientError::Url { .. } | ClientError::ConnectionClosed { .. } | ClientError::NotAnnounced { .. }
    );
    DialError { text: error.to_string().into(), is_refusal }
}

fn on_connected(dialled: client::DialledLink, tell: DialCallback) {
    let client::DialledLink { link, url, first, fell_back } = dialled;
    if let Some(why) = fell_back {
        log_tcp_fallback(&url, &why);
    }
    let login = login(url);
    drop_when_open(first, |first| tell(Ok(DialProgress::Connected(DialedLink { link, login, bootstrap: first }))));
}

/// Resolves the RDMA address here, where it may block. The shard connects.
fn resolve_rdma(ask: RdmaDialRequest, tell: DialCallback) {
    let RdmaDialRequest { place, token, url, first, tcp } = ask;
    match verbs::card::resolve_route(&place) {
        Ok(way) => {
            let login = login(url);
            let otherwise = tcp.map(|tcp| -> DialFallback {
                Box::new(move |why, tell| {
                    let why = why.to_owned();
                    on_a_thread(tell, move |tell| dial_tcp(&tcp, &why, tell));
                })
            });
            drop_when_open(first, |first| {
                tell(Ok(DialProgress::Rdma(Box::new(RdmaDial {
                    way,
                    token,
                    login,
                    bootstrap: first,
                    fallback: otherwise,
                }))));
            });
        }
        Err(error) => match tcp {
            Some(tcp) => dial_tcp(&tcp, &error.to_string(), tell),
            None => tell(Err(DialError { text: error.to_string().into(), is_refusal: false })),
        },
    }
}

fn dial_tcp(url: &Url, why: &str, tell: DialCallback) {
    match client::dial(url, &options()) {
        Ok(dialled) => on_connected(client::DialledLink { fell_back: Some(why.to_owned()), ..dialled }, tell),
        Err(error) => tell(Err(dial_error(&error))),
    }
}

fn log_tcp_fallback(url: &Url, why: &str) {
    tracing::warn!(address = url.address, why, "a federation link uses TCP, because RDMA is not available");
}

fn login(url: Url) -> LinkLogin {
    let Url { address, user, password, vhost, external, .. } = url;
    let text = |text: String| text.into_boxed_str();
    LinkLogin { user: text(user), password: text(password), vhost: text(vhost), address: text(address), external }
}

/// Keeps the connection over which a token was obtained until the RDMA connection is open: `tell` receives what is to
/// be dropped then.
fn drop_when_open(first: Option<Client>, tell: impl FnOnce(Option<Box<dyn Any + Send>>)) {
    let Some(first) = first else { return tell(None) };
    let (needed, is_needed) = mpsc::channel::<()>();
    tell(Some(Box::new(needed)));
    let _over_or_too_late = is_needed.recv_timeout(DIAL_TIMEOUT);
    if let Err(error) = first.close() {
        tracing::debug!(%error, "the connection that fetched a token did not close cleanly");
    }
}
