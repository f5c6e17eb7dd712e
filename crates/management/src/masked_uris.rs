//! URIs of other brokers, with their passwords for administrators alone.

use definitions::Json;

/// A parameter as a user sees it who is no administrator: in each text of its value that has a login, the password is `***`.
pub fn masked(parameter: Json) -> Json {
    match parameter {
        Json::Text(text) => Json::Text(masked_text(&text)),
        Json::List(items) => Json::List(items.into_iter().map(masked).collect()),
        Json::Object(fields) => Json::Object(fields.into_iter().map(|(key, value)| (key, masked(value))).collect()),
        other => other,
    }
}

/// Several URIs may stand in one text, with spaces between.
fn masked_text(text: &str) -> String {
    let masked = text.split(' ').map(|uri| {
        let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
        // A password may have an `@` in it that nobody escaped: the last one ends it.
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let end = if authority.contains('@') { authority.rfind('@') } else { rest.rfind('@') };
        let Some(at) = end else { return uri.to_owned() };
        match rest[..at].split_once(':') {
            Some((user, _)) => format!("{scheme}://{user}:***{}", &rest[at..]),
            None => uri.to_owned(),
        }
    });
    masked.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::masked;
    use definitions::Json;

    #[test]
    fn a_password_is_seen_nowhere_in_a_parameter() {
        for (value, expected) in [
            (r#"{"uri":"amqp://u:secret@h:5672/v"}"#, r#"{"uri":"amqp://u:***@h:5672/v"}"#),
            (r#"{"uri":["amqp://h","amqps://u:se@cret@h"]}"#, r#"{"uri":["amqp://h","amqps://u:***@h"]}"#),
            (r#"{"src-uri":"amqp://a:secret@h amqp://b:secret@h"}"#, r#"{"src-uri":"amqp://a:***@h amqp://b:***@h"}"#),
            (r#"{"uri":"amqp://u:se/cret@h"}"#, r#"{"uri":"amqp://u:***@h"}"#),
            (r#"{"uri":"amqp://u@h","n":1,"t":"a:b@c"}"#, r#"{"uri":"amqp://u@h","n":1,"t":"a:b@c"}"#),
        ] {
            assert_eq!(masked(Json::read(value.as_bytes()).expect("JSON")).line(), expected);
        }
    }
}
