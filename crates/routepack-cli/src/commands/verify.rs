//! `routepack verify`: everything a plan claims, recomputed from the window.

use std::path::PathBuf;

use routepack::formats;
use serde::Serialize;

use super::outputs::check_inputs;
use super::{read_window, refused};
use crate::exit::Failure;
use crate::output::{print, print_json};

/// Arguments of `routepack verify`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack verify plan.json --window window.npz
  routepack verify plan.json --window window.npz --json | jq .verified

Exit codes: 0 every claim holds; 1 one does not, and is named; 2 wrong usage; 3 bad input; 4 a file.")]
pub(crate) struct Arguments {
    /// Plan file (`-` for standard input).
    plan: PathBuf,
    /// The window it was made from.
    #[arg(long)]
    window: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    verified: bool,
    sha256: String,
    claims: Vec<Claim>,
}

#[derive(Serialize)]
struct Claim {
    what: String,
    value: String,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_inputs(&[("PLAN", &arguments.plan), ("--window", &arguments.window)])?;
    let plan = formats::read_plan(&arguments.plan)?;
    let batch = read_window(&arguments.window)?;
    let verified = match routepack::verify(&plan, &batch) {
        Ok(verified) => verified,
        Err(error) => return refused(&arguments.plan, &arguments.window, &error, arguments.json),
    };
    let claims = verified.claims.iter();
    if arguments.json {
        let claims = claims.map(|claim| Claim { what: claim.what.clone(), value: claim.value.clone() });
        print_json(&Answer { verified: true, sha256: plan.sha256.clone(), claims: claims.collect() })
    } else {
        let mut lines: Vec<String> = claims.map(|claim| format!("{}: {}", claim.what, claim.value)).collect();
        lines.push("verified: every claim of the plan holds".to_owned());
        print(&lines.join("\n"))
    }
}
