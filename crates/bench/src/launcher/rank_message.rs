//! Messages between ranks, as JSON in AMQP bodies. Commands and reports of roles travel in them as opaque lines.

use serde::{Deserialize, Serialize};

use super::host_facts::HostFacts;

/// A letter and who wrote it.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankEnvelope {
    /// The rank that sent it.
    pub from: usize,
    /// What it says.
    #[serde(rename = "letter")]
    pub message: RankMessage,
}

/// Number of a role within a run.
pub type RoleId = u64;

/// One letter.
#[derive(Debug, Serialize, Deserialize)]
pub enum RankMessage {
    /// To rank 0: here I am.
    Arrived {
        /// How many ranks this one was told that there are.
        ranks: usize,
        /// The program's version.
        version: String,
        /// Where it runs.
        host: Box<HostFacts>,
    },
    /// From rank 0: all are here.
    Welcome,
    /// From rank 0: play this role, in a process of its own.
    Start {
        /// Its number.
        role: RoleId,
        /// `publisher`, `consumer`, …
        kind: String,
        /// The first line it is given.
        task: String,
        /// Its processors, as in `--cpus`.
        cpus: String,
    },
    /// From rank 0: one more line for a role.
    #[serde(rename = "Order")]
    Command {
        /// Its number.
        role: RoleId,
        /// The line.
        line: String,
    },
    /// From rank 0: end this role.
    Stop {
        /// Its number.
        role: RoleId,
    },
    /// To rank 0: a line of a role.
    Report {
        /// Its number.
        role: RoleId,
        /// The line.
        line: String,
    },
    /// To rank 0: the role's process has ended, or could not be started.
    Ended {
        /// Its number.
        role: RoleId,
        /// What went wrong, if anything did.
        why: Option<String>,
    },
    /// From rank 0: what does your clock show?
    Clock {
        /// Number of the question.
        question: u64,
    },
    /// To rank 0: this.
    Time {
        /// Number of the question.
        question: u64,
        /// Nanoseconds of the monotonic clock.
        now_ns: u64,
    },
    /// From rank 0: do you see the broker that listens here?
    #[serde(rename = "Look")]
    FindBroker {
        /// Number of the question.
        question: u64,
        /// `host:port`, or `unix:` and a path.
        address: String,
    },
    /// To rank 0: so it is.
    #[serde(rename = "Seen")]
    BrokerSeen {
        /// Number of the question.
        question: u64,
        /// Whether a process of this host listens there.
        sees: bool,
    },
    /// Either way, now and then: it comes back when its reader has ended.
    #[serde(rename = "Knock")]
    KeepAlive,
    /// To rank 0: this rank cannot go on.
    Failed {
        /// Why.
        why: String,
    },
    /// From rank 0: the run is over.
    End {
        /// The exit status of all.
        status: u8,
    },
    /// To rank 0: the roles have ended, and so does this rank.
    Left,
}

impl RankEnvelope {
    /// As the body of a message.
    pub fn to_body(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|error| error.to_string())
    }

    /// From the body of a message.
    pub fn from_body(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| format!("a message that no rank of this run sent ({error})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_arrive_as_they_were_sent() {
        let line = r#"{"Published":{"began_ns":1,"text":"a \"b\" é"}}"#;
        let letters = [
            RankMessage::Arrived { ranks: 3, version: "1".to_owned(), host: Box::new(HostFacts::read("127.0.0.1:1")) },
            RankMessage::Report { role: 7, line: line.to_owned() },
            RankMessage::KeepAlive,
            RankMessage::End { status: 3 },
        ];
        for letter in letters {
            let sent = RankEnvelope { from: 2, message: letter };
            let body = sent.to_body().expect("it has a form");
            let came = RankEnvelope::from_body(&body).expect("it is understood");
            assert_eq!(format!("{came:?}"), format!("{sent:?}"));
        }
    }

    #[test]
    fn other_messages_are_refused() {
        for body in ["", "{}", "hello", r#"{"from":1,"letter":"Unheard"}"#, r#"{"from":-1,"letter":"Knock"}"#] {
            assert!(RankEnvelope::from_body(body.as_bytes()).is_err(), "{body}");
        }
    }
}
