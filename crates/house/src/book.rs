//! The book: the pages as the sources of mdBook, and its table of contents out of the index that readers use.
//!
//! Enters: the tree.  Leaves: a folder of pages, `SUMMARY.md`, images, and as text what the pages link to.
//! Owns:   which page comes where, and where its links lead in the book.

use crate::{files, links, read, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// The page that lists all others by task.
const INDEX: &str = "docs/README.md";
/// The first pages, which no list has.
const FRONT: [&str; 2] = ["README.md", INDEX];
/// Files that browsers show or store by themselves. Others are copied as text.
const SHOWN: [&str; 5] = ["png", "svg", "html", "json", "xz"];

/// A line of the table of contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ContentsEntry {
    /// A heading of the index.
    Part(String),
    /// A page, by its path from the root, and whether another page lists it.
    Page { path: PathBuf, is_below: bool },
}

/// The book before it is written.
pub struct Book {
    contents: Vec<ContentsEntry>,
    pages: BTreeSet<PathBuf>,
}

impl Default for Book {
    fn default() -> Self {
        Self::new()
    }
}

impl Book {
    /// The pages that the index lists, in its order; one that is itself a list of its folder is followed by that folder's.
    pub fn new() -> Self {
        let mut book = Book { contents: Vec::new(), pages: BTreeSet::new() };
        for page in FRONT {
            book.add(PathBuf::from(page), false);
        }
        for section in read(INDEX).split("\n## ").skip(1) {
            let (heading, list) = section.split_once('\n').unwrap_or((section, ""));
            book.contents.push(ContentsEntry::Part(heading.trim().to_owned()));
            for link in links(list) {
                if let Some(page) = page_of(Path::new(INDEX), &link.target) {
                    book.add_with_list(page);
                }
            }
        }
        book
    }

    /// The table of contents, from the first page to the last.
    pub fn contents(&self) -> &[ContentsEntry] {
        &self.contents
    }

    fn add(&mut self, path: PathBuf, is_below: bool) -> bool {
        let is_new = self.pages.insert(path.clone());
        if is_new {
            self.contents.push(ContentsEntry::Page { path, is_below });
        }
        is_new
    }

    fn add_with_list(&mut self, page: PathBuf) {
        if !self.add(page.clone(), false) || !page.ends_with("README.md") {
            return;
        }
        for link in links(&read(&page)) {
            if let Some(below) = page_of(&page, &link.target)
                && below.parent() == page.parent()
            {
                self.add(below, true);
            }
        }
    }

    /// The table of contents as mdBook reads it.
    pub fn summary(&self) -> String {
        let mut text = "# Summary\n\n".to_owned();
        let mut is_front = true;
        for entry in &self.contents {
            let _infallible = match entry {
                ContentsEntry::Part(heading) => {
                    is_front = false;
                    write!(text, "\n# {heading}\n\n")
                }
                ContentsEntry::Page { path, is_below } => {
                    let place = match (is_front, is_below) {
                        (true, _) => "",
                        (false, false) => "- ",
                        (false, true) => "  - ",
                    };
                    writeln!(text, "{place}[{}]({})", title(&read(path)), place_in_book(path).display())
                }
            };
        }
        text
    }

    /// Writes all that mdBook reads into a folder that has nothing else.
    ///
    /// # Errors
    /// A file cannot be written, or one that a page links to cannot be read.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut linked = BTreeMap::new();
        for page in &self.pages {
            let text = rewrite(&read(page), |target| self.target(page, target, &mut linked));
            write_file(&folder.join(place_in_book(page)), text.as_bytes())?;
        }
        for (source, place) in linked {
            let source_path = root().join(&source);
            let bytes = if source_path.is_dir() { list_of(&source).into_bytes() } else { fs::read(source_path)? };
            write_file(&folder.join(place), &bytes)?;
        }
        write_file(&folder.join("SUMMARY.md"), self.summary().as_bytes())
    }

    /// Where a link of a page leads in the book. A file that is no page joins `linked`, with its place.
    fn target(&self, page: &Path, target: &str, linked: &mut BTreeMap<PathBuf, PathBuf>) -> String {
        if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
            return target.to_owned();
        }
        let (file, anchor) = target.split_once('#').map_or((target, ""), |(file, anchor)| (file, anchor));
        let from = page.with_file_name("");
        if let Some(other) = page_of(page, target).filter(|other| self.pages.contains(other)) {
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            return relative(&from, &place_in_book(&other)) + &anchor;
        }
        let source = normal(&from.join(file));
        let place = place_as_text(&source);
        let link = relative(&from, &place);
        linked.insert(source, place);
        link
    }
}

