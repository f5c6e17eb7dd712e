//! stub
pub fn run(_words: &[String]) -> Result<(), String> { Err("soon".into()) }
