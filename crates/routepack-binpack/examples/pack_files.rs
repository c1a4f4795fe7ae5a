//! Packs bin-packing files and says what was proved.
//!
//! `pack_files SECONDS FILE_OR_FOLDER…`: a file holds n, capacity and n sizes, or m, capacity and m pairs "size demand".
//! Time is the only limit of tree searches. One line an instance: file, items, types, bound, incumbent, status, seconds, the
//! method behind the bound; then one line a folder. One thread, with seconds of the processor where the system tells them
//! (Linux); `THREADS=2` takes two, with seconds of the clock. `SLOTS=8` asks for rows of 8 bins; `QUIET=1` leaves out what
//! was proved; `LOG=1` tells every improvement; `CERTIFICATES=DIR` writes them.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use routepack_binpack::{PackOptions, PackProgress, Types, pack};
use routepack_certificate::Statement;

#[path = "instance/mod.rs"]
mod instance;

use instance::{Failure, read};

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().ok_or("usage: pack_files SECONDS FILE_OR_FOLDER…")?.parse()?;
    let threads = std::env::var("THREADS").map_or(Ok(1), |threads| threads.parse())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    for argument in arguments {
        let files = files(Path::new(&argument))?;
        let (mut proved, mut sum, mut longest) = (0, 0.0, 0.0_f64);
        for file in &files {
            let limit = Duration::from_secs_f64(seconds);
            let taken = pool.install(|| run(file, limit, threads == 1).map_err(|error| error.to_string()))?;
            proved += u32::from(taken.is_some());
            sum += taken.unwrap_or(0.0);
            longest = longest.max(taken.unwrap_or(0.0));
        }
        let mean = sum / f64::from(proved.max(1));
        println!("{argument}: proved {proved} of {}, mean {mean:.3} s, longest {longest:.3} s", files.len());
    }
    Ok(())
}

/// Time spent by this thread on a processor, or by the clock where that is not told.
struct Clock {
    wall: Instant,
    spent: Option<Duration>,
    /// When the processor time was last read, and what it was: reading is dear.
    last: Mutex<(Duration, Duration)>,
}

impl Clock {
    fn start(of_processor: bool) -> Self {
        let spent = if of_processor { spent() } else { None };
        Self { wall: Instant::now(), spent, last: Mutex::default() }
    }

    fn elapsed(&self) -> Duration {
        let (wall, Some(spent_before)) = (self.wall.elapsed(), self.spent) else {
            return self.wall.elapsed();
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if wall > last.0 + Duration::from_millis(1) {
            *last = (wall, spent().map_or(wall, |spent| spent.saturating_sub(spent_before)));
        }
        last.1
    }
}

fn spent() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries: Result<Vec<PathBuf>, _> = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
    let mut files = entries.map_err(|error: std::io::Error| error)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    Ok(files)
}

/// Packs one file; the seconds if the fewest rows were proved.
fn run(file: &Path, limit: Duration, of_processor: bool) -> Result<Option<f64>, Failure> {
    let slots = std::env::var("SLOTS").map_or(Ok(1), |slots| slots.parse())?;
    let statement = Statement { slots, ..read(file)? };
    let types = Types::new(&statement)?.len();
    let start = Clock::start(of_processor);
    let stop = || start.elapsed() > limit;
    let log = std::env::var_os("LOG").is_some();
    let packed = pack(
        &statement,
        &PackOptions { cases: 1_000_000, table_bytes: 4 << 30, ..PackOptions::default() },
        1,
        &stop,
        &mut |progress| {
            if log {
                let (seconds, PackProgress { method, cells, cells_bound, .. }) =
                    (start.elapsed().as_secs_f64(), progress);
                println!("  {seconds:.3} s {cells_bound}/{cells} {method}");
            }
        },
    )?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(folder) = std::env::var_os("CERTIFICATES") {
        let name = file.file_name().ok_or("a file has a name")?;
        let path = Path::new(&folder).join(name).with_extension("cert");
        std::fs::write(path, packed.certificate.to_text(&statement))?;
    }
    let proved = packed.rows == packed.rows_bound;
    if !proved || std::env::var_os("QUIET").is_none() {
        let status = if proved { "proved" } else { "open" };
        println!(
            "{} n {} m {types} {}/{} {status} {seconds:.3} s {}",
            file.display(),
            statement.sizes.len(),
            packed.cells_bound,
            packed.cells,
            packed.proved_by,
        );
    }
    Ok(proved.then_some(seconds))
}
