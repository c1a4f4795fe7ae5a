//! Files that are whole or not there: write beside the target, sync, rename.

use std::fs::{File, Permissions};
use std::io::{self, Cursor, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::FormatError;
use crate::error::name_of;

/// Writes a file so that its path holds either what was there before or all of the new bytes.
///
/// The bytes go to a file without a name in the same folder, are synced, and the file is named: so a process that is
/// killed leaves nothing behind. Where the system has no such files, it is one named `.routepack-` and six letters. A
/// link is followed, also one that leads to nothing yet. `-` and targets that are no regular files (a pipe,
/// `/dev/null`) are written directly; a reader of those that has gone away is no failure.
///
/// # Errors
/// The folder or file cannot be written; nothing is left behind.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FormatError> {
    let failed = |error: io::Error| FormatError::access(&name_of(path), "write", &error);
    if path == Path::new("-") {
        return pour(&mut io::stdout().lock(), bytes).map_err(failed);
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(FormatError::access(&name_of(path), "write", &"it is a folder"))
        }
        Ok(metadata) if !metadata.is_file() => {
            File::options().write(true).open(path).and_then(|mut file| pour(&mut file, bytes)).map_err(failed)
        }
        Ok(metadata) => {
            let target = path.canonicalize().map_err(failed)?;
            replace(&target, bytes, Some(metadata.permissions())).map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            end_of_links(path).map_or(Err(error), |end| replace(&end, bytes, None)).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Whether [`write_atomically`] can begin with a path: its folder takes new files. Nothing is left there.
///
/// # Errors
/// The path is a folder, its folder is not there or takes no file, or a link leads nowhere.
pub fn check_writable(path: &Path) -> Result<(), FormatError> {
    let failed = |error: io::Error| FormatError::access(&name_of(path), "write", &error);
    if path == Path::new("-") {
        return Ok(());
    }
    check_folder(folder_of(path)).map_err(|why| FormatError::access(&name_of(path), "write", &why))?;
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(FormatError::access(&name_of(path), "write", &"it is a folder"))
        }
        Ok(metadata) if !metadata.is_file() => Ok(()),
        Ok(_) => path.canonicalize().and_then(|target| try_folder(&target)).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            end_of_links(path).map_or(Err(error), |target| try_folder(&target)).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Refuses a folder that is not there, or is none.
fn check_folder(folder: &Path) -> Result<(), String> {
    match folder.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is no folder", name_of(folder))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(format!("the folder {} is not there", name_of(folder)))
        }
        Err(error) => Err(format!("the folder {}: {error}", name_of(folder))),
    }
}

/// Makes a file beside `path` that vanishes at once.
fn try_folder(path: &Path) -> io::Result<()> {
    let folder = folder_of(path);
    if nameless::open(folder).is_none() {
        tempfile::Builder::new().prefix(".routepack-").make_in(folder, |name| File::create_new(name))?;
    }
    Ok(())
}

/// Writes to what may be a pipe.
fn pour(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Where a path leads to, which is nothing yet; `None` for links that lead around in a circle.
pub fn end_of_links(path: &Path) -> Option<PathBuf> {
    let mut end = path.to_owned();
    for _ in 0..64 {
        let Ok(link) = end.read_link() else { return Some(end) };
        end = end.parent().unwrap_or(Path::new("")).join(link);
    }
    None
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn replace(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let folder = folder_of(path);
    let fill = |mut file: &File| {
        if let Some(permissions) = permissions.clone() {
            file.set_permissions(permissions)?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    };
    let mut names = tempfile::Builder::new();
    names.prefix(".routepack-");
    let named = match nameless::open(folder) {
        Some(file) => {
            fill(&file)?;
            names.make_in(folder, |name| nameless::link(&file, name)).ok().map(NamedTempFile::into_temp_path)
        }
        None => None,
    };
    let named = if let Some(named) = named {
        named
    } else {
        let file = names.make_in(folder, |name| File::create_new(name))?;
        fill(file.as_file())?;
        file.into_temp_path()
    };
    named.persist(path).map_err(|error| error.error)?;
    // The name is durable once the folder is; not every system can sync a folder.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Files that have no name until they are whole, and so vanish with a process that is killed.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};

    /// A new file on the folder's file system, where that can be had.
    pub(super) fn open(folder: &Path) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        // As for any new file, less what the umask takes away.
        rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
    }

    /// Gives the file a name that nothing has yet.
    pub(super) fn link(file: &File, name: &Path) -> io::Result<()> {
        let source = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, source, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// No such files here.
#[cfg(not(target_os = "linux"))]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn open(_: &Path) -> Option<File> {
        None
    }

    pub(super) fn link(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Anything to be read that can be rewound.
pub(crate) trait Source: Read + Seek {}
impl<T: Read + Seek> Source for T {}

/// Opens a file, or takes in the standard input for `-`.
pub(crate) fn open(path: &Path) -> Result<(Box<dyn Source>, String), FormatError> {
    let name = name_of(path);
    let source: Box<dyn Source> = if path == Path::new("-") {
        Box::new(Cursor::new(read_bytes(path)?))
    } else {
        let file = File::open(path).map_err(|error| FormatError::access(&name, "open", &error))?;
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            Box::new(io::BufReader::new(file))
        } else {
            Box::new(Cursor::new(read_bytes(path)?))
        }
    };
    Ok((source, name))
}

/// All bytes of a file, or of the standard input for `-`.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, FormatError> {
    let name = name_of(path);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| FormatError::access(&name, "read", &error))?;
    } else {
        let mut file = File::open(path).map_err(|error| FormatError::access(&name, "open", &error))?;
        file.read_to_end(&mut bytes).map_err(|error| FormatError::access(&name, "read", &error))?;
    }
    Ok(bytes)
}

/// The text of a file (`-`: the standard input), and its name for messages.
///
/// # Errors
/// The file cannot be read, or is no text.
pub fn read_text(path: &Path) -> Result<(String, String), FormatError> {
    let name = name_of(path);
    Ok((text_of(read_bytes(path)?, &name)?, name))
}

/// Bytes as text; `name` stands for the file in messages.
pub(crate) fn text_of(bytes: Vec<u8>, name: &str) -> Result<String, FormatError> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|&byte| byte == b'\n').count();
        FormatError::line(name, line, "no text: not valid UTF-8")
    })
}
