//! Files that are whole or not there: write beside the target, sync, rename.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::Path;

use crate::FormatError;
use crate::error::name_of;

/// Writes a file so that its path holds either what was there before or all of the new bytes.
///
/// The bytes go to a temporary file in the same folder, are synced, and the file is renamed. A link is followed. `-`
/// and targets that are no regular files (a pipe, `/dev/null`) are written directly.
///
/// # Errors
/// The folder or file cannot be written; nothing is left behind.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FormatError> {
    let failed = |error: io::Error| FormatError::access(&name_of(path), "write", &error);
    if path == Path::new("-") {
        let mut out = io::stdout().lock();
        return out.write_all(bytes).and_then(|()| out.flush()).map_err(failed);
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(FormatError::access(&name_of(path), "write", &"it is a folder"))
        }
        Ok(metadata) if !metadata.is_file() => {
            File::options().write(true).open(path).and_then(|mut file| file.write_all(bytes)).map_err(failed)
        }
        Ok(metadata) => {
            let target = path.canonicalize().map_err(failed)?;
            replace(&target, bytes, Some(metadata.permissions())).map_err(failed)
        }
        Err(_) => replace(path, bytes, None).map_err(failed),
    }
}

fn replace(path: &Path, bytes: &[u8], permissions: Option<std::fs::Permissions>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".routepack-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As for any new file, less what the umask takes away.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // The name is durable once the folder is; not every system can sync a folder.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
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

/// The text of a file, or of the standard input for `-`.
pub(crate) fn read_text(path: &Path) -> Result<(String, String), FormatError> {
    let name = name_of(path);
    match String::from_utf8(read_bytes(path)?) {
        Ok(text) => Ok((text, name)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid].split(|&byte| byte == b'\n').count();
            Err(FormatError::line(&name, line, "no text: not valid UTF-8"))
        }
    }
}
