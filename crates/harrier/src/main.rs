//! The `harrier` program.
fn main() {}
