//! Messages between ranks, as JSON in AMQP bodies. Commands and reports of roles travel in them as opaque lines.

use serde::{Deserialize, Serialize};

use super::host_facts::HostFacts;

/// A message and its sender.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankEnvelope {
    /// The sending rank.
    pub from: usize,
    #[serde(rename = "letter")]
    pub message: RankMessage,
}

/// The number of a role within a run.
pub type RoleId = u64;

/// A message between rank 0 and a worker rank.
#[derive(Debug, Serialize, Deserialize)]
pub enum RankMessage {
    /// To rank 0: this rank is ready.
    Arrived {
        /// The number of ranks that this one was started with.
        ranks: usize,
        /// The program's version.
        version: String,
        host: Box<HostFacts>,
    },
    /// From rank 0: all ranks are ready.
    Welcome,
    /// From rank 0: run this role in a child process.
    Start {
        role: RoleId,
        /// The role's name: `publisher`, `consumer`, …
        kind: String,
        /// Its first line of input.
        task: String,
        /// Its processors, as in `--cpus`.
        cpus: String,
    },
    /// From rank 0: a line of input for a role.
    #[serde(rename = "Order")]
    Command { role: RoleId, line: String },
    /// From rank 0: stop this role.
    Stop { role: RoleId },
    /// To rank 0: a line of a role's output.
    Report { role: RoleId, line: String },
    /// To rank 0: the role's process has ended or could not be started.
    Ended {
        role: RoleId,
        /// The error, if there was one.
        why: Option<String>,
    },
    /// From rank 0: asks for the current time of the rank's clock.
    Clock { question: u64 },
    /// To rank 0: the answer to `Clock`.
    Time {
        question: u64,
        /// Nanoseconds of the monotonic clock.
        now_ns: u64,
    },
    /// From rank 0: asks whether a broker listens at this address on the rank's host.
    #[serde(rename = "Look")]
    FindBroker {
        question: u64,
        /// `host:port`, or `unix:` and a path.
        address: String,
    },
    /// To rank 0: the answer to `FindBroker`.
    #[serde(rename = "Seen")]
    BrokerSeen {
        question: u64,
        /// Whether a process of this host listens there.
        sees: bool,
    },
    /// Sent periodically in both directions: it is returned if the receiver has ended.
    #[serde(rename = "Knock")]
    KeepAlive,
    /// To rank 0: this rank has failed.
    Failed { why: String },
    /// From rank 0: the run is over.
    End {
        /// The exit status of all ranks.
        status: u8,
    },
    /// To rank 0: all roles of this rank have ended, and so does the rank.
    Left,
}

impl RankEnvelope {
    /// Encodes it as a message body.
    pub fn to_body(&self) -> Result<Vec<u8>, String> {
        serde_json::to_vec(self).map_err(|error| error.to_string())
    }

    /// Decodes it from a message body.
    pub fn from_body(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| format!("a message that no rank of this run sent ({error})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_messages_survive_encoding() {
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
