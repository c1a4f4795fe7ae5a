//! The search beside integer programs given to HiGHS as they are: one line an instance and a way.
//!
//! `beside_models SECONDS FILE…`: bins and bound of the search (checked certificates), of arc flow and of reflected arc
//! flow (the solver's word), with seconds by the clock, one way after the other on one thread.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};

use routepack_binpack::{Flow, PackOptions, Types, arc_flow_program, pack, reflect_program};
use routepack_lp::{SolveOptions, solve};

#[path = "instance/mod.rs"]
mod instance;

use instance::{Failure, read};

/// Programs with more variables than this are not given to the solver: they would not fit into memory.
const VARIABLES: usize = 3_000_000;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().ok_or("usage: beside_models SECONDS FILE…")?.parse()?;
    println!("instance\tway\tbins\tbound\tseconds\tproved");
    for argument in arguments {
        let statement = read(Path::new(&argument))?;
        let types = Types::new(&statement)?;
        let (start, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
        let stop = || start.elapsed() > limit;
        let packed = pack(&statement, &PackOptions::default(), 1, &stop, &mut |_| {})?;
        let proved = packed.cells == packed.cells_bound;
        row(&argument, "routepack", Some((packed.cells, packed.cells_bound as f64)), start, proved);
        let start = Instant::now();
        by_solver(&argument, "arc flow", start, seconds, &types, Some(arc_flow_program(&types)))?;
        let start = Instant::now();
        by_solver(&argument, "reflect", start, seconds, &types, reflect_program(&types))?;
    }
    Ok(())
}

fn by_solver(
    instance: &str,
    way: &str,
    start: Instant,
    seconds: f64,
    types: &Types,
    flow: Option<Flow>,
) -> Result<(), Failure> {
    let Some(flow) = flow.filter(|flow| flow.program.variables().len() <= VARIABLES) else {
        row(instance, way, None, start, false);
        return Ok(());
    };
    let rest = (seconds - start.elapsed().as_secs_f64()).max(0.1);
    let solved = solve(&flow.program, &SolveOptions { time_limit: Some(rest), ..SolveOptions::default() })?;
    let bins = flow.packing(types, &solved.values).map(|bins| bins.len() as u64);
    let bound = solved.bound.unwrap_or(0.0);
    let proved = bins.is_some_and(|bins| (bound - 1e-6).ceil() >= bins as f64);
    row(instance, way, bins.map(|bins| (bins, bound)), start, proved);
    Ok(())
}

fn row(instance: &str, way: &str, found: Option<(u64, f64)>, start: Instant, proved: bool) {
    let name = Path::new(instance).file_stem().unwrap_or_default().to_string_lossy();
    let (bins, bound) =
        found.map_or(("-".into(), "-".into()), |(bins, bound)| (bins.to_string(), format!("{bound:.2}")));
    let seconds = start.elapsed().as_secs_f64();
    println!("{name}\t{way}\t{bins}\t{bound}\t{seconds:.2}\t{}", if proved { "yes" } else { "no" });
}
