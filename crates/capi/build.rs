//! Gives the shared library its soname, by which programs look for it when they start.

/// The version of the ABI, which is not that of the library: it is raised when a declaration of a released header changes or
/// goes, and when a structure grows. A function more leaves it, and joins `packages/debian/libharrier.symbols`.
const ABI: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libharrier.so.{ABI}");
}
