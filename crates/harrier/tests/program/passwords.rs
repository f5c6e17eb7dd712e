//! Password hashes: created, stored and verified.

use super::{BrokerProcess, TempFolder, harrier};
use client::Client;
use std::io::Write;
use std::process::Stdio;

fn hash(words: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut command = harrier();
    command.arg("hash-password").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // It may end before it has read all of an input that is too long.
    let _told = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_password_is_hashed_and_then_proved() {
    let (status, argon2, _) = hash(&[], b"one two\n");
    assert_eq!(status, Some(0));
    assert!(argon2.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{argon2}");
    let (status, sha256, _) = hash(&["--sha256"], b"guest");
    assert_eq!((status, sha256.trim_end().len()), (Some(0), 48));
    assert_ne!(hash(&[], b"one two\n").1, argon2, "each has its own salt");
    for (words, input, status, why) in [
        (&["secret"][..], &b""[..], 2, "the password is read from standard input"),
        (&[], b"\n", 1, "there is no password on standard input"),
        (&[], &[b'x'; 5000], 1, "a password has 4096 bytes at most"),
    ] {
        let (found, _, stderr) = hash(words, input);
        assert_eq!(found, Some(status), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    let folder = TempFolder::new("passwords");
    let config = folder.path("harrier.toml");
    let user = |name: &str, hash: &str| {
        format!(
            "[[user]]\nname = \"{name}\"\npassword_hash = \"{}\"\n[[permission]]\nuser = \"{name}\"\nvhost = \"/\"\n\
             configure = \"\"\nwrite = \"\"\nread = \"\"\n",
            hash.trim_end()
        )
    };
    let text = [user("argon", &argon2), user("sha", &sha256), user("none", "")].concat();
    std::fs::write(&config, text).expect("writes");
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--config", &config]);
    let log_in = |login: &str| {
        let outcome = Client::connect(&format!("amqp://{login}@{}/%2F", broker.address));
        outcome.map(|client| client.close().expect("an orderly end")).map_err(|error| error.to_string())
    };
    // A repeated password is cached; a wrong one in between is not admitted for that.
    for (login, is_let_in) in [
        ("argon:one%20two", true),
        ("argon:one", false),
        ("argon:one%20two", true),
        ("sha:guest", true),
        ("sha:gues", false),
        ("none:", false),
        ("nobody:one%20two", false),
    ] {
        let outcome = log_in(login);
        assert_eq!(outcome.is_ok(), is_let_in, "{login}: {outcome:?}");
        if let Err(why) = outcome {
            assert!(
                why.contains("403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."),
                "{why}"
            );
        }
    }
    // Many logins at once, more than are verified in parallel, beside a client that notices nothing.
    std::thread::scope(|scope| {
        let logins: Vec<_> = (0..24)
            .map(|number| {
                let log_in = &log_in;
                scope.spawn(move || log_in(if number % 3 == 0 { "argon:wrong" } else { "argon:one%20two" }).is_ok())
            })
            .collect();
        log_in("sha:guest").expect("others go on");
        for (number, login) in logins.into_iter().enumerate() {
            assert_eq!(login.join().expect("no panic"), number % 3 != 0);
        }
    });
}

#[test]
fn a_broken_hash_is_told_with_its_place() {
    let folder = TempFolder::new("broken-hash");
    let config = folder.path("harrier.toml");
    std::fs::write(&config, "[[user]]\nname = \"a\"\npassword_hash = \"x\"\n").expect("writes");
    let output = super::output(&["broker", "--state", "none", "--config", &config]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.starts_with(&format!("harrier broker: {config}:1: user.password_hash: neither a PHC string")),
        "{stderr}"
    );
}
