//! Assigns roles to ranks.
//!
//! Publishers, consumers and the broker run on different hosts as far as there are enough hosts.

use std::collections::BTreeSet;

use crate::limits::RANKS_MAX;

/// The ranks that suit a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleClass {
    /// Sends the measured messages.
    Publisher,
    /// Receives them.
    Consumer,
    /// Belongs on the broker's host: meters the broker or stands in for it.
    Agent,
    /// Any worker rank will do.
    Client,
}

impl RoleClass {
    /// Classifies a role by its name.
    pub fn of(kind: &str) -> Self {
        if kind.contains("publisher") || matches!(kind, "filler" | "market-gateway") {
            Self::Publisher
        } else if kind.contains("consumer") || matches!(kind, "emptier" | "market-engine") {
            Self::Consumer
        } else if matches!(kind, "agent" | "relay" | "null" | "hop-end") {
            Self::Agent
        } else {
            Self::Client
        }
    }
}

/// The value of `--roles`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOverrides {
    publishers: Vec<usize>,
    consumers: Vec<usize>,
}

impl RoleOverrides {
    /// Parses `publisher=1,2 consumer=3-4`; blanks, commas and plus signs are the same.
    ///
    /// # Errors
    /// An unknown role or a value that is not a number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut roles = Self::default();
        let mut list: Option<&mut Vec<usize>> = None;
        for word in text.split([' ', ',', '+']).filter(|word| !word.is_empty()) {
            let numbers = match word.split_once('=') {
                None => word,
                Some((role, numbers)) => {
                    list = Some(match role {
                        "publisher" => &mut roles.publishers,
                        "consumer" => &mut roles.consumers,
                        _ => return Err(format!("--roles: unknown role '{role}' (publisher, consumer)")),
                    });
                    numbers
                }
            };
            let list = list.as_deref_mut().ok_or("--roles is written as in publisher=1,2,consumer=3-4")?;
            let number = |text: &str| match text.parse::<usize>() {
                Ok(number) if number <= RANKS_MAX => Ok(number),
                _ => Err(format!("--roles: '{text}' is not a rank")),
            };
            match numbers.split_once('-') {
                Some((first, last)) => list.extend(number(first)?..=number(last)?),
                None => list.push(number(numbers)?),
            }
        }
        if roles == Self::default() {
            return Err("--roles names no rank".to_owned());
        }
        Ok(roles)
    }
}

/// The ranks of each role class. A rank may be in several lists: each role runs in a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankAssignment {
    /// In the order in which they are used.
    pub publishers: Vec<usize>,
    pub consumers: Vec<usize>,
    /// A rank on the broker's host, if there is one.
    pub agent: Option<usize>,
}

impl RankAssignment {
    /// Assigns ranks. `hosts[r]` is the host of rank r, `broker` the host that the broker was found on.
    ///
    /// # Errors
    /// Overrides that name ranks which cannot run roles.
    pub fn assign(
        hosts: &[usize],
        broker: Option<usize>,
        agent: Option<usize>,
        roles: Option<&RoleOverrides>,
    ) -> Result<Self, String> {
        let requested = roles.cloned().unwrap_or_default();
        for &rank in requested.publishers.iter().chain(&requested.consumers) {
            match rank {
                0 => return Err("--roles: rank 0 is the controller and runs no roles".to_owned()),
                rank if rank >= hosts.len() => return Err(format!("--roles: there is no rank {rank}")),
                _ => {}
            }
        }
        if let Some(agent) = agent.filter(|&agent| agent >= hosts.len()) {
            return Err(format!("--agent-rank: there is no rank {agent}"));
        }
        let (publishers, consumers) = Self::by_hosts(hosts, broker, agent);
        let apart_from = |taken: &[usize], usual: Vec<usize>| {
            let rest: Vec<usize> =
                (1..hosts.len()).filter(|rank| !taken.contains(rank) && Some(*rank) != agent).collect();
            if rest.is_empty() { usual } else { rest }
        };
        let (publishers, consumers) = match (requested.publishers.is_empty(), requested.consumers.is_empty()) {
            (true, true) => (publishers, consumers),
            (false, true) => (requested.publishers.clone(), apart_from(&requested.publishers, consumers)),
            (true, false) => (apart_from(&requested.consumers, publishers), requested.consumers),
            (false, false) => (requested.publishers, requested.consumers),
        };
        Ok(Self { publishers, consumers, agent })
    }

    /// Distributes publishers and consumers over the hosts in turn; on one host over its ranks; a single rank gets both.
    fn by_hosts(hosts: &[usize], broker: Option<usize>, agent: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let all: Vec<usize> = (1..hosts.len()).collect();
        let free: Vec<usize> = all.iter().copied().filter(|&rank| Some(rank) != agent).collect();
        let remote: Vec<usize> = free.iter().copied().filter(|&rank| Some(hosts[rank]) != broker).collect();
        let players = [remote, free].into_iter().find(|ranks| ranks.len() >= 2).unwrap_or(all);
        let mut order: Vec<usize> = Vec::new();
        for &rank in &players {
            if !order.contains(&hosts[rank]) {
                order.push(hosts[rank]);
            }
        }
        if order.len() == 1 {
            let every_other = |first: usize| players.iter().copied().skip(first).step_by(2).collect::<Vec<_>>();
            return match players.as_slice() {
                [only] => (vec![*only], vec![*only]),
                _ => (every_other(0), every_other(1)),
            };
        }
        // Takes one rank of each host first, then the second of each, so that a few roles use many hosts.
        let on = |parity: usize| {
            let of_host = |host: usize| players.iter().copied().filter(move |&rank| hosts[rank] == host);
            let lists: Vec<Vec<usize>> =
                order.iter().skip(parity).step_by(2).map(|&host| of_host(host).collect()).collect();
            let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
            (0..longest)
                .flat_map(|turn| lists.iter().filter_map(move |list| list.get(turn).copied()))
                .collect::<Vec<_>>()
        };
        (on(0), on(1))
    }

