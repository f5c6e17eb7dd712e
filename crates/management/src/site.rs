//! Which site a request is for: browsers send what other sites tell them, with the credentials of this one.
//!
//! Owns: the check of `Host` (DNS rebinding), and of `Origin` (forms of other sites).

use crate::api_error::ApiError;
use std::net::IpAddr;

/// Lets requests through that name this host: an address, `localhost`, or one of some names.
///
/// # Errors
/// It is another name.
pub fn check_host(host: Option<&str>, names: &[String]) -> Result<(), ApiError> {
    let Some(host) = host else { return Ok(()) };
    let name = without_port(host);
    let is_address = name.parse::<IpAddr>().is_ok()
        || name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .is_some_and(|name| name.parse::<IpAddr>().is_ok());
    let is_known = names.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(name));
    match is_address || is_known || name.eq_ignore_ascii_case("localhost") {
        true => Ok(()),
        false => Err(ApiError::new(403, "forbidden", "the request names a host that this is not")),
    }
}

/// Lets changes through that come from no page of a browser, or from one of this host.
///
/// # Errors
/// They come from another site.
pub fn check_origin(origin: Option<&str>, host: Option<&str>) -> Result<(), ApiError> {
    let Some(origin) = origin else { return Ok(()) };
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host)) {
        true => Ok(()),
        false => Err(ApiError::new(403, "forbidden", "the request comes from another site")),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::{check_host, check_origin};

    #[test]
    fn a_request_names_this_host() {
        let names = ["broker.example".to_owned()];
        for (host, is_ours) in [
            (None, true),
            (Some("127.0.0.1:15672"), true),
            (Some("10.1.2.3"), true),
            (Some("[::1]:15672"), true),
            (Some("[::1]"), true),
            (Some("localhost:15672"), true),
            (Some("LOCALHOST"), true),
            (Some("Broker.Example:80"), true),
            (Some("evil.example:15672"), false),
            (Some("127.0.0.1.evil.example"), false),
            (Some(""), false),
        ] {
            assert_eq!(check_host(host, &names).is_ok(), is_ours, "{host:?}");
        }
        assert!(check_host(Some("any.example"), &["*".to_owned()]).is_ok());
    }

    #[test]
    fn a_change_comes_from_no_page_of_another_site() {
        for (origin, host, is_ours) in [
            (None, Some("localhost:15672"), true),
            (Some("http://localhost:15672"), Some("localhost:15672"), true),
            (Some("https://h"), Some("H"), true),
            (Some("http://localhost:1"), Some("localhost:15672"), false),
            (Some("http://evil.example"), Some("localhost:15672"), false),
            (Some("null"), Some("localhost:15672"), false),
            (Some("http://h"), None, false),
        ] {
            assert_eq!(check_origin(origin, host).is_ok(), is_ours, "{origin:?} {host:?}");
        }
    }
}
