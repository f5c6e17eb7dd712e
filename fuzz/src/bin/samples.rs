//! Writes the samples of every target into its corpus, `corpus/TARGET/`.
//!
//! Leaves: one file a sample, the same at every run.
//! Never:  removes a file: a corpus also keeps what fuzzing once found.
use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    for target in fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in (target.samples)() {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
