//! What the corpus of the target `work` begins with: each kind of work, more of it than a turn may do.

use super::{
    BIND, CANCEL, CLOSE, CONFIRM, CONSUME, DECLARE_DYING, DECLARE_PLAIN, DELETE_EXCHANGE, DELETE_QUEUES, DYING, FLOW,
    GET, GOES_ON, PASS, PUBLISH, PURGE, QOS, RECOVER, RUN, SETTLE, TRANSACTION,
};

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let (first, second) = (0, 4);
    let dying: Vec<u8> = (0..DYING as u8).flat_map(|number| [DECLARE_DYING, first, number, 1]).collect();
    // As many messages as there may be, beside one in very many queues.
    let many = [DECLARE_PLAIN, first, 2, 0, PUBLISH, first, 3 * 8, 0, 255, PUBLISH, first, 3 * 8, 0, 255];
    let wide = [DECLARE_PLAIN, first, 255, 8, DECLARE_PLAIN, first, 120, 0];
    let consumers = [CONSUME, first, 2 * 3, 200, CONSUME, second, 2 * 3 + 1, 200];
    let step = |before: &[&[u8]], rest: &[u8]| [before.concat(), rest.to_vec()].concat();
    let unsettled = step(&[&many, &many, &many, &[CONSUME, first, 2 * 3, 1]], &[]);
    [
        ("letters", step(&[&dying], &[PUBLISH, first, 1, 0, 3, PUBLISH | GOES_ON, second, 1, 1, 3, RUN, 0, 0])),
        ("fanout", step(&[&wide], &[PUBLISH, first, 1, 8, 2, CONFIRM, second, 0, PUBLISH | GOES_ON, second, 1, 0, 9])),
        (
            "wide-ends",
            step(
                &[&wide],
                &[DELETE_EXCHANGE, first, 1, DELETE_EXCHANGE, first, 4, DELETE_QUEUES, first, 3, 255, CLOSE, first, 1],
            ),
        ),
        ("exclusive", step(&[], &[DECLARE_PLAIN, first, 255, 64, PUBLISH, first, 1, 0, 2, CLOSE, first, 1])),
        (
            "consumers",
            step(&[&[DECLARE_PLAIN, first, 1, 0], &consumers], &[PUBLISH, first, 3 * 8, 0, 99, CLOSE, first, 0]),
        ),
        ("cancelled", step(&[&[DECLARE_PLAIN, 1, 1, 0], &consumers], &[DELETE_QUEUES, 1, 3, 1, RUN, 0, 0])),
        ("settled", step(&[&unsettled], &[SETTLE, first, 1, RUN, 0, 0])),
        ("returned", step(&[&unsettled], &[CLOSE | GOES_ON, first, 1, RUN, 0, 0, CONSUME, second, 2 * 3, 2])),
        ("recovered", step(&[&unsettled], &[RECOVER, first, 0, QOS, first, 7, FLOW, first, 0, FLOW, first, 1])),
        ("purged", step(&[&many, &many, &many], &[PURGE, first, 3, GET, first, 6])),
        ("deleted", step(&[&many, &many, &many], &[DELETE_QUEUES | GOES_ON, first, 3, 1, RUN, 0, 0])),
        (
            "expired",
            step(&[&[DECLARE_PLAIN, first, 2, 2], &many[4..]], &[GET, first, 6, PASS, first, 9, GET, first, 6]),
        ),
        (
            "transaction",
            step(&[&unsettled, &[TRANSACTION, first, 0], &many[4..]], &[SETTLE, first, 1, TRANSACTION, first, 1]),
        ),
        (
            "rolled-back",
            step(&[&unsettled, &[TRANSACTION, first, 0]], &[SETTLE, first, 5, TRANSACTION, first, 2, SETTLE, first, 5]),
        ),
        (
            "rejected",
            step(
                &[&dying, &[PUBLISH, first, 0, 0, 60, DECLARE_DYING, first, 0, 0, CONSUME, first, 0, 1]],
                &[PUBLISH, first, 0, 0, 60, SETTLE, first, 5, PASS, first, 9, CANCEL, first, 1],
            ),
        ),
        (
            "topics",
            step(&[], &[BIND, first, 7 * 8 + 1, 0, BIND, first, 6 * 8 + 1, 33, PUBLISH, first, 6 * 8 + 2, 1, 9]),
        ),
        ("empty", Vec::new()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}
