//! A link alone, for programs that drive a session of their own on it.
//!
//! Enters: an address, options.  Leaves: a connected link, and as whom to log in over it.
//! Owns:   what becomes of an address of RDMA with `via` where somebody else logs in, or has a device.

use link::Link;
use verbs::RdmaToken;

use crate::client::{Client, dial_sockets};
use crate::error::{ClientError, Result};
use crate::options::ConnectOptions;
use crate::rdma::token_of;
use crate::url::{RDMA, Url};

/// A link, and what its session is to say.
pub struct DialledLink {
    pub link: Box<dyn Link>,
    /// As whom, and where: as in the address, but that a token may have said already who this is.
    pub url: Url,
    /// The connection over which a token was given. It must last until the session on the link is open.
    pub first: Option<Client>,
    /// Why it is TCP, where RDMA was asked for and TCP would do.
    pub fell_back: Option<String>,
}

/// A connection over RDMA that may be asked for: all that goes before it is done.
pub struct RdmaDialRequest {
    /// Where, as devices have it: `host:port`.
    pub place: String,
    /// What is to be shown there.
    pub token: Option<RdmaToken>,
    /// As whom to log in, see [`DialledLink::url`].
    pub url: Url,
    /// See [`DialledLink::first`].
    pub first: Option<Client>,
    /// Where TCP would do if it cannot be had, and that will do.
    pub tcp: Option<Url>,
}

/// How far a dial comes without a device.
pub enum DialPlan {
    /// To a link.
    Stands(Box<DialledLink>),
    /// To a device of the caller's.
    Ask(Box<RdmaDialRequest>),
}

/// Connects to where an address says.
///
/// # Errors
/// A wrong address, no connection, or, of an address with `via`, a refused login there.
pub fn dial(url: &Url, options: &ConnectOptions) -> Result<DialledLink> {
    let RdmaDialRequest { place, token, url, first, tcp } = match prepare(url, options)? {
        DialPlan::Stands(dialled) => return Ok(*dialled),
        DialPlan::Ask(ask) => *ask,
    };
    match (options.rdma.dial(&place, token, options.answer_wait), tcp) {
        (Ok(link), _) => Ok(DialledLink { link, url, first, fell_back: None }),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(tcp)) => {
            Ok(DialledLink { fell_back: Some(error.to_string()), ..plain(dial_sockets(&tcp, options)?, &tcp) })
        }
    }
}

/// Does what can be done without a device: connects where that is by sockets, and fetches the token of an address of RDMA
/// with `via`.
///
/// # Errors
/// Those of [`dial`], but for those of the connection over RDMA.
pub fn prepare(url: &Url, options: &ConnectOptions) -> Result<DialPlan> {
    let Some(place) = url.address.strip_prefix(RDMA) else {
        return Ok(DialPlan::Stands(Box::new(plain(dial_sockets(url, options)?, url))));
    };
    let Some(login) = url.login() else {
        let tcp = url.by_tcp().filter(|_| url.fallback_to_tcp);
        let ask = RdmaDialRequest { place: place.to_owned(), token: None, url: url.clone(), first: None, tcp };
        return Ok(DialPlan::Ask(Box::new(ask)));
    };
    let first = Client::connect_with(&login, options.clone())?;
    let tcp = Some(login).filter(|_| url.fallback_to_tcp);
    match (token_of(first.server_properties()), tcp) {
        (Some(token), tcp) => {
            let known = Url { external: true, ..url.clone() };
            let ask =
                RdmaDialRequest { place: place.to_owned(), token: Some(token), url: known, first: Some(first), tcp };
            Ok(DialPlan::Ask(Box::new(ask)))
        }
        (None, None) => Err(ClientError::NotAnnounced { what: "RDMA" }),
        (None, Some(tcp)) => {
            let why = ClientError::NotAnnounced { what: "RDMA" }.to_string();
            let dialled = plain(dial_sockets(&tcp, options)?, &tcp);
            Ok(DialPlan::Stands(Box::new(DialledLink { fell_back: Some(why), ..dialled })))
        }
    }
}

fn plain(link: Box<dyn Link>, url: &Url) -> DialledLink {
    DialledLink { link, url: url.clone(), first: None, fell_back: None }
}
