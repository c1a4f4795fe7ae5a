//! `routepack calibrate`: cost weights from measured micro-batches.

use std::path::PathBuf;

use routepack::formats;
use routepack::problem::counted;
use routepack::simulation::{Calibrated, calibrate, read_measurements};

use crate::exit::Failure;
use crate::output::{print, print_json};

/// Arguments of `routepack calibrate`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack calibrate measured.csv --capacity 8192
  routepack calibrate measured.csv --capacity 8192 --json | jq '.alpha, .rank_correlation'

A line of the CSV is a micro-batch; its columns, found by name:
  lengths       padded tokens of its samples, separated by spaces
  expert_rows   routed rows of the busiest EP rank, one number a layer or their sum (optional)
  seconds       the time it took

Exit codes: 0 done; 2 wrong usage; 3 bad input; 4 a file.")]
pub(crate) struct Arguments {
    /// Measurements (CSV, `-` for standard input).
    measurements: PathBuf,
    /// Token capacity C of a cell, as in the job; no sample is longer.
    #[arg(short = 'C', long, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (text, name) = formats::read_text(&arguments.measurements)?;
    let measured = read_measurements(text.as_bytes(), &name, arguments.capacity);
    let measured = measured.map_err(|error| Failure::Input(error.to_string()))?;
    let fitted = calibrate(&measured, arguments.capacity).map_err(|error| Failure::input(name, error))?;
    if arguments.json { print_json(&fitted) } else { print(&in_words(&fitted)) }
}

/// A figure that constant seconds do not have.
fn known(figure: Option<f64>) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.4}"))
}

fn in_words(fitted: &Calibrated) -> String {
    let Calibrated { alpha, beta, gamma, overhead, capacity, .. } = *fitted;
    let mut lines = vec![
        format!(
            "{}, cells of {}",
            counted(fitted.measurements as u64, "micro-batch"),
            counted(capacity, "token")
        ),
        format!("alpha     {alpha:.4e} seconds a token"),
        format!("beta      {beta:.4e} seconds a token² over {capacity}"),
    ];
    lines
        .extend(gamma.map(|gamma| format!("gamma     {gamma:.4e} seconds a routed row of the busiest rank")));
    lines.extend([
        format!("overhead  {overhead:.4e} seconds a micro-batch"),
        format!(
            "residual  {:.4e} seconds (root of mean square), {:.2} % at worst",
            fitted.residual,
            100.0 * fitted.worst
        ),
        format!(
            "told      {} of the variance, rank correlation {}",
            known(fitted.r_squared),
            known(fitted.rank_correlation)
        ),
        String::new(),
    ]);
    if alpha > 0.0 {
        // Relative to a token at α = 1, with digits enough for the measurements.
        lines.push("For the job:".to_owned());
        lines.extend(gamma.map(|gamma| format!("[cost]\ngamma = \"{}\"\n", weight(gamma / alpha))));
        lines.push(format!(
            "[[cost.kinds]]\nname = \"measured\"\nalpha = 1\nbeta = \"{}\"",
            weight(beta / alpha)
        ));
        lines.push(format!(
            "\n[packing]  # to search more rows than the fewest\nrows = {{ extra_rows = 4, row_cost = \"{:.3}\" }}",
            overhead / alpha
        ));
    } else {
        lines.push(
            "alpha is 0: the measurements show no cost per token, so no job's weights follow".to_owned(),
        );
    }
    lines.join("\n")
}

/// Nine significant digits, as far as a job takes places after the point.
fn weight(value: f64) -> String {
    let first = if value > 0.0 { value.log10().floor() as i32 } else { 0 };
    format!("{value:.*}", (8 - first).clamp(0, 18) as usize)
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn small_weights_keep_their_digits() {
        assert_eq!(weight(0.25), "0.250000000");
        assert_eq!(weight(1.234_567_891_2e-6), "0.00000123456789");
        assert_eq!([weight(2e-15), weight(1e12)], ["0.000000000000002000", "1000000000000"]);
    }
}
