//! From a file to a window.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use routepack_formats::FormatError;

use crate::batch_arrays::read_arrays;
use crate::carrier::{Carrier, Kind, kind};
use crate::error::read_error;
use crate::rollouts::read_rollouts;
use crate::window::Window;
use crate::{Form, ImportError, ImportOptions, Imported};

/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// Where an import stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// Samples counted.
    pub samples: u64,
    /// Bytes of the file read, as stored; absent for arrays.
    pub bytes: Option<u64>,
    /// Bytes of the file; absent for the standard input.
    pub total: Option<u64>,
}

/// Counts the routes of a file while reading it; memory is that of the window and of one sample.
///
/// `-` is the standard input, for lines only. What carries the routes is told by the file's first bytes. `stop` is asked
/// after every sample.
///
/// # Errors
/// The file or an option is wrong, or `stop` said so; errors name sample, row, layer and value.
pub fn import(
    path: &Path,
    form: Form,
    options: &ImportOptions,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(ImportProgress),
) -> Result<Imported, ImportError> {
    let file = path.display().to_string();
    if path == Path::new("-") {
        return import_lines(io::stdin().lock(), "-", form, options, stop, progress);
    }
    let open = || {
        File::open(path).map_err(|error| FormatError::Access {
            file: file.clone(),
            action: "open",
            error: error.to_string(),
        })
    };
    let source = open()?;
    let total = source.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    let mut start = Vec::new();
    source.take(1024).read_to_end(&mut start).map_err(|error| read_error(&file, &error))?;
    let mut window = Window::new(&file, form, options)?;
    let mut carrier = match kind(&start, &file)? {
        Kind::Numpy => Carrier::open_numpy(path)?,
        Kind::Safetensors => Carrier::open_safetensors(path, &file)?,
        Kind::Gzip | Kind::Lines => {
            // Opened again rather than rewound: it may be a pipe, whose first bytes are gone.
            let rest = open()?;
            let source: Box<dyn Read> =
                if total.is_some() { Box::new(rest) } else { Box::new(start.as_slice().chain(rest)) };
            return read_lines(window, source, total, stop, progress);
        }
    };
    read_arrays(&mut window, &mut carrier, &mut |samples| {
        progress(ImportProgress { samples, bytes: None, total });
        unless_stopped(stop, &file)
    })?;
    window.finish()
}

/// Counts the routes of lines of JSON, gzipped or not; `file` names them in messages.
///
/// # Errors
/// As [`import`].
pub fn import_lines(
    source: impl Read,
    file: &str,
    form: Form,
    options: &ImportOptions,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(ImportProgress),
) -> Result<Imported, ImportError> {
    read_lines(Window::new(file, form, options)?, source, None, stop, progress)
}

fn read_lines(
    mut window: Window<'_>,
    source: impl Read,
    total: Option<u64>,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(ImportProgress),
) -> Result<Imported, ImportError> {
    let read = Rc::new(Cell::new(0));
    let mut source = BufReader::with_capacity(BUFFER, Counted { source, read: Rc::clone(&read) });
    let file = window.file.clone();
    let mut say = |samples| {
        progress(ImportProgress { samples, bytes: Some(read.get()), total });
        unless_stopped(stop, &file)
    };
    match peek(&mut source, &window.file)? {
        Kind::Gzip => {
            let mut unpacked = BufReader::with_capacity(BUFFER, MultiGzDecoder::new(source));
            match peek(&mut unpacked, &window.file)? {
                Kind::Lines => read_rollouts(&mut window, unpacked, &mut say)?,
                Kind::Gzip => return Err(unstreamed(&window, "gzip within gzip", "the file unpacked once")),
                _ => return Err(unstreamed(&window, "compressed arrays", "unpack the file first")),
            }
        }
        Kind::Lines => read_rollouts(&mut window, source, &mut say)?,
        _ => return Err(unstreamed(&window, "arrays in a pipe", "a file, arrays are not read in order")),
    }
    window.finish()
}

fn unless_stopped(stop: &dyn Fn() -> bool, file: &str) -> Result<(), ImportError> {
    if stop() { Err(ImportError::Stopped { file: file.into() }) } else { Ok(()) }
}

fn peek(source: &mut impl BufRead, file: &str) -> Result<Kind, ImportError> {
    let start = source.fill_buf().map_err(|error| read_error(file, &error))?;
    kind(&start[..start.len().min(1024)], file)
}

fn unstreamed(window: &Window<'_>, carrier: &'static str, expected: &'static str) -> ImportError {
    ImportError::Carrier { file: window.file.clone(), form: window.form.name(), carrier, expected }
}

/// Counts the bytes that pass.
struct Counted<R> {
    source: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}
