//! The sources of the book: `cargo run -p harrier-house --example book -- FOLDER`.
//!
//! Enters: the pages.  Leaves: in FOLDER what mdBook builds the book of; what was there before is removed.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "usage: book FOLDER"))?;
    let pages = folder.join("pages");
    match fs::remove_dir_all(&pages) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    house::book::Book::new().write(&pages)?;
    fs::copy(house::root().join("docs/book.toml"), folder.join("book.toml")).map(drop)
}
