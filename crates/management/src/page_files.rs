//! The page: its files, which are part of the program.
//!
//! Owns: which files there are, and what a browser may do with them.

use crate::answer::{Answer, AnswerBody};
use crate::api_error::ApiError;
use crate::percent;

/// What a browser may load: files of this page, and nothing that is written within one.
pub const CONTENT_SECURITY_POLICY: &str =
    "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// In the document, where the prefix of all paths goes.
const BASE: &str = "<base href=\"/\">";

static DOCUMENT: &str = include_str!("../page/index.html");

macro_rules! page_files {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../page/", $name))),)+]
    };
}

/// The files beside the document, by name.
pub static PAGE_FILES: &[(&str, &str)] = page_files! {
    "api.js"
    "app.js"
    "bindings.js"
    "dialog.js"
    "dom.js"
    "icon.svg"
    "messages.js"
    "plot.js"
    "search.js"
    "shovels.js"
    "style.css"
    "table.js"
    "tree_map.js"
    "view_audit.js"
    "view_channels.js"
    "view_connections.js"
    "view_definitions.js"
    "view_exchange.js"
    "view_exchanges.js"
    "view_federation.js"
    "view_node.js"
    "view_overview.js"
    "view_policies.js"
    "view_queue.js"
    "view_queues.js"
    "view_users.js"
    "view_vhosts.js"
    "words.js"
};

/// The document. Its links are relative to the prefix that all paths have.
pub fn document(path_prefix: &str) -> Answer {
    let base = format!("<base href=\"{}/\">", percent::encode_path(path_prefix));
    file(DOCUMENT.replacen(BASE, &base, 1).into_bytes(), "text/html; charset=utf-8")
}

/// A file beside the document.
///
/// # Errors
/// There is none of that name.
pub fn page_file(name: &str) -> Result<Answer, ApiError> {
    let found = PAGE_FILES.iter().find(|(known, _)| *known == name);
    let (name, text) = found.ok_or_else(ApiError::not_found)?;
    let content_type = match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "image/svg+xml",
    };
    Ok(file(text.as_bytes().to_vec(), content_type))
}

fn file(bytes: Vec<u8>, content_type: &str) -> Answer {
    let answer = Answer { status: 200, headers: Vec::new(), body: AnswerBody::Text(bytes) };
    answer.with_header("content-type", content_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(answer: &Answer) -> &str {
        match &answer.body {
            AnswerBody::Text(text) => std::str::from_utf8(text).expect("it is UTF-8"),
            other => panic!("{other:?}"),
        }
    }

    /// What is quoted behind each `marker` in a text.
    fn quoted<'a>(text: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(marker).skip(1).filter_map(|rest| rest.split('"').next())
    }

    #[test]
    fn the_document_and_all_modules_load_only_files_that_are_there() {
        let document = document("");
        let linked = ["src=\"", "href=\"page/"].into_iter().flat_map(|marker| quoted(text(&document), marker));
        let mut names: Vec<_> = linked.map(|name| name.trim_start_matches("page/").to_owned()).collect();
        for (_, text) in PAGE_FILES {
            names.extend(quoted(text, "from \"./").map(str::to_owned));
        }
        assert!(names.len() > 30, "{names:?}");
        for name in names {
            assert!(page_file(&name).is_ok(), "{name}");
        }
        assert!(page_file("index.html").is_err(), "the document has a path of its own");
    }

    #[test]
    fn each_file_is_loaded_by_another() {
        for (name, _) in PAGE_FILES {
            let all = PAGE_FILES.iter().map(|(_, text)| *text).chain([DOCUMENT]);
            assert!(all.into_iter().any(|text| text.contains(name)), "nothing loads {name}");
        }
    }

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let files = PAGE_FILES.iter().map(|(_, text)| *text).chain([DOCUMENT]);
        assert!(files.clone().map(str::len).sum::<usize>() <= 250_000);
        for text in files {
            for foreign in ["https://", "//cdn", "@import", "url("] {
                assert!(!text.contains(foreign), "{foreign}");
            }
            // What the policy refuses.
            for inline in ["style=\"", "onclick=\"", "<style", "javascript:", "eval(", "innerHTML"] {
                assert!(!text.contains(inline), "{inline}");
            }
        }
    }

    #[test]
    fn the_prefix_of_all_paths_is_the_base_of_its_links() {
        assert!(text(&document("/broker")).contains("<base href=\"/broker/\">"));
        assert!(text(&document("/a\"><b")).contains("<base href=\"/a%22%3E%3Cb/\">"));
    }
}