/// The page that a link leads to: a Markdown file, or that of a folder.
fn page_of(page: &Path, target: &str) -> Option<PathBuf> {
    if target.contains("://") {
        return None;
    }
    let file = target.split('#').next().filter(|file| !file.is_empty())?;
    let path = normal(&page.with_file_name("").join(file));
    let path = if root().join(&path).is_dir() { path.join("README.md") } else { path };
    (path.extension()? == "md" && root().join(&path).exists()).then_some(path)
}

/// mdBook shows `index.md` where a folder is asked for.
fn place_in_book(page: &Path) -> PathBuf {
    if page.ends_with("README.md") { page.with_file_name("index.md") } else { page.to_path_buf() }
}

/// Where a file is that is no page. mdBook takes every name with `.md` in it for a page's.
fn place_as_text(source: &Path) -> PathBuf {
    let is_folder = root().join(source).is_dir();
    match source.extension().and_then(|ending| ending.to_str()) {
        _ if is_folder => source.join("files.txt"),
        Some(ending) if SHOWN.contains(&ending) => source.to_path_buf(),
        Some("md") => source.with_extension("txt"),
        Some(ending) => source.with_extension(format!("{ending}.txt")),
        None => source.with_extension("txt"),
    }
}

/// What a folder has, a file a line.
fn list_of(folder: &Path) -> String {
    files(&folder.to_string_lossy(), "").iter().map(|path| format!("{}\n", path.display())).collect()
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

/// A path without `.` and `..`, as long as it stays below the root.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    normal
}

/// The way from a folder to a file.
fn relative(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(from, to)| from == to).count();
    let up = from.components().skip(shared).map(|_| "..".to_owned());
    let down = to.components().skip(shared).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// The first heading of a page, without what sets it in type.
fn title(page: &str) -> String {
    let heading = page.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    heading.trim().replace(['`', '[', ']'], "")
}

/// A document with the targets of its links replaced, but for those in code.
fn rewrite(document: &str, mut target: impl FnMut(&str) -> String) -> String {
    let mut text = String::with_capacity(document.len());
    let mut in_block = false;
    for line in document.lines() {
        in_block ^= line.trim_start().starts_with("```");
        for (at, piece) in line.split('`').enumerate() {
            text.push_str(if at == 0 { "" } else { "`" });
            if in_block || at % 2 == 1 {
                text.push_str(piece);
                continue;
            }
            let mut rest = piece;
            while let Some((before, (link, behind))) =
                rest.split_once("](").and_then(|(before, behind)| Some((before, behind.split_once(')')?)))
            {
                let _infallible = write!(text, "{before}]({})", target(link));
                rest = behind;
            }
            text.push_str(rest);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{normal, place_as_text, relative, rewrite, title};
    use std::path::Path;

    #[test]
    fn links_are_replaced_in_prose_and_not_in_code() {
        let document = "a [b](c) `[d](e)` [`f`](g) and [h](i)\n```\n[j](k)\n```\n";
        assert_eq!(
            rewrite(document, |target| target.to_uppercase()),
            "a [b](C) `[d](e)` [`f`](G) and [h](I)\n```\n[j](k)\n```\n"
        );
    }

    #[test]
    fn a_way_leads_from_a_folder_to_a_file() {
        assert_eq!(relative(Path::new("docs/operations"), Path::new("docs/index.md")), "../index.md");
        assert_eq!(relative(Path::new(""), Path::new("docs/index.md")), "docs/index.md");
        assert_eq!(normal(Path::new("docs/operations/../../a.md")), Path::new("a.md"));
    }

    #[test]
    fn no_text_has_a_name_that_mdbook_takes_for_a_page() {
        assert_eq!(place_as_text(Path::new("tests/lab/README.md")), Path::new("tests/lab/README.txt"));
        assert_eq!(place_as_text(Path::new("tests/suite")), Path::new("tests/suite.txt"));
        assert_eq!(place_as_text(Path::new("layers.toml")), Path::new("layers.toml.txt"));
        assert_eq!(place_as_text(Path::new("docs/images/a.png")), Path::new("docs/images/a.png"));
    }

    #[test]
    fn a_title_is_the_first_heading() {
        assert_eq!(title("text\n# `harrier ctl`, in words\n# no"), "harrier ctl, in words");
    }
}