    /// The suitable rank with the fewest running roles.
    pub fn rank_for(&self, part: RoleClass, load: impl Fn(usize) -> usize) -> Option<usize> {
        let suited: Vec<usize> = match part {
            RoleClass::Publisher => self.publishers.clone(),
            RoleClass::Consumer => self.consumers.clone(),
            RoleClass::Agent => self.agent.into_iter().collect(),
            RoleClass::Client => self.ranks_in_use().into_iter().collect(),
        };
        suited.into_iter().min_by_key(|&rank| load(rank))
    }

    /// All ranks that run a measured role.
    pub fn ranks_in_use(&self) -> BTreeSet<usize> {
        self.publishers.iter().chain(&self.consumers).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hosts` has a letter for each rank's host, rank 0 first; `broker` is the letter of the broker's host.
    #[track_caller]
    fn check(hosts: &str, broker: Option<char>, agent: Option<usize>, roles: &str, expected: &str) {
        let number = |host: char| host as usize;
        let roles = if roles.is_empty() { Ok(None) } else { RoleOverrides::parse(roles).map(Some) };
        let places: Vec<usize> = hosts.chars().map(number).collect();
        let shown =
            match roles.and_then(|roles| RankAssignment::assign(&places, broker.map(number), agent, roles.as_ref())) {
                Ok(assignment) => format!("{:?} {:?}", assignment.publishers, assignment.consumers),
                Err(why) => why,
            };
        assert_eq!(shown, expected, "{hosts} {broker:?} {agent:?}");
    }

    #[test]
    fn ranks_of_one_host_take_turns() {
        check("aa", Some('a'), None, "", "[1] [1]");
        check("aaa", Some('a'), None, "", "[1] [2]");
        check("aaaaaa", None, None, "", "[1, 3, 5] [2, 4]");
        check("aaaa", None, Some(1), "", "[2] [3]");
        check("aaa", None, Some(1), "", "[1] [2]");
    }

    #[test]
    fn hosts_take_turns() {
        check("abc", None, None, "", "[1] [2]");
        // Rank 0's host may play, by another rank.
        check("aab", None, None, "", "[1] [2]");
        check("abbcc", None, None, "", "[1, 2] [3, 4]");
        check("abcdeabcde", None, None, "", "[1, 3, 5, 6, 8] [2, 4, 7, 9]");
        // One of each host first.
        check("xaabbaccdd", None, None, "", "[1, 6, 2, 7, 5] [3, 8, 4, 9]");
    }

    #[test]
    fn clients_keep_away_from_the_brokers_host() {
        check("abcd", Some('b'), Some(1), "", "[2] [3]");
        check("abbcd", Some('b'), Some(1), "", "[3] [4]");
        // Unless there are too few other ranks.
        check("abbc", Some('b'), Some(1), "", "[2] [3]");
        check("abc", Some('b'), Some(1), "", "[1] [2]");
        check("abbb", Some('b'), Some(2), "", "[1] [3]");
    }

    #[test]
    fn role_overrides_are_respected() {
        check("aaaaa", None, None, "publisher=1,2 consumer=3-4", "[1, 2] [3, 4]");
        check("aaaaa", None, None, "publisher=1,2,consumer=3+4", "[1, 2] [3, 4]");
        check("aaaa", None, None, "publisher=3", "[3] [1, 2]");
        check("aaaa", None, None, "consumer=1", "[2, 3] [1]");
        check("aa", None, None, "consumer=1", "[1] [1]");
        check("aaa", None, None, "publisher=0", "--roles: rank 0 is the controller and runs no roles");
        check("aaa", None, None, "publisher=3", "--roles: there is no rank 3");
        check("aaa", None, Some(3), "", "--agent-rank: there is no rank 3");
        check("aaa", None, None, "clock=1", "--roles: unknown role 'clock' (publisher, consumer)");
        check("aaa", None, None, "1", "--roles is written as in publisher=1,2,consumer=3-4");
        check("aaa", None, None, "publisher=x", "--roles: 'x' is not a rank");
        check("aaa", None, None, "publisher=", "--roles: '' is not a rank");
    }

    #[test]
    fn one_more_role_goes_where_least_is_done() {
        let assignment = RankAssignment { publishers: vec![1, 3], consumers: vec![2, 4], agent: Some(5) };
        let load = |rank: usize| [0, 1, 0, 0, 0, 0][rank];
        let next = |kind: &str| assignment.rank_for(RoleClass::of(kind), load);
        assert_eq!(next("publisher"), Some(3));
        assert_eq!(next("raw-consumer"), Some(2));
        assert_eq!(next("agent"), Some(5));
        assert_eq!(next("churn"), Some(2));
        assert_eq!(RankAssignment { agent: None, ..assignment.clone() }.rank_for(RoleClass::Agent, load), None);
    }
}
