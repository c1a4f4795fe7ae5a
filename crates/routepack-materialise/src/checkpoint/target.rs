//! The folder to be made: filled under another name, durable before it gets its own.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::{CheckpointError, Rewrite};

/// What a folder's name ends with until it is whole.
pub(crate) const UNFINISHED: &str = "unfinished";

/// An empty folder beside the target, and what says that this run is going on as long as it is open.
pub(crate) fn begin(job: &Rewrite) -> Result<(PathBuf, File), CheckpointError> {
    let refuse =
        |place: &Path, why: &str| Err::<(PathBuf, File), _>(CheckpointError::input(place.display(), why));
    let there = || refuse(&job.target, "is there already; nothing is overwritten");
    if fs::symlink_metadata(&job.target).is_ok() {
        return there();
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
        // Locked before anything is asked of it: another run may end, and its folder be gone, at any moment.
        let _alone = hold(&unfinished)?;
        if real(&job.source)?.starts_with(real(&unfinished)?) {
            return refuse(&unfinished, "holds the source, which --again would delete with it");
        }
        fs::remove_dir_all(&unfinished)
            .map_err(|error| CheckpointError::access(&unfinished, "delete", &error))?;
    }
    match fs::create_dir(&unfinished) {
        Ok(()) => {
            let held = hold(&unfinished)?;
            if fs::symlink_metadata(&job.target).is_ok() {
                // By a run that has ended meanwhile.
                let _ = fs::remove_dir(&unfinished);
                return there();
            }
            Ok((unfinished, held))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => refuse(
            &unfinished,
            "a run did not finish, or is going on; the source is whole. Rerun with --again to delete this and begin again",
        ),
        Err(error) => Err(CheckpointError::access(&unfinished, "make", &error)),
    }
}

/// Locks an unfinished folder; refused while another run is at it. File systems without locks cannot tell.
fn hold(unfinished: &Path) -> Result<File, CheckpointError> {
    let other = || {
        let why = "another run is making this target; the source is whole. Let it end, or give another -o";
        Err(CheckpointError::input(unfinished.display(), why))
    };
    let held = match File::open(unfinished) {
        Ok(held) => held,
        // Deleted by another, which begins again.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return other(),
        Err(error) => return Err(CheckpointError::access(unfinished, "open", &error)),
    };
    if matches!(held.try_lock(), Err(TryLockError::WouldBlock)) || !is_still(&held, unfinished) {
        return other();
    }
    Ok(held)
}

/// Whether an open folder has its name yet: another run may have deleted it, and made its own.
#[cfg(unix)]
fn is_still(held: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    matches!((held.metadata().map(place), fs::metadata(path).map(place)), (Ok(held), Ok(named)) if held == named)
}

#[cfg(not(unix))]
fn is_still(_: &File, path: &Path) -> bool {
    path.exists()
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
