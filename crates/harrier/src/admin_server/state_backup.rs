//! Admin command that copies the state folder of a broker that runs.

use super::{AdminCommand, AdminError, AdminServer, error};
use crate::state_folder::StateFolder;
use crate::{kept_definitions, plan_file, state_folder, store_file};
use definitions::Json;
use durability::StoreBackup;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The files of a state folder beside the store's.
const FILES: [&str; 4] = [store_file::FILE, state_folder::IDENTITY, plan_file::FILE, kept_definitions::FILE];

#[expect(clippy::disallowed_methods, reason = "a program may tell how long something took")]
fn now() -> Instant {
    Instant::now()
}

/// What a backup has, and what it took.
struct BackupReport {
    segments: u64,
    /// Nothing was written meanwhile.
    held: Duration,
}

impl AdminServer {
    /// Copies the state folder into a new folder of the same file system.
    pub(super) fn backup(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let folder = asked.text("folder")?.ok_or_else(|| error("malformed", "argument 'folder' is missing"))?;
        let (Some(store), Some(state)) = (&self.store, self.federation.folder()) else {
            return Err(error("no-store", "this broker has no store: everything is in memory (--state none)"));
        };
        let to = Path::new(folder);
        if !to.is_absolute() {
            return Err(error("malformed", format!("'{folder}' is no absolute path of the broker's machine")));
        }
        if let Err(refused) = DirBuilder::new().mode(0o700).create(to) {
            return Err(error("failed", format!("{folder} cannot be made: {refused}")));
        }
        let BackupReport { segments, held } = copy(store, state, to).map_err(|why| {
            // A part of a backup is none.
            let left = match std::fs::remove_dir_all(to) {
                Ok(()) => String::new(),
                Err(refused) => format!("; {folder} is left there: {refused}"),
            };
            error("failed", format!("{why} (a backup is made on the file system of the state folder){left}"))
        })?;
        let held_us = held.as_micros() as u64;
        tracing::info!(folder, segments, held_us, "the state folder was copied");
        let fields = [("folder", Json::text(folder)), ("segments", number(segments)), ("held_us", number(held_us))];
        Ok(Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into()))
    }
}

fn number(value: u64) -> Json {
    Json::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn copy(store: &StoreBackup, state: &StateFolder, to: &Path) -> Result<BackupReport, String> {
    let began = now();
    let mut held = Duration::ZERO;
    let segments = store.copy_to(to, || held = began.elapsed()).map_err(|error| error.text)?;
    for name in FILES {
        let text = state.read(name).map_err(|error| format!("{name} cannot be read: {error}"))?;
        if let Some(text) = text {
            state_folder::write_file(to, name, &text).map_err(|error| format!("{name} cannot be written: {error}"))?;
        }
    }
    state_folder::make_lock(to).map_err(|error| error.to_string())?;
    // The folder's own name is durable once the one that it is in is synced.
    for folder in [Some(to), to.parent()].into_iter().flatten() {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| error.to_string())?;
    }
    Ok(BackupReport { segments, held })
}
