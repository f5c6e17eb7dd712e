//! Parses and prints the notation `B-2B-4B-16C`.

use crate::limits::{LEVELS_MAX, NODES_MAX, NOTATION_BYTES_MAX};
use crate::tree::Tree;
use std::fmt;
use std::str::FromStr;

/// Why a text is not a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeParseError {
    text: String,
    why: String,
}

impl fmt::Display for TreeParseError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "'{}' is not a topology such as B-2B-4B-16C: {}", self.text, self.why)
    }
}

impl std::error::Error for TreeParseError {}

/// What a level consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LevelRole {
    Brokers,
    Consumers,
}

impl LevelRole {
    fn name(self, count: u32) -> &'static str {
        match (self, count) {
            (LevelRole::Brokers, 1) => "broker",
            (LevelRole::Brokers, _) => "brokers",
            (LevelRole::Consumers, 1) => "consumer",
            (LevelRole::Consumers, _) => "consumers",
        }
    }
}

/// Parses a level: `B`, `2B`, `16C`.
fn level(text: &str) -> Result<(u32, LevelRole), String> {
    let (digits, of) = match text.char_indices().next_back() {
        Some((at, 'B' | 'b')) => (&text[..at], LevelRole::Brokers),
        Some((at, 'C' | 'c')) => (&text[..at], LevelRole::Consumers),
        _ => return Err(format!("a level is a number and B or C, not '{text}'")),
    };
    if digits.is_empty() {
        return Ok((1, of));
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("a level is a number and B or C, not '{text}'"));
    }
    match digits.parse() {
        Ok(0) => Err(format!("a level has at least one of its {}", of.name(0))),
        Ok(count) if count <= NODES_MAX => Ok((count, of)),
        _ => Err(format!("a tree has {NODES_MAX} nodes at most")),
    }
}

fn parse(text: &str) -> Result<Tree, String> {
    let mut brokers: Vec<u32> = Vec::new();
    let mut nodes = 0u32;
    let mut texts = text.split('-');
    while let Some(text) = texts.next() {
        let (count, of) = level(text)?;
        nodes = nodes
            .checked_add(count)
            .filter(|&nodes| nodes <= NODES_MAX)
            .ok_or(format!("a tree has {NODES_MAX} nodes at most"))?;
        match (brokers.last(), of) {
            (None, LevelRole::Consumers) => return Err("consumers need a broker above them".to_owned()),
            (None, LevelRole::Brokers) if count != 1 => {
                return Err(format!("it begins with one broker, not with {count}"));
            }
            (Some(&above), _) if count < above => {
                let (here, there) = (of.name(count), LevelRole::Brokers.name(above));
                return Err(format!("{above} {there} need at least one below each, not {count} {here}"));
            }
            _ => {}
        }
        if of == LevelRole::Consumers {
            return match texts.next() {
                None => Ok(Tree::new(brokers, count)),
                Some(_) => Err("nothing comes below consumers".to_owned()),
            };
        }
        brokers.push(count);
        if brokers.len() > LEVELS_MAX {
            return Err(format!("a tree has {LEVELS_MAX} levels of brokers at most"));
        }
    }
    Err("it ends with consumers".to_owned())
}

impl FromStr for Tree {
    type Err = TreeParseError;

    fn from_str(text: &str) -> Result<Self, TreeParseError> {
        if text.len() > NOTATION_BYTES_MAX {
            let shown = text.chars().take(40).collect::<String>() + "…";
            return Err(TreeParseError { text: shown, why: format!("it is longer than {NOTATION_BYTES_MAX} bytes") });
        }
        parse(text).map_err(|why| TreeParseError { text: text.to_owned(), why })
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut level = |count: u32, of| if count == 1 { write!(to, "{of}") } else { write!(to, "{count}{of}") };
        for &brokers in self.levels() {
            level(brokers, "B-")?;
        }
        level(self.consumers(), "C")
    }
}
