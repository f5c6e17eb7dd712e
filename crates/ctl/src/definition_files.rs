//! Commands for definitions as files.

use crate::ctl_run::{CtlOutput, CtlRun};
use crate::exit_status::{CtlError, SysExit};
use crate::user_commands::read_input;
use definitions::Json;
use management::limits::BODY_BYTES_MAX;
use secrets::secret_file;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// The word for standard input and standard output.
const STREAM: &str = "-";

/// The route of all definitions, or of the virtual host that was asked for.
fn path(run: &CtlRun<'_>) -> Result<String, CtlError> {
    match run.arguments.has("--vhost") {
        true => run.path("/api/definitions/{vhost}"),
        false => Ok("/api/definitions".to_owned()),
    }
}

/// The file of the command line, unless it is a stream.
fn file<'a>(run: &CtlRun<'a>) -> Option<&'a str> {
    run.arguments.get("FILE").filter(|file| *file != STREAM)
}

pub fn export_definitions(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let answer = run.client.get(&path(run)?)?;
    let found = run.check(answer, "there is no virtual host '{vhost}'")?;
    let Some(file) = file(run) else { return Ok(CtlOutput::Object(found)) };
    run.progress(&format!("Writing definitions to {file} ..."));
    // It has hashes of passwords.
    let mut created = secret_file::create(Path::new(file))
        .map_err(|error| CtlError::new(SysExit::CannotCreate, format!("{file}: cannot be created: {error}")))?;
    let written = created.write_all((found.page() + "\n").as_bytes()).and_then(|()| created.sync_all());
    written.map_err(|error| CtlError::new(SysExit::InputOutput, format!("{file}: cannot be written: {error}")))?;
    Ok(CtlOutput::Nothing)
}

pub fn import_definitions(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let name = file(run).unwrap_or("standard input");
    let bytes = match file(run) {
        Some(file) => File::open(file).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        }),
        None => read_input(BODY_BYTES_MAX),
    };
    let bytes =
        bytes.map_err(|error| CtlError::new(SysExit::InputOutput, format!("{name}: cannot be read: {error}")))?;
    if bytes.len() > BODY_BYTES_MAX {
        return Err(CtlError::data(format!("{name}: definitions have {BODY_BYTES_MAX} bytes at most")));
    }
    let text = String::from_utf8(bytes).map_err(|_| CtlError::data(format!("{name}: it is not UTF-8")))?;
    run.progress(&format!("Importing definitions from {name} ..."));
    let answer = run.client.send("POST", &path(run)?, Some(&text), None)?;
    run.check(answer, "there is no virtual host '{vhost}'")?;
    Ok(CtlOutput::Nothing)
}

/// Read between two changes by the thread that makes them.
pub fn definitions(run: &mut CtlRun<'_>) -> Result<CtlOutput, CtlError> {
    let vhost = run.arguments.get("--vhost").map(|name| ("vhost", Json::text(name)));
    Ok(CtlOutput::Object(run.client.command("definitions", vhost.into_iter().collect())?))
}
