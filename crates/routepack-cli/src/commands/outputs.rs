//! Outputs before any work: none replaces an input or another output, and all can be written.

use std::path::{Path, PathBuf};

use routepack::formats;

use super::is_stdout;
use crate::exit::Failure;

/// A path as the command line has it, and the option or argument that names it.
pub(super) type Named<'a> = (&'a str, &'a Path);

/// Refuses outputs that are the same file as an input or another output, and outputs that cannot be written.
///
/// Links are followed. The standard input and output, pipes and devices replace nothing.
pub(super) fn check_outputs(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Failure> {
    check_distinct(inputs, outputs)?;
    for (_, path) in outputs {
        formats::check_writable(path)?;
    }
    Ok(())
}

/// Refuses outputs that are the same file as an input or another output.
pub(super) fn check_distinct(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Failure> {
    let mut seen: Vec<(&str, &Path, PathBuf)> =
        inputs.iter().filter_map(|&(name, path)| Some((name, path, file_of(path)?))).collect();
    for &(name, path) in outputs {
        let Some(file) = file_of(path) else { continue };
        if let Some((other, at, _)) = seen.iter().find(|(_, _, taken)| *taken == file) {
            return Err(Failure::Input(format!(
                "{name} {}: the same file as {other} {}; nothing was written",
                path.display(),
                at.display()
            )));
        }
        seen.push((name, path, file));
    }
    Ok(())
}

/// The file that a path leads to, which may be none yet; nothing for what is no regular file.
fn file_of(path: &Path) -> Option<PathBuf> {
    if is_stdout(path) {
        return None;
    }
    if let Ok(metadata) = path.metadata() {
        return metadata.is_file().then(|| path.canonicalize().ok())?;
    }
    let end = formats::end_of_links(path)?;
    let folder = end.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(end.file_name()?))
}

/// What options name, where they are given.
pub(super) fn given<'a>(options: &[(&'a str, &'a Option<PathBuf>)]) -> Vec<Named<'a>> {
    options.iter().filter_map(|&(name, path)| Some((name, path.as_deref()?))).collect()
}
