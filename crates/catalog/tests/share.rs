//! The share of memory that definitions have: whoever uses it up and deletes everything leaves it to others.
//!
//! Enters: definitions of one kind until they are refused, among a few that stay.  Leaves: the bytes that are counted then.
//! Owns:   the promise that deleted definitions take no memory for long.

mod script;

use catalog::limits::DefinitionShare;
use catalog::{Catalog, Definition};
use script::RoutingScript;

const SHARE_BYTES: usize = 6 << 20;

/// What is defined with a number, and what is deleted in the end, with `N` for the number where each goes by itself.
struct DefinitionKind {
    defined: &'static str,
    deleted: &'static [&'static str],
    each_deleted: Option<&'static str>,
}

const KINDS: &[DefinitionKind] = &[
    DefinitionKind { defined: "queue a-queue-N", deleted: &[], each_deleted: Some("delete-queue a-queue-N") },
    DefinitionKind { defined: "exchange x-N topic", deleted: &[], each_deleted: Some("delete-exchange x-N") },
    DefinitionKind { defined: "bind x short-N stays", deleted: &["delete-exchange x"], each_deleted: None },
    DefinitionKind {
        defined: "bind x a-key-that-is-longer-than-the-others-and-takes-more-than-sixty-four-bytes-N stays",
        deleted: &["delete-exchange x"],
        each_deleted: None,
    },
    DefinitionKind { defined: "bind x N goes", deleted: &["delete-queue goes"], each_deleted: None },
    DefinitionKind {
        defined: "bind topic word-N.N.other-N.# stays",
        deleted: &["delete-exchange topic"],
        each_deleted: None,
    },
    DefinitionKind {
        defined: "bind headers '' stays a-N=N b-N=7",
        deleted: &["delete-exchange headers"],
        each_deleted: None,
    },
    DefinitionKind {
        defined: "queue a-queue-N; bind hash 7 a-queue-N",
        deleted: &[],
        each_deleted: Some("delete-queue a-queue-N"),
    },
    DefinitionKind { defined: "bind topic N.*.N stays", deleted: &[], each_deleted: Some("unbind topic N.*.N stays") },
];

fn delete(script: &mut RoutingScript, words: &str) {
    let definition = script.definition(&words.split_whitespace().collect::<Vec<_>>()).expect("a definition");
    let mut unfinished = script.execute(&definition).expect("it is there").unfinished;
    while unfinished {
        unfinished = script.execute(&Definition::Finish).expect("the rest").unfinished;
    }
}

fn counted(catalog: &Catalog) -> usize {
    catalog.shared_definition_bytes()
}

/// Defines things of a kind until they are refused, and deletes them. Answers with how many there were.
fn use_up(script: &mut RoutingScript, kind: &DefinitionKind, round: usize) -> usize {
    script.run("exchange x direct; exchange topic topic; exchange headers headers; exchange hash x-consistent-hash; queue goes; queue stays");
    let with = |words: &str, number: usize| words.replace('N', &number.to_string());
    let mut count = 0;
    loop {
        // Others define a little as well, which stays.
        if count % 5_000 == 0 {
            script.run(&format!(
                "bind amq.direct others-{round}-{count} stays; bind amq.topic others.{round}.{count} stays"
            ));
        }
        let answer = script.run(&with(kind.defined, count));
        if answer.contains("connection 506") {
            break;
        }
        assert_eq!(answer, "", "{}", kind.defined);
        count += 1;
    }
    if let Some(words) = kind.each_deleted {
        (0..count).for_each(|number| delete(script, &with(words, number)));
    }
    kind.deleted.iter().for_each(|words| delete(script, words));
    count
}

#[test]
fn what_was_deleted_leaves_its_share_to_whatever_comes() {
    let mut script = RoutingScript::new();
    let bytes_max = SHARE_BYTES;
    script.catalog.set_definition_share(DefinitionShare { bytes_max, replicas: 1, queue_bytes: 0 });
    let mut first_counts = Vec::new();
    for round in 0..2 {
        for (number, kind) in KINDS.iter().enumerate() {
            let count = use_up(&mut script, kind, round * KINDS.len() + number);
            let bytes = counted(&script.catalog);
            println!("{}: {count}, {bytes} bytes left", kind.defined);
            assert!(bytes < SHARE_BYTES / 4, "{bytes} bytes are left of {count} of '{}'", kind.defined);
            match first_counts.get(number) {
                None => first_counts.push(count),
                Some(&first) => assert!(count > first * 3 / 4, "{count} of '{}' after {first}", kind.defined),
            }
        }
    }
}
