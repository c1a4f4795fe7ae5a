//! Outputs before any work: none replaces an input or another output, and all can be written.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use routepack::formats;

use super::is_stdout;
use crate::exit::Failure;

/// A path as the command line has it, and the option or argument that names it.
pub(super) type Named<'a> = (&'a str, &'a Path);

/// Refuses outputs that are the same file as an input or another output, and outputs that cannot be written.
///
/// Links of either kind are followed. Pipes and devices replace nothing, but the standard input gives one input, and the
/// standard output takes one output.
pub(super) fn check_outputs(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Failure> {
    check_distinct(inputs, outputs)?;
    for (_, path) in outputs {
        formats::check_writable(path)?;
    }
    Ok(())
}

/// Refuses outputs that are the same file as an input or another output.
pub(super) fn check_distinct(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<(), Failure> {
    check_inputs(inputs)?;
    once(outputs, is_stdout, "the standard output already takes")?;
    // Thousands of certificates: looked up, not compared with each other.
    let mut taken: HashMap<Place, Named<'_>> = HashMap::new();
    for &(name, path) in inputs {
        if let Some(place) = place_of(path) {
            taken.entry(place).or_insert((name, path));
        }
    }
    for &(name, path) in outputs {
        let Some(place) = place_of(path) else { continue };
        match taken.entry(place) {
            Entry::Vacant(free) => {
                free.insert((name, path));
            }
            Entry::Occupied(taken) => {
                let (other, at) = taken.get();
                return Err(Failure::Input(format!(
                    "{name} {}: the same file as {other} {}; nothing was written",
                    path.display(),
                    at.display()
                )));
            }
        }
    }
    Ok(())
}

/// Refuses two inputs from the standard input, which the first would leave empty.
pub(super) fn check_inputs(inputs: &[Named<'_>]) -> Result<(), Failure> {
    once(inputs, |path| path == Path::new("-"), "the standard input already gives")
}

/// Refuses JSON where an output takes the standard output.
pub(super) fn check_json(json: bool, outputs: &[Named<'_>]) -> Result<(), Failure> {
    match outputs.iter().find(|(_, path)| json && is_stdout(path)) {
        Some((name, _)) => Err(Failure::Input(format!(
            "--json: the standard output already takes {name}; nothing was written"
        ))),
        None => Ok(()),
    }
}

/// Whether the standard output is left for what the command has to say.
pub(super) fn speaks(outputs: &[Named<'_>]) -> bool {
    !outputs.iter().any(|(_, path)| is_stdout(path))
}

fn once(paths: &[Named<'_>], standard: fn(&Path) -> bool, already: &str) -> Result<(), Failure> {
    let mut those = paths.iter().filter(|(_, path)| standard(path));
    match (those.next(), those.next()) {
        (Some((first, _)), Some((second, path))) => Err(Failure::Input(format!(
            "{second} {}: {already} {first}; nothing was written",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Where a path leads: a file by its number, whatever its names; else the name it would get.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    #[cfg_attr(not(unix), allow(dead_code))]
    File(u64, u64),
    Name(PathBuf),
}

/// Nothing for what is no regular file.
fn place_of(path: &Path) -> Option<Place> {
    if is_stdout(path) {
        return None;
    }
    if let Ok(metadata) = path.metadata() {
        return metadata.is_file().then(|| file_of(path, &metadata));
    }
    let end = formats::end_of_links(path)?;
    let folder = end.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some(Place::Name(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(end.file_name()?)))
}

#[cfg(unix)]
fn file_of(_: &Path, metadata: &std::fs::Metadata) -> Place {
    use std::os::unix::fs::MetadataExt as _;
    Place::File(metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn file_of(path: &Path, _: &std::fs::Metadata) -> Place {
    Place::Name(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
}

/// Refuses a folder that cannot be made for what stands in its way.
pub(super) fn check_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    let there = folder.ancestors().find(|place| place.exists());
    let Some(place) = there.filter(|place| !place.is_dir()) else { return Ok(()) };
    Err(Failure::File(if place == folder {
        format!("{option} {}: it is a file, expected a folder", folder.display())
    } else {
        format!("{option} {}: cannot make the folder: {} is a file", folder.display(), place.display())
    }))
}

/// Makes a folder, unless it is there.
pub(super) fn make_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    check_folder(option, folder)?;
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::File(format!("{option} {}: cannot make the folder: {error}", folder.display()))
    })
}

/// What options name, where they are given.
pub(super) fn given<'a>(options: &[(&'a str, &'a Option<PathBuf>)]) -> Vec<Named<'a>> {
    options.iter().filter_map(|&(name, path)| Some((name, path.as_deref()?))).collect()
}
