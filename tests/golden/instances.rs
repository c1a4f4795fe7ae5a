//! The shipped windows: made by the recipe and seed that `instances/README.md` names, and planned with proved rows.

use std::path::PathBuf;
use std::sync::Arc;

use routepack::formats::{read_batch, read_toml};
use routepack::generate::{Preset, window};
use routepack::verification::window_sha256;
use routepack::{Batch, Control, Job, baselines, plan, verify};

/// Name, preset, seed, rows R* and rows that first-fit decreasing needs.
const WINDOWS: [(&str, Preset, u64, u64, usize); 7] = [
    ("tiny", Preset::Tiny, 1, 7, 7),
    ("long-context", Preset::LongContext, 1, 14, 14),
    ("mixed", Preset::Mixed, 1, 6, 6),
    ("single", Preset::Single, 1, 6, 6),
    ("knife-edge-1", Preset::KnifeEdge, 1, 5, 6),
    ("knife-edge-2", Preset::KnifeEdge, 2, 5, 6),
    ("knife-edge-3", Preset::KnifeEdge, 3, 5, 6),
];

fn instances() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../instances")
}

fn shipped(name: &str) -> (Arc<Batch>, Job) {
    let file = |ending| instances().join("windows").join(format!("{name}.{ending}"));
    let batch = read_batch(&file("npz")).expect("a shipped window");
    (Arc::new(batch), read_toml(&file("toml")).expect("a shipped job"))
}

#[test]
fn recipes_make_the_shipped_windows_and_readme_names_their_digests() {
    let readme = std::fs::read_to_string(instances().join("README.md")).expect("the page");
    for (name, preset, seed, ..) in WINDOWS {
        let (batch, job) = shipped(name);
        let generated = window(&preset.recipe(), seed).expect("a window");
        assert!(*batch == generated.batch, "{name}: the arrays differ from those the recipe makes");
        assert_eq!(job, Job::new(generated.setting), "{name}: the job differs from the recipe's");
        let digest = window_sha256(&batch);
        let row = readme.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        assert!(row.is_some_and(|row| row.contains(&digest)), "{name}: the page does not name {digest}");
    }
    let flash = window(&Preset::Flash.recipe(), 1).expect("a window");
    let job: Job = read_toml(&instances().join("windows/flash.toml")).expect("a shipped job");
    assert_eq!(job, Job::new(flash.setting));
    assert!(readme.contains(&window_sha256(&flash.batch)), "flash: {}", window_sha256(&flash.batch));
}

#[test]
fn shipped_windows_plan_with_the_fewest_rows_proved() {
    for (name, _, _, rows, greedy_rows) in WINDOWS {
        let (batch, mut job) = shipped(name);
        job.arrange.proposals_per_unit = 200;
        let plan = plan(&batch, &job, &mut Control::new()).expect("a plan");
        let verified = verify(&plan, &batch).expect("every claim holds");
        let step = &plan.steps[0];
        assert_eq!((step.rows, step.rows_bound, step.rows_proved), (rows, rows, true), "{name}");
        let greedy = baselines::global_ffd(&verified.instances[0], rows as usize).expect("a layout");
        assert_eq!(greedy.layout.num_rows(), greedy_rows, "{name}");
    }
}
