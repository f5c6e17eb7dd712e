//! x
use super::Wish;
use desim::Outcome;
pub(super) fn render(_wish: &Wish, _outcome: &Outcome) -> String {
    String::new()
}
