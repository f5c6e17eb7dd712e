//! Another number of shards, or damage that may be lost: the store is written anew, and the new one takes the place of the old
//! one at once or not at all.
//!
//! `store.toml` names the folders that count, and those that do not: whatever a crash leaves behind is removed at the next start,
//! and a folder that nobody has named is never touched.

use crate::initial_definitions::salted;
use crate::state_folder::StateFolder;
use crate::store_file::StoreFile;
use catalog::CatalogLimits;
use durability::{ReshardTarget, StoreOptions};

/// Gives the store of a folder so many logs, and the options their places. If it is damaged and may lose that, it is written anew
/// without it: the next start finds no damage.
///
/// # Errors
/// The store cannot be read, or the new one not be written: then the old one is as it was.
pub fn reshard(
    folder: &StateFolder,
    options: &mut StoreOptions,
    shards: u16,
    limits: &CatalogLimits,
) -> Result<(), String> {
    let mut file = StoreFile::load(folder)?.ok_or("the store is gone")?;
    let is_damaged =
        options.loses_damaged && durability::is_store_damaged(options).map_err(|error| error.to_string())?;
    let logs = file.logs;
    if is_damaged {
        tracing::warn!(logs, shards, "the store is damaged: it is written anew without what cannot be read");
    } else if logs == shards {
        return Ok(());
    } else {
        tracing::info!(logs, shards, "the number of shards changes: the store is written anew");
    }
    let mut new = file.successor(shards);
    file.unused_folders = new.folders();
    file.store(folder)?;
    new.make_folders(folder)?;
    let (definitions_folder, log_folder) = (new.definitions_path(folder), new.log_path(folder));
    let to = ReshardTarget { definitions_folder, log_folder, logs: shards };
    let written = salted(|salt| durability::reshard(options, &to, limits, salt));
    let messages = match written.and_then(|written| written.map_err(|error| error.to_string())) {
        Ok(messages) => messages,
        Err(error) => {
            file.remove_unused(folder)?;
            return Err(if logs == shards {
                format!("the store cannot be written anew without what is damaged, and is as it was: {error}")
            } else {
                format!("the store cannot be written anew for {shards} shards, and still is one for {logs}: {error}")
            });
        }
    };
    new.unused_folders = file.folders();
    // From here on it is the new one.
    new.store(folder)?;
    tracing::info!(messages, logs = shards, "the store is written anew");
    new.remove_unused(folder)?;
    let ReshardTarget { definitions_folder, log_folder, logs } = to;
    *options = StoreOptions { definitions_folder, log_folder, logs, ..options.clone() };
    Ok(())
}
