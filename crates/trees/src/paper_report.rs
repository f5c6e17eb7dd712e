//! The output of `harrier topology plan --paper`: the model compared with the 2009 paper, a table for each size.

use std::fmt::Write;

use planner::paper_comparison::{TIED_SHARE, TreeComparison, compare_with_paper};

use harness::failure::CommandFailure;

/// The comparison as text.
///
/// # Errors
/// The paper's tables do not fit.
pub(super) fn paper() -> Result<String, CommandFailure> {
    let sizes = compare_with_paper().map_err(|why| why.to_string())?;
    let mut text = String::from(
        "# Tables 7 and 8 of the 2009 paper, sixteen consumers, predicted with costs from its Tables 1 to 6 alone.\n\
         # Messages a second of one stream; tables of large messages count bytes of all consumers, and are converted.\n",
    );
    for size in &sizes {
        let place = |of: &dyn Fn(&TreeComparison) -> f64, held: &TreeComparison| {
            size.trees.iter().filter(|one| of(one) > of(held)).count() + 1
        };
        let _infallible = writeln!(
            text,
            "# {:<16}{:>8}{:>11}{:>7}{:>11}{:>21}{:>7}{:>9}",
            "Tree", "Bytes", "Measured", "Place", "Predicted", "95 % from - to", "Place", "Off by"
        );
        for held in &size.trees {
            let rate = &held.predicted.stream_per_s;
            let _infallible = writeln!(
                text,
                "{:<18}{:>8}{:>11.0}{:>7}{:>11.0}{:>21}{:>7}{:>7.0} %",
                held.tree.to_string(),
                size.message_bytes,
                held.measured_per_s,
                place(&|one| one.measured_per_s, held),
                rate.value,
                format!("{:.0} - {:.0}", rate.low, rate.high),
                place(&|one| one.predicted.stream_per_s.value, held),
                held.error().value * 100.0
            );
        }
        let named = match size.best() {
            Some((measured, named)) if measured.tree == named.tree => {
                format!("{} is predicted, and was the best", named.tree)
            }
            Some((measured, named)) => format!(
                "{} is predicted, and was {:.0} % below {}",
                named.tree,
                (1.0 - named.measured_per_s / measured.measured_per_s) * 100.0,
                measured.tree
            ),
            None => "no trees".to_owned(),
        };
        let tied = if size.predicts_best() { "reached" } else { "MISSED" };
        let _infallible = writeln!(
            text,
            "# {} bytes: Spearman {:.2}; {named} (the best within {:.0} %: {tied})\n",
            size.message_bytes,
            size.spearman(),
            TIED_SHARE * 100.0
        );
    }
    Ok(text)
}
