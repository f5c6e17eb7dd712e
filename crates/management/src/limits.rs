//! Limits of the API: what one client may ask for, and what all of them may take.
//!
//! Leaves: constants, and the limits that a program or a test may set.
//! Owns:   every bound on what clients can make the management thread hold or do.

use std::time::Duration;

/// Bytes of a request target: a path with its query. Filters of lists have at most `PATTERN_BYTES_MAX` of them.
pub const TARGET_BYTES_MAX: usize = 8 << 10;

/// Bytes of a request line with all headers. Clients that send more get 431.
pub(crate) const HEAD_BYTES_MAX: usize = 32 << 10;

/// Bytes of a body: what RabbitMQ 3.10 takes of a definitions file.
pub const BODY_BYTES_MAX: usize = 20_000_000;

/// Connections at one time; the next one is answered 503 and closed.
pub const CONNECTIONS_MAX: usize = 64;

/// Of these, connections of one address that have failed to log in lately, so that guesses leave places for others.
pub const SUSPECT_CONNECTIONS_MAX: usize = 16;

/// The time that a client has for a whole request head, and between two requests.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that a client has between two pieces of a body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time for which a client may take no byte of an answer.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests of the program itself that wait for their turn; whoever sends one more waits until there is a place.
pub(crate) const DIRECT_REQUESTS_WAITING_MAX: usize = 4;

/// How often the source is given a moment to take in what has come.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// The time in which the broker carries out what it is asked to do; after that the answer is 503.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that open connections have to finish their request when the server stops.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which accepting is tried again when the system has refused it: no descriptors are left.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Segments of a path: no route has more than eleven.
pub(crate) const PATH_SEGMENTS_MAX: usize = 12;

/// Parameters of a query.
pub(crate) const PARAMETERS_MAX: usize = 64;

/// Columns that are asked for.
pub(crate) const COLUMNS_MAX: usize = 128;

/// Rows of one page of a list.
pub const PAGE_ROWS_MAX: usize = 500;

/// Rows of one page of a list for a request within the process: each sorts the whole list once, and its answer is one message.
pub const DIRECT_PAGE_ROWS_MAX: usize = 20_000;

/// Rows of a page if the client does not say.
pub(crate) const PAGE_ROWS: usize = 100;

/// Bytes of a regular expression by which a list is filtered.
pub(crate) const PATTERN_BYTES_MAX: usize = 1 << 10;

/// Bytes of the same once compiled: its cost on one name is bounded by this and the name's length.
pub(crate) const PATTERN_COMPILED_BYTES_MAX: usize = 256 << 10;

/// Rows of a list that is sorted by a field: each is rendered to be sorted. A longer list is filtered first.
pub(crate) const SORTED_ROWS_MAX: usize = 100_000;

/// Rows of a list that are rendered at a time; between two such pieces other requests have their turn.
pub(crate) const ROWS_A_PIECE: usize = 128;

/// Bytes after which no more rows are rendered at a time.
pub(crate) const ROWS_PIECE_BYTES: usize = 256 << 10;

/// Answers of at least this many bytes are compressed for clients that ask for it.
pub(crate) const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// Long answers at one time, each of which is compressed or holds a list of names; the next one gets 503.
pub(crate) const LONG_ANSWERS_MAX: usize = 4;

/// Threads that verify slow passwords.
pub(crate) const VERIFIER_THREADS: usize = 2;

/// Correct passwords that are remembered, by digests of 32 bytes. Beyond that number all are forgotten.
pub(crate) const VERIFIED_PASSWORDS_MAX: usize = 1024;

/// Failed logins of an address, lately, from which on it is slowed down.
pub const LOGIN_FAILURES_FREE: u32 = 16;

/// Failed logins of an address that are counted.
pub(crate) const LOGIN_FAILURES_MAX: u32 = 64;

/// The time after which one failed login is forgotten.
pub(crate) const LOGIN_FAILURE_DECAY: Duration = Duration::from_secs(1);

/// The time by which the refusals of an address are delayed further with each failed login: up to half a second.
pub(crate) const LOGIN_DELAY_STEP: Duration = Duration::from_millis(10);

/// Addresses whose failed logins are counted.
pub(crate) const LOGIN_SOURCES_MAX: usize = 4096;

/// The time after which a session that nobody uses has ended.
pub(crate) const LOGIN_SESSION_IDLE_MAX: Duration = Duration::from_secs(8 * 3_600);

/// Sessions of browsers; of a user, fewer. With one more, the one that was used longest ago ends.
pub(crate) const LOGIN_SESSIONS_MAX: usize = 1024;
pub(crate) const LOGIN_SESSIONS_OF_USER_MAX: usize = 64;

