//! The folder to be made: filled under another name, durable before it gets its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{CheckpointError, Rewrite};

/// What a folder's name ends with until it is whole.
pub(crate) const UNFINISHED: &str = "unfinished";

/// An empty folder beside the target.
pub(crate) fn begin(job: &Rewrite) -> Result<PathBuf, CheckpointError> {
    let refuse = |place: &Path, why: &str| Err(CheckpointError::input(place.display(), why));
    if fs::symlink_metadata(&job.target).is_ok() {
        return refuse(&job.target, "is there already; nothing is overwritten");
    }
    let Some(name) = job.target.file_name() else {
        return refuse(&job.target, "expected the name of a new folder");
    };
    let parent =
        job.target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real =
        |path: &Path| path.canonicalize().map_err(|error| CheckpointError::access(path, "open", &error));
    if real(parent)?.starts_with(real(&job.source)?) {
        return refuse(&job.target, "lies inside the source, which is never changed");
    }
    let mut unfinished = name.to_owned();
    unfinished.push(".");
    unfinished.push(UNFINISHED);
    let unfinished = parent.join(unfinished);
    if job.target.extension().is_some_and(|end| end == UNFINISHED) {
        return refuse(&job.target, "a name for what is not whole yet");
    }
    if job.again && unfinished.is_dir() {
        if real(&job.source)?.starts_with(real(&unfinished)?) {
            return refuse(&unfinished, "holds the source, which --again would delete with it");
        }
        fs::remove_dir_all(&unfinished)
            .map_err(|error| CheckpointError::access(&unfinished, "delete", &error))?;
    }
    match fs::create_dir(&unfinished) {
        Ok(()) => Ok(unfinished),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => refuse(
            &unfinished,
            "a run did not finish, or is going on; the source is whole. Rerun with --again to delete this and begin again",
        ),
        Err(error) => Err(CheckpointError::access(&unfinished, "make", &error)),
    }
}

/// Names the folder, once everything in it is durable.
pub(crate) fn finish(unfinished: &Path, target: &Path) -> Result<(), CheckpointError> {
    sync(unfinished)?;
    fs::rename(unfinished, target).map_err(|error| CheckpointError::access(target, "name", &error))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(parent)
}

pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    fs::write(path, bytes).map_err(|error| CheckpointError::access(path, "write", &error))?;
    sync(path)
}

pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), CheckpointError> {
    fs::copy(from, to).map_err(|error| CheckpointError::access(from, "copy", &error))?;
    sync(to)
}

fn sync(path: &Path) -> Result<(), CheckpointError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| CheckpointError::access(path, "sync", &error))
}

pub(crate) fn json(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("text keys");
    text.push(b'\n');
    text
}
