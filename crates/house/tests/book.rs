//! The book has every page, and no link of it leads out of it.

use house::book::{Book, ContentsEntry};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn pages(book: &Book) -> Vec<&PathBuf> {
    let pages = book.contents().iter();
    pages.filter_map(|entry| if let ContentsEntry::Page { path, .. } = entry { Some(path) } else { None }).collect()
}

#[test]
fn the_index_leads_to_every_page() {
    let book = Book::new();
    let listed: BTreeSet<_> = pages(&book).into_iter().cloned().collect();
    assert_eq!(listed.len(), pages(&book).len(), "a page has one place");
    let written: BTreeSet<_> = house::files("docs", ".md").into_iter().collect();
    let missing: Vec<_> = written.difference(&listed).collect();
    assert!(missing.is_empty(), "neither docs/README.md nor the list of their folder has {missing:?}");
}

#[test]
fn the_table_of_contents_has_the_headings_of_the_index() {
    let summary = Book::new().summary();
    assert!(summary.starts_with("# Summary\n\n[Harrier](index.md)\n[Documentation](docs/index.md)\n\n# Start\n\n- ["));
    let decision = house::files("docs/decisions", ".md").into_iter().next().expect("there is a decision");
    assert!(summary.contains(&format!("]({})\n  - ", decision.display())), "decisions are below their list: {summary}");
    assert!(!summary.contains("[]("), "every page has a heading: {summary}");
}

#[test]
fn every_link_of_the_book_leads_to_a_part_of_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("what was there before can be removed");
    }
    let book = Book::new();
    book.write(&folder).expect("the book can be written");
    let mut followed = 0;
    let mut broken = Vec::new();
    for page in pages(&book) {
        let name = if page.ends_with("README.md") { page.with_file_name("index.md") } else { page.clone() };
        let place = folder.join(name);
        let text = fs::read_to_string(&place).expect("each page of the contents is there");
        for link in house::links(&text) {
            if link.target.contains("://") || link.target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
            let target = if file.is_empty() { place.clone() } else { place.with_file_name("").join(file) };
            // mdBook makes `x.html` of what has `.md` in its name.
            let is_page = file.is_empty() || file.ends_with(".md");
            let leads = target.is_file() && (is_page || !file.contains(".md"));
            let has_anchor =
                || fs::read_to_string(&target).is_ok_and(|text| house::anchors(&text).iter().any(|id| id == anchor));
            if !leads || !(anchor.is_empty() || has_anchor()) {
                broken.push(format!("{}:{}: {}", page.display(), link.line, link.target));
            }
        }
    }
    assert!(followed > 500, "only {followed} links were found");
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}
