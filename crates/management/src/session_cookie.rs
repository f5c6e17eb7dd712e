//! The cookie of a session (RFC 6265), and what a browser's page tells of itself beside it.
//!
//! Owns: the name and the attributes of the cookie, and the rule by which a change with it is the page's own.

use crate::api_error::ApiError;
use crate::limits::SESSION_COOKIES_MAX;
use crate::login_sessions::SessionToken;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

const NAME: &str = "harrier_session";
/// What a request of the page has in `X-Requested-With`.
const PAGE: &str = "harrier-page";

const REQUESTED_WITH: HeaderName = HeaderName::from_static("x-requested-with");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The value of `Set-Cookie` with which a session begins, or ends if there is none. No script can read the cookie, and no other
/// site can have it sent.
pub fn set_cookie(token: Option<&SessionToken>, path_prefix: &str, is_secure: bool) -> String {
    let token_text = token.map(SessionToken::written).unwrap_or_default();
    let end = if token.is_none() { "; Max-Age=0" } else { "" };
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{NAME}={token_text}; HttpOnly; SameSite=Strict; Path={path_prefix}/{end}{secure}")
}

/// Tokens of the cookies of a request: one, or several if a browser has cookies of several paths.
pub fn tokens(headers: &HeaderMap) -> Vec<SessionToken> {
    values(headers).filter_map(SessionToken::read).take(SESSION_COOKIES_MAX).collect()
}

fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == NAME).map(|(_, value)| value.trim_matches('"'))
}

/// Whether a browser's page asks, which has a form of its own for credentials: the browser shall not ask for them.
pub fn is_of_page(headers: &HeaderMap) -> bool {
    values(headers).next().is_some() || headers.get(&REQUESTED_WITH).is_some_and(|value| value == PAGE)
}

/// Lets a change through for which a browser's cookie stands, if a page of this site asks for it: an `Origin` that came this far
/// is this site's own, and no other site can have the other two sent.
///
/// # Errors
/// Nothing says so.
pub fn check_own_site(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_same_origin = |value: &HeaderValue| value == "same-origin";
    let is_own = headers.contains_key(header::ORIGIN)
        || headers.contains_key(&REQUESTED_WITH)
        || headers.get(&FETCH_SITE).is_some_and(is_same_origin);
    match is_own {
        true => Ok(()),
        false => Err(ApiError::new(403, "forbidden", "a change with a cookie has Origin or X-Requested-With")),
    }
}

#[cfg(test)]
mod tests {
    use super::{check_own_site, is_of_page, set_cookie, tokens};
    use crate::limits::SESSION_COOKIES_MAX;
    use crate::login_sessions::SessionToken;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&str, &str)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            (name, HeaderValue::from_str(value).expect("a value"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(header) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn what_is_set_is_read_again() {
        let token = SessionToken::new([1, 2, 3, 4]);
        let (begin, end) = (set_cookie(Some(&token), "", false), set_cookie(None, "/mq", true));
        let written = token.written();
        assert_eq!(begin, format!("harrier_session={written}; HttpOnly; SameSite=Strict; Path=/"));
        assert_eq!(end, "harrier_session=; HttpOnly; SameSite=Strict; Path=/mq/; Max-Age=0; Secure");
        let found =
            |lines: &[(&str, &str)]| -> Vec<_> { tokens(&headers(lines)).iter().map(SessionToken::written).collect() };
        let pair = format!("harrier_session={written}");
        assert_eq!(found(&[("cookie", &pair)]), [&*written]);
        assert_eq!(found(&[("cookie", &format!("a=b;harrier_session=x; {pair} ; c")), ("cookie", &pair)]).len(), 2);
        assert_eq!(found(&[("cookie", &format!("not_{pair}")), ("cookie", "harrier_session")]).len(), 0);
        assert_eq!(found(&vec![("cookie", &*pair); 100]).len(), SESSION_COOKIES_MAX);
    }

    #[test]
    fn a_page_says_that_it_is_one_and_whose() {
        for (lines, is_page, is_own) in [
            (&[][..], false, false),
            (&[("x-requested-with", "harrier-page")], true, true),
            (&[("x-requested-with", "XMLHttpRequest")], false, true),
            (&[("cookie", "harrier_session=old")], true, false),
            (&[("cookie", "other=1"), ("sec-fetch-site", "cross-site")], false, false),
            (&[("sec-fetch-site", "same-site")], false, false),
            (&[("sec-fetch-site", "same-origin")], false, true),
            (&[("origin", "http://localhost")], false, true),
        ] {
            let headers = headers(lines);
            assert_eq!((is_of_page(&headers), check_own_site(&headers).is_ok()), (is_page, is_own), "{lines:?}");
        }
    }
}