/// Cookies of a request by which its session is looked for.
pub(crate) const SESSION_COOKIES_MAX: usize = 4;

/// Bytes of a form that logs in: each byte of a name and a password may be an escape.
pub(crate) const LOGIN_BODY_BYTES_MAX: usize = 32 << 10;

/// Bytes of credentials in base64: a name and a password of the longest kind.
pub(crate) const CREDENTIALS_BYTES_MAX: usize = 8 << 10;

/// Messages that one request gets from a queue.
pub(crate) const MESSAGES_GOT_MAX: usize = 10_000;

/// Bytes of the name of a cluster.
pub(crate) const CLUSTER_NAME_BYTES_MAX: usize = 255;

/// Bytes of a reason for closing a connection: it is a part of the text of `connection.close`, which has 255.
pub(crate) const CLOSE_REASON_BYTES_MAX: usize = 200;

/// Bytes of a parameter that is kept, or of what is noted about a virtual host, as JSON.
pub const PARAMETER_BYTES_MAX: usize = 16 << 10;

/// Parameters of a kind that are kept: all are looked through, and copied when one changes.
pub const PARAMETERS_KEPT_MAX: usize = 1024;

/// Changes that are kept for those who look at what was changed lately.
pub(crate) const AUDIT_EVENTS_MAX: usize = 1000;

/// Bytes of each text of such a change.
pub(crate) const AUDIT_TEXT_BYTES_MAX: usize = 512;

/// Alarms that are kept for those who look at what happened lately.
pub(crate) const ALARMS_KEPT_MAX: usize = 256;

/// What finding out where a message would go may cost, in units of the catalog's work: some ten milliseconds.
pub(crate) const ROUTE_WORK_MAX: u64 = 1 << 18;

/// Samples of one number in an answer.
pub(crate) const SAMPLES_MAX: usize = 1_000;

/// Samples in a list: its rows, each with so many samples of a number of each kind that is asked for.
pub(crate) const LIST_SAMPLES_MAX: u64 = 50_000;

/// Rows of a list with samples, each of which has a history from then on.
pub const SAMPLED_ROWS_MAX: usize = PAGE_ROWS_MAX;

/// The rings of the past of the broker, the node and virtual hosts: seconds of a step, and steps.
pub(crate) const HISTORY_RINGS: [(u64, usize); 4] = [(5, 120), (60, 60), (600, 48), (1_800, 48)];

/// Of these, those of an object that somebody looks at: 17 numbers of eight bytes in 122 readings are 17 KiB.
pub(crate) const OBJECT_HISTORY_RINGS: usize = 1;

/// Objects that somebody looks at whose past is kept. With one more, the one that was looked at longest ago has none.
pub(crate) const HISTORIES_MAX: usize = 1_000;

/// The time after which nobody looks at an object any more.
pub(crate) const HISTORY_IDLE_MS: u64 = 60_000;

/// Virtual hosts whose past is kept for a day, 38 KiB each; others have a past while somebody looks.
pub(crate) const VHOST_HISTORIES_MAX: usize = 256;

/// Bytes of metrics that are made at a time, but for a family of all connections or channels.
pub(crate) const METRICS_PIECE_BYTES: usize = 64 << 10;

const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX && PATTERN_BYTES_MAX < TARGET_BYTES_MAX);
const _: () = assert!(SUSPECT_CONNECTIONS_MAX < CONNECTIONS_MAX && LONG_ANSWERS_MAX < CONNECTIONS_MAX);
const _: () = assert!(OBJECT_HISTORY_RINGS <= HISTORY_RINGS.len() && HISTORY_RINGS[0].1 < SAMPLES_MAX);
const _: () = assert!(SAMPLED_ROWS_MAX <= HISTORIES_MAX && LIST_SAMPLES_MAX >= SAMPLED_ROWS_MAX as u64);
const _: () = assert!(PAGE_ROWS <= PAGE_ROWS_MAX && PAGE_ROWS_MAX < DIRECT_PAGE_ROWS_MAX);
const _: () = assert!(LOGIN_FAILURES_FREE < LOGIN_FAILURES_MAX);
const _: () =
    assert!(LOGIN_SESSIONS_OF_USER_MAX < LOGIN_SESSIONS_MAX && LOGIN_BODY_BYTES_MAX > CREDENTIALS_BYTES_MAX * 3);
const _: () = assert!(CREDENTIALS_BYTES_MAX * 3 / 4 >= catalog::limits::PASSWORD_BYTES_MAX);

/// Limits that a test makes small.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    pub connections_max: usize,
    pub body_bytes_max: usize,
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    pub write_timeout: Duration,
    pub action_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            head_timeout: HEAD_TIMEOUT,
            body_timeout: BODY_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            action_timeout: ACTION_TIMEOUT,
        }
    }
}
