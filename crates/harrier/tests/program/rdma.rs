//! `harrier rdma check` on machines without a device. With one it runs in the lab (`tests/lab/run`).

use super::{TempFolder, harrier, output};

/// Without a device, as on most machines that run this test.
pub fn has_devices() -> bool {
    std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut entries| entries.next().is_some())
}

#[test]
fn what_is_missing_is_said_in_full_and_the_status_is_one() {
    if has_devices() {
        println!("SKIPPED: this machine has an RDMA device");
        return;
    }
    let found = output(&["rdma", "check"]);
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    assert_eq!((found.status.code(), &*found.stderr), (Some(1), &b""[..]), "{text}");
    assert!(text.starts_with("locked memory: "), "{text}");
    assert!(text.ends_with("\nRDMA cannot be used, or not on every port\n"), "{text}");
    let lines: Vec<_> = text.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("FAILED: ")).expect("something is missing");
    let package = "needed: apt-get install libibverbs1 ibverbs-providers";
    let no_device = "needed: a card and its driver, or Soft-RoCE: see docs/operations/rdma.md";
    if lines[at].starts_with("FAILED: lib") {
        assert!(lines[at + 1].starts_with("needed: apt-get install lib"), "{text}");
        assert!(lines[at].contains("librdmacm") || lines[at + 1] == package, "{text}");
    } else {
        let no_kernel = "FAILED: there is no RDMA device, and the kernel's RDMA modules are not loaded: a card's driver loads them, and \
            `modprobe rdma_rxe` and `rdma link add rxe0 type rxe netdev INTERFACE` create a software device";
        let none = "FAILED: there is no RDMA device: a card's driver provides one, and `rdma link add rxe0 type rxe netdev INTERFACE` \
            creates a software device";
        let has_modules = std::path::Path::new("/sys/class/infiniband").exists();
        assert_eq!(lines[at..at + 2], [if has_modules { none } else { no_kernel }, no_device], "{text}");
    }
}

#[test]
fn json_says_the_same() {
    if has_devices() {
        println!("SKIPPED: this machine has an RDMA device");
        return;
    }
    let found = output(&["rdma", "check", "--json"]);
    assert_eq!(found.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&found.stdout).expect("it is JSON");
    assert_eq!((json["usable"].as_bool(), json["devices"].as_array().map(Vec::len)), (Some(false), Some(0)), "{json}");
    assert!(json["problems"][0]["what"].is_string() && json["problems"][0]["needed"].is_string(), "{json}");
}

/// A file that is no library stands in for one that is not installed: the loader finds it first.
#[test]
fn a_library_that_cannot_be_opened_is_named_with_its_packages() {
    let folder = TempFolder::new("rdma");
    for (file, needed) in [
        ("libibverbs.so.1", "needed: apt-get install libibverbs1 ibverbs-providers\n"),
        ("librdmacm.so.1", "needed: apt-get install librdmacm1\n"),
    ] {
        let path = folder.path(file);
        std::fs::write(&path, "no library").expect("a file");
        let found =
            harrier().args(["rdma", "check"]).env("LD_LIBRARY_PATH", folder.path("")).output().expect("it runs");
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        assert_eq!(found.status.code(), Some(1), "{text}");
        let named = text.contains(&format!("FAILED: {file} cannot be used: ")) && text.contains(needed);
        // Where librdmacm is tried, libibverbs must be there; without it that is what is said.
        let other = file == "librdmacm.so.1" && text.contains("FAILED: libibverbs.so.1 cannot be used: ");
        assert!(named || other, "{file}: {text}");
        std::fs::remove_file(&path).expect("it is there");
    }
}

#[test]
fn other_words_are_wrong_usage() {
    for words in [&["rdma"][..], &["rdma", "chek"], &["rdma", "check", "--jsno"]] {
        let found = output(words);
        assert_eq!(found.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&found.stderr).contains("usage: harrier rdma check [--json]"), "{words:?}");
    }
    assert_eq!(output(&["rdma", "--help"]).status.code(), Some(0));
}
