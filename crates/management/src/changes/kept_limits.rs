//! What is kept without an effect has limits, however it comes.

use crate::api_error::ApiError;
use crate::limits::{PARAMETER_BYTES_MAX, PARAMETERS_KEPT_MAX};
use definitions::{Json, KeptSections};

/// Checks an entry that is new.
pub fn check_entry(entry: &Json) -> Result<(), ApiError> {
    match entry.line().len() <= PARAMETER_BYTES_MAX {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!("a parameter has {PARAMETER_BYTES_MAX} bytes at most"))),
    }
}

/// Checks how many entries there are, once some have come. What a start has brought stays, and may be changed.
pub fn check_counts(before: &KeptSections, after: &KeptSections) -> Result<(), ApiError> {
    let most = |section: &str| before.section(section).len().max(PARAMETERS_KEPT_MAX);
    match after.sections().all(|(section, entries)| entries.len() <= most(section)) {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!("{PARAMETERS_KEPT_MAX} parameters are the most"))),
    }
}
