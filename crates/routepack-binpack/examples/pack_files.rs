//! Packs bin-packing files and says what was proved.
//!
//! `pack_files SECONDS FILE_OR_FOLDER…`: a file holds n, capacity and n sizes, or m, capacity and m pairs "size demand".
//! One line an instance: file, items, types, bound, incumbent, status, seconds, the method behind the bound; then one
//! line a folder. `SLOTS=8` asks for rows of 8 bins; `QUIET=1` leaves out what was proved.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use routepack_binpack::{PackOptions, Types, pack};
use routepack_certificate::Statement;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().ok_or("usage: pack_files SECONDS FILE_OR_FOLDER…")?.parse()?;
    for argument in arguments {
        let files = files(Path::new(&argument))?;
        let (mut proved, mut sum, mut longest) = (0, 0.0, 0.0_f64);
        for file in &files {
            let taken = run(file, Duration::from_secs_f64(seconds))?;
            proved += u32::from(taken.is_some());
            sum += taken.unwrap_or(0.0);
            longest = longest.max(taken.unwrap_or(0.0));
        }
        let mean = sum / f64::from(proved.max(1));
        println!("{argument}: proved {proved} of {}, mean {mean:.3} s, longest {longest:.3} s", files.len());
    }
    Ok(())
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
fn run(file: &Path, limit: Duration) -> Result<Option<f64>, Failure> {
    let statement = read(file)?;
    let types = Types::new(&statement)?.len();
    let start = Instant::now();
    let stop = || start.elapsed() > limit;
    let packed = pack(&statement, &PackOptions::default(), 1, &stop, &mut |_| {})?;
    let seconds = start.elapsed().as_secs_f64();
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

fn read(file: &Path) -> Result<Statement, Failure> {
    let text = std::fs::read_to_string(file)?;
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    let numbers = numbers?;
    let [count, capacity, rest @ ..] = &numbers[..] else { return Err("no capacity".into()) };
    let sizes = if rest.len() as u64 == *count {
        rest.to_vec()
    } else {
        rest.chunks(2).flat_map(|pair| std::iter::repeat_n(pair[0], pair[1] as usize)).collect()
    };
    let slots = std::env::var("SLOTS").map_or(Ok(1), |slots| slots.parse())?;
    Ok(Statement { slots, ..Statement::bins(sizes, *capacity) })
}
