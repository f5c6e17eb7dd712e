//! The header that is committed is the one that these sources make: `UPDATE=1 cargo test -p harrier-capi header` writes it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a configuration");
    let mut builder = cbindgen::Builder::new().with_config(config);
    // The files themselves: asking cargo for the crate would resolve dependencies.
    for entry in
        ["status", "foreign", "types", "connection_api", "channel_api", "message_api", "field_api", "property_api"]
    {
        builder = builder.with_src(folder.join("src").join(entry).with_extension("rs"));
    }
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    let path = folder.join("include/harrier.h");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).expect("the header is written");
    }
    let found = std::fs::read(&path).expect("the header is there");
    assert!(found == made, "{} is not what the sources make: run with UPDATE=1", path.display());
}
