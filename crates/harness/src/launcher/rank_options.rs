//! The options about ranks, removed from the command line before a command parses its own:
//! `--rank`, `--ranks`, `--rendezvous`, `--agent-rank`, `--roles`.

use super::assignment::RoleOverrides;
use crate::limits::{RANKS_MAX, RENDEZVOUS_BYTES_MAX};

/// Help text for these options.
pub const HELP: &str = "\
Under mpirun or srun (docs/many-hosts.md), or with --rank and --ranks, rank 0 controls and the others run the roles:
      --rank R                     this process's rank, if there is no launcher
      --ranks N                    the number of ranks
      --rendezvous NAME            a name for the run, the same on every rank, if the launcher names no job
      --agent-rank R               the rank on the broker's host that meters the broker (default: found)
      --roles ROLES                the ranks of each role, as in publisher=1,2,consumer=3-4 (default: by hosts)
";

/// The options about ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankOptions {
    pub rank: Option<usize>,
    pub ranks: Option<usize>,
    pub rendezvous: Option<String>,
    pub agent: Option<usize>,
    pub roles: Option<RoleOverrides>,
}

impl RankOptions {
    /// Extracts these options from a command line and returns the remaining words.
    ///
    /// # Errors
    /// A missing or invalid value.
    pub fn extract(words: &[String]) -> Result<(Self, Vec<String>), String> {
        let (mut options, mut others) = (Self::default(), Vec::with_capacity(words.len()));
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let (name, inline) = word.split_once('=').map_or((word.as_str(), None), |(name, text)| (name, Some(text)));
            if !matches!(name, "--rank" | "--ranks" | "--rendezvous" | "--agent-rank" | "--roles") {
                others.push(word.clone());
                // A word that is the value of another option is skipped, whatever it looks like.
                if matches!(name, "--broker-options" | "--broker-command") && inline.is_none() {
                    others.extend(rest.next().cloned());
                }
                continue;
            }
            let value = match inline {
                Some(value) => value,
                None => rest.next().ok_or_else(|| format!("{name} needs a value"))?,
            };
            let number = |least: usize| match value.parse::<usize>() {
                Ok(number) if (least..=RANKS_MAX).contains(&number) => Ok(Some(number)),
                _ => Err(format!("{name} is a number from {least} to {RANKS_MAX}, not '{value}'")),
            };
            match name {
                "--rank" => options.rank = number(0)?,
                "--ranks" => options.ranks = number(1)?,
                "--agent-rank" => options.agent = number(0)?,
                "--roles" => options.roles = Some(RoleOverrides::parse(value)?),
                _ => options.rendezvous = Some(rendezvous(value)?),
            }
        }
        Ok((options, others))
    }

    /// Whether any of them was given.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

fn rendezvous(name: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.len() > RENDEZVOUS_BYTES_MAX || !name.chars().all(good) {
        return Err(format!(
            "--rendezvous is a name of 1 to {RENDEZVOUS_BYTES_MAX} letters, digits, dots, dashes and underlines, not '{name}'"
        ));
    }
    Ok(name.to_owned())
}

/// The value of `--url`: the broker that ranks communicate through.
pub fn url(words: &[String]) -> Option<&str> {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.split_once('=') {
            Some(("--url", url)) => return Some(url),
            _ if word == "--url" => return rest.next().map(String::as_str),
            _ => {}
        }
    }
    None
}

/// The words without `--url` and its value.
pub fn without_url(words: &[String]) -> Vec<String> {
    let (mut others, mut is_value) = (Vec::with_capacity(words.len()), false);
    for word in words {
        let is_url = word == "--url";
        if !is_value && !is_url && !word.starts_with("--url=") {
            others.push(word.clone());
        }
        is_value = is_url;
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let shown = match RankOptions::extract(&words) {
            Err(why) => why,
            Ok((options, others)) => {
                let RankOptions { rank, ranks, rendezvous, agent, roles } = options;
                format!("{rank:?} {ranks:?} {rendezvous:?} {agent:?} {} | {}", roles.is_some(), others.join(" "))
            }
        };
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn rank_options_are_extracted() {
        check("-m 64 --url amqp://h", "None None None None false | -m 64 --url amqp://h");
        check("--rank 1 -m 64 --ranks=3", "Some(1) Some(3) None None false | -m 64");
        check("--rendezvous a.b-1 --agent-rank 2", "None None Some(\"a.b-1\") Some(2) false | ");
        check("--roles publisher=1,consumer=2 -c", "None None None None true | -c");
        check("--broker-options --rank --runs 3", "None None None None false | --broker-options --rank --runs 3");
        check("--rank", "--rank needs a value");
        check("--rank x", "--rank is a number from 0 to 65536, not 'x'");
        check("--ranks 0", "--ranks is a number from 1 to 65536, not '0'");
        check(
            "--rendezvous a/b",
            "--rendezvous is a name of 1 to 64 letters, digits, dots, dashes and underlines, not 'a/b'",
        );
    }

    #[test]
    fn the_url_is_found() {
        for (line, expected) in [("--url x -m 1", Some("x")), ("-m 1 --url=y", Some("y")), ("-m 1", None)] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(url(&words), expected, "{line}");
            let others = without_url(&words);
            assert_eq!(
                (url(&others), others.join(" ").as_str()),
                (None, if line.contains("-m") { "-m 1" } else { "" })
            );
        }
    }
}
