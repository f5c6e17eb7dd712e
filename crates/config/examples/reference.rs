//! Prints the reference page of the configuration, `docs/configuration.md`.

fn main() {
    print!("{}", config::reference());
}
