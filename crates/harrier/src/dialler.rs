//! Dialling other brokers, for links of federation.
//!
//! Enters: addresses.  Leaves: links that stand or ways to ask by, and as whom to log in; or why there is none.
//! Owns:   a thread for each dial, since names and connections take their time.
//! Never:  tries again: when to is the link's to know. Opens a device: whoever has a port takes that.

use client::{RdmaDialRequest, Client, ClientError, ConnectOptions, DialPlan, Url};
use federation::Login;
use shard::{Asked, DialError, Dialled, Otherwise, Reached, Tell};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// How long a connection may take to be made.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Dials as clients do.
pub struct Dialler;

impl shard::Dialler for Dialler {
    fn dial(&self, url: &str, tell: Tell) {
        let url = url.to_owned();
        on_a_thread(tell, move |tell| dial(&url, tell));
    }
}

fn on_a_thread(tell: Tell, work: impl FnOnce(Tell) + Send + 'static) {
    // Whoever cannot have a thread must be told as well.
    let tell = Arc::new(Mutex::new(Some(tell)));
    let told = Arc::clone(&tell);
    let take = |tell: &Mutex<Option<Tell>>| tell.lock().unwrap_or_else(PoisonError::into_inner).take();
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

fn dial(url: &str, tell: Tell) {
    match Url::parse(url).and_then(|url| client::prepare(&url, &options())) {
        Err(error) => tell(Err(why_not(&error))),
        Ok(DialPlan::Stands(dialled)) => stands(*dialled, tell),
        Ok(DialPlan::Ask(ask)) => ask_there(*ask, tell),
    }
}

fn why_not(error: &ClientError) -> DialError {
    let is_refusal = matches!(error, ClientError::Url { .. } | ClientError::ConnectionClosed { .. } | ClientError::NotAnnounced { .. });
    DialError { text: error.to_string().into(), is_refusal }
}

fn stands(dialled: client::DialledLink, tell: Tell) {
    let client::DialledLink { link, url, first, fell_back } = dialled;
    if let Some(why) = fell_back {
        by_tcp_instead(&url, &why);
    }
    let login = login(url);
    and_hold(first, |first| tell(Ok(Reached::Link(Dialled { link, login, first }))));
}

/// The way is looked up here, where it may take its time. The shard takes it.
fn ask_there(ask: RdmaDialRequest, tell: Tell) {
    let RdmaDialRequest { place, token, url, first, tcp } = ask;
    match verbs::card::resolve_route(&place) {
        Ok(way) => {
            let login = login(url);
            let otherwise = tcp.map(|tcp| -> Otherwise {
                Box::new(move |why, tell| {
                    let why = why.to_owned();
                    on_a_thread(tell, move |tell| dial_tcp(&tcp, &why, tell));
                })
            });
            and_hold(first, |first| {
                tell(Ok(Reached::Way(Box::new(Asked { way, token, login, first, otherwise }))));
            });
        }
        Err(error) => match tcp {
            Some(tcp) => dial_tcp(&tcp, &error.to_string(), tell),
            None => tell(Err(DialError { text: error.to_string().into(), is_refusal: false })),
        },
    }
}

fn dial_tcp(url: &Url, why: &str, tell: Tell) {
    match client::dial(url, &options()) {
        Ok(dialled) => stands(client::DialledLink { fell_back: Some(why.to_owned()), ..dialled }, tell),
        Err(error) => tell(Err(why_not(&error))),
    }
}

fn by_tcp_instead(url: &Url, why: &str) {
    tracing::warn!(address = url.address, why, "a federation link goes over TCP, since RDMA cannot be had");
}

fn login(url: Url) -> Login {
    let Url { address, user, password, vhost, external, .. } = url;
    let text = |text: String| text.into_boxed_str();
    Login { user: text(user), password: text(password), vhost: text(vhost), address: text(address), external }
}

/// The connection over which a token was given belongs to this thread, and is needed until the other one is open: `tell`
/// gets what is to be dropped then.
fn and_hold(first: Option<Client>, tell: impl FnOnce(Option<Box<dyn Any + Send>>)) {
    let Some(first) = first else { return tell(None) };
    let (needed, is_needed) = mpsc::channel::<()>();
    tell(Some(Box::new(needed)));
    let _over_or_too_late = is_needed.recv_timeout(DIAL_TIMEOUT);
    if let Err(error) = first.close() {
        tracing::debug!(%error, "the connection that gave a token did not end in order");
    }
}
