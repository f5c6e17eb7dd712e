//! Trees by their notation: valid and invalid texts, numbering, parents and routes.

use proptest::prelude::*;
use topology::limits::{LEVELS_MAX, NODES_MAX, NOTATION_BYTES_MAX};
use topology::{DegreeRange, Tree, TreeBroker};

fn tree(text: &str) -> Tree {
    text.parse().unwrap_or_else(|why| panic!("{why}"))
}

/// Every topology of the paper's tables.
const OF_THE_PAPER: [&str; 16] = [
    "B-C",
    "B-B-C",
    "B-B-B-C",
    "B-B-B-B-C",
    "B-B-B-B-B-C",
    "B-2C",
    "B-4C",
    "B-8C",
    "B-2B-2C",
    "B-3B-3C",
    "B-4B-4C",
    "B-2B-16C",
    "B-4B-16C",
    "B-2B-4B-16C",
    "B-4B-8B-16C",
    "B-2B-4B-8B-16C",
];

#[test]
fn the_paper_s_topologies_are_read_and_written() {
    for text in OF_THE_PAPER {
        assert_eq!(tree(text).to_string(), text);
    }
    assert_eq!(tree("1B-1C").to_string(), "B-C");
    assert_eq!(tree("b-02b-4c").to_string(), "B-2B-4C");
}

#[test]
fn what_is_no_tree_is_told_why() {
    let long = "B-".repeat(LEVELS_MAX + 1) + "C";
    let longer = "B-".repeat(NOTATION_BYTES_MAX) + "C";
    for (text, why) in [
        ("", "a level is a number and B or C, not ''"),
        ("B", "it ends with consumers"),
        ("B-2B", "it ends with consumers"),
        ("C", "consumers need a broker above them"),
        ("2B-2C", "it begins with one broker, not with 2"),
        ("B-4B-3C", "4 brokers need at least one below each, not 3 consumers"),
        ("B-3B-2B-6C", "3 brokers need at least one below each, not 2 brokers"),
        ("B-2B-1C", "2 brokers need at least one below each, not 1 consumer"),
        ("B-0B-4C", "a level has at least one of its brokers"),
        ("B-0C", "a level has at least one of its consumers"),
        ("B-4C-2C", "nothing comes below consumers"),
        ("B-4C-", "nothing comes below consumers"),
        ("B--4C", "a level is a number and B or C, not ''"),
        ("B-4", "a level is a number and B or C, not '4'"),
        ("B-+4C", "a level is a number and B or C, not '+4C'"),
        ("B-4Č", "a level is a number and B or C, not '4Č'"),
        ("B 4C", "a level is a number and B or C, not 'B 4C'"),
        ("B-99999999999C", "a tree has 100000000 nodes at most"),
        ("B-100000000C", "a tree has 100000000 nodes at most"),
        (&long, "a tree has 32 levels of brokers at most"),
        (&longer, "it is longer than 512 bytes"),
    ] {
        let told = text.parse::<Tree>().expect_err(text).to_string();
        assert!(told.ends_with(&format!(" is not a topology such as B-2B-4B-16C: {why}")), "{told}");
    }
}

#[test]
fn who_is_below_whom() {
    let tree = tree("B-2B-4B-16C");
    let broker = |level, place| TreeBroker { level, index: place };
    assert_eq!((tree.brokers_count(), tree.consumers()), (7, 16));
    assert_eq!([0, 1, 2].map(|level| tree.degree(level)), [2, 2, 4]);
    let names: Vec<String> = tree.brokers().map(|broker| broker.to_string()).collect();
    assert_eq!(names.join(" "), "b0 b1.0 b1.1 b2.0 b2.1 b2.2 b2.3");
    assert_eq!(tree.children(broker(1, 1)).collect::<Vec<_>>(), [broker(2, 2), broker(2, 3)]);
    assert_eq!(tree.children(broker(2, 1)).count(), 0);
    assert_eq!(tree.consumers_of(broker(2, 1)), 4..8);
    assert_eq!(tree.consumers_of(broker(1, 1)), 0..0);
    let routes: Vec<String> = tree.routes().map(|route| format!("{}<{}", route.destination, route.source)).collect();
    assert_eq!(routes.join(" "), "b1.0<b0 b1.1<b0 b2.0<b1.0 b2.1<b1.0 b2.2<b1.1 b2.3<b1.1");
    assert_eq!(self::tree("B-5C").routes().count(), 0);
}

#[test]
fn what_does_not_divide_is_spread() {
    let tree = tree("B-3B-7B-16C");
    let consumers: Vec<usize> = tree.brokers().map(|broker| tree.consumers_of(broker).len()).collect();
    assert_eq!(consumers, [0, 0, 0, 0, 3, 3, 2, 2, 2, 2, 2]);
    let children: Vec<usize> = tree.brokers().map(|broker| tree.children(broker).count()).collect();
    assert_eq!(children, [3, 3, 2, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(tree.degrees(1), DegreeRange { least: 2, most: 3, with_most: 1 });
    assert_eq!(tree.degrees(0), DegreeRange { least: 3, most: 3, with_most: 1 });
    assert!(!tree.is_uniform() && self::tree("B-3B-6B-18C").is_uniform());
}

proptest! {
    #[test]
    fn every_node_has_its_place(more in prop::collection::vec(0u32..9, 1..7)) {
        let mut levels = vec![1u32];
        more.iter().for_each(|more| levels.push(levels.last().expect("the root") + more));
        let consumers = levels.pop().expect("the last level");
        let text = levels.iter().map(|count| format!("{count}B-")).collect::<String>() + &format!("{consumers}C");
        let tree = tree(&text);
        prop_assert_eq!(tree.levels(), &*levels);
        prop_assert_eq!(&tree.to_string().parse::<Tree>().expect("its own text"), &tree);
        prop_assert!(tree.brokers_count() + tree.consumers() <= NODES_MAX);
        let mut of_leaves = Vec::new();
        for (number, broker) in (0..).zip(tree.brokers()) {
            prop_assert_eq!(tree.number(broker), number);
            for child in tree.children(broker) {
                prop_assert_eq!(tree.parent(child), Some(broker));
            }
            of_leaves.extend(tree.consumers_of(broker));
            let below = (tree.children(broker).count() + tree.consumers_of(broker).len()) as u32;
            let DegreeRange { least, most, with_most } = tree.degrees(broker.level);
            prop_assert_eq!(below, if broker.index < with_most { most } else { least });
            prop_assert!(least >= 1 && most - least <= 1 && tree.degree(broker.level) == most);
        }
        prop_assert!(of_leaves.into_iter().eq(0..consumers), "each consumer hangs on one leaf");
        prop_assert_eq!(tree.routes().count() as u32, tree.brokers_count() - 1);
        prop_assert_eq!(tree.brokers().filter(|&broker| tree.parent(broker).is_none()).count(), 1);
    }

    #[test]
    fn no_text_makes_it_fail(text in "[-0-9BCbc ]{0,24}") {
        if let Ok(tree) = text.parse::<Tree>() {
            prop_assert_eq!(tree.to_string().parse::<Tree>().expect("its own text"), tree);
        }
    }
}
