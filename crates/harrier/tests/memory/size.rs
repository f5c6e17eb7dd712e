//! How large an attack is: small for every day, or as it was found (`HARRIER_ATTACKS=full`).

pub fn size<N>(small: N, full: N) -> N {
    if std::env::var("HARRIER_ATTACKS").is_ok_and(|size| size == "full") { full } else { small }
}
