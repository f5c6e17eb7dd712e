//! The pages that are made from the table of routes are the ones in the tree.

use std::path::Path;

fn check(path: &str, expected: &str, what: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path);
    let found = std::fs::read_to_string(file).expect("the page is there");
    let command = format!("cargo run -p harrier-management --example reference -- {what} > docs/{path}");
    assert!(found == expected, "docs/{path} is out of date: {command}");
}

#[test]
fn the_reference_page_is_the_generated_one() {
    check("management.md", &management::reference(), "page");
}

#[test]
fn the_openapi_document_is_the_generated_one() {
    check("management/openapi.json", &management::openapi(), "openapi");
}
