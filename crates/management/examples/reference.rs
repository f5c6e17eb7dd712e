//! Prints what is made from the table of routes: `page` for `docs/management.md`, `openapi` for `docs/management/openapi.json`.

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("page") => print!("{}", management::reference()),
        Some("openapi") => print!("{}", management::openapi()),
        _ => {
            eprintln!("usage: reference page|openapi");
            std::process::exit(64);
        }
    }
}
