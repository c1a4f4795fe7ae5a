//! Every form, written and imported again, gives the counts of the definition.

mod support;

use proptest::prelude::*;
use routepack_import::{Dtype, Form, Imported, import, import_lines};

use support::{Recording, Style, gzip, npz, recordings, safetensors, write_arrays, write_lines};

fn import_bytes(bytes: &[u8], style: Style, recording: &Recording) -> Imported {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    import(file.path(), style.form, &style.options(recording), &|| false, &mut |_| {}).expect("valid")
}

fn check(imported: &Imported, recording: &Recording, style: Style) -> Result<(), TestCaseError> {
    let (counts, rows) = recording.count();
    let batch = &imported.batch;
    let context = format!("{style:?}");
    prop_assert_eq!(
        batch.expert_counts.as_ref().expect("counts").by_sample().concat(),
        counts,
        "{}",
        context
    );
    prop_assert_eq!(batch.routed_rows.as_ref().expect("rows"), &rows, "{}", context);
    if style.form != Form::ExpertDistribution {
        prop_assert_eq!(&batch.lengths, &recording.lengths(), "{}", context);
    }
    let counted: u64 = rows.iter().map(|&rows| u64::from(rows)).sum();
    prop_assert_eq!(imported.summary.rows_counted, counted, "{}", context);
    Ok(())
}

/// Whether what a recording holds can be told apart in this form.
fn is_expressible(recording: &Recording, style: Style) -> bool {
    let rows = || recording.rollouts.iter().flat_map(|rollout| &rollout.rows);
    let last_rows =
        || recording.rollouts.iter().filter_map(|rollout| rollout.rows.get(rollout.length - 1)).flatten();
    let is = |row: &Vec<Vec<u16>>, id: &dyn Fn(usize) -> u16| {
        row.iter().all(|ids| ids.iter().enumerate().all(|(at, &found)| found == id(at)))
    };
    let signed = !style.dtype.name().starts_with('u');
    match style.form {
        // The last row could be filler.
        Form::NemoRl => !last_rows().any(|row| is(row, &|at| at as u16)),
        // A row of zeros is missing, or an expert when k = 1.
        Form::Verl | Form::PrimeRl | Form::SkyRl => recording.top_k > 1,
        Form::ExpertDistribution => {
            rows().all(Option::is_some) && recording.rollouts.iter().all(|rollout| !rollout.rows.is_empty())
        }
        // Whole micro-batches: all samples have T rows, or all T - 1.
        Form::Megatron if style.arrays => {
            let full = |rollout: &support::Rollout| rollout.rows.len() == rollout.length;
            rows().all(Option::is_some)
                && (recording.rollouts.iter().all(full) || !recording.rollouts.iter().any(full))
        }
        _ => signed || rows().all(Option::is_some),
    }
}

/// A recording without any row tells neither layers nor k.
fn has_rows(recording: &Recording) -> bool {
    recording.rollouts.iter().any(|rollout| !rollout.rows.is_empty())
}

const LINES: [(Form, &[Dtype]); 11] = [
    (Form::Vllm, &[Dtype::I32]),
    (Form::VllmNpy, &[Dtype::U8, Dtype::U16, Dtype::I16]),
    (Form::Sglang, &[Dtype::I32]),
    (Form::Slime, &[Dtype::I32]),
    (Form::Miles, &[Dtype::I32]),
    (Form::NemoRl, &[Dtype::I8, Dtype::I16, Dtype::I32]),
    (Form::SkyRl, &[Dtype::U8, Dtype::I16, Dtype::I32]),
    (Form::PrimeRl, &[Dtype::U8, Dtype::U16]),
    (Form::MsSwift, &[Dtype::I32]),
    (Form::Tunix, &[Dtype::I32]),
    (Form::Megatron, &[Dtype::I32]),
];

const ARRAYS: [(Form, &[Dtype]); 7] = [
    (Form::Vllm, &[Dtype::I16]),
    (Form::Slime, &[Dtype::I32, Dtype::I64]),
    (Form::Verl, &[Dtype::I16, Dtype::U8]),
    (Form::MsSwift, &[Dtype::U32, Dtype::U64]),
    (Form::Tunix, &[Dtype::I32]),
    (Form::Megatron, &[Dtype::I32, Dtype::U16]),
    (Form::ExpertDistribution, &[Dtype::I32]),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_of_every_form_count_as_defined(recording in recordings(true), dense in 0usize..=2) {
        prop_assume!(has_rows(&recording));
        for (form, dtypes) in LINES {
            for &dtype in dtypes {
                let style = Style { form, dense, dtype, arrays: false };
                if !is_expressible(&recording, style) {
                    continue;
                }
                let lines = write_lines(&recording, style);
                let options = style.options(&recording);
                let imported = import_lines(lines.as_bytes(), "lines", form, &options, &|| false, &mut |_| {})
                    .map_err(|error| TestCaseError::fail(format!("{style:?}: {error}\n{lines}")))?;
                check(&imported, &recording, style)?;
                if form != Form::NemoRl {
                    let packed = gzip(lines.as_bytes());
                    let again = import_lines(&packed[..], "lines", form, &options, &|| false, &mut |_| {}).expect("the same lines");
                    prop_assert_eq!(again, imported);
                }
            }
        }
    }

    #[test]
    fn arrays_of_every_form_count_as_defined(recording in recordings(true), dense in 0usize..=2) {
        prop_assume!(has_rows(&recording));
        for (form, dtypes) in ARRAYS {
            for &dtype in dtypes {
                let style = Style { form, dense, dtype, arrays: true };
                if !is_expressible(&recording, style) {
                    continue;
                }
                let arrays = write_arrays(&recording, style);
                check(&import_bytes(&npz(&arrays), style, &recording), &recording, style)?;
                check(&import_bytes(&safetensors(&arrays), style, &recording), &recording, style)?;
            }
        }
    }
}

/// The strategies reach what the properties are about.
#[test]
fn recordings_reach_gaps_and_last_rows() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut gaps, mut last, mut short) = (0, 0, 0);
    for _ in 0..100 {
        let recording = recordings(true).new_tree(&mut runner).expect("a recording").current();
        for rollout in &recording.rollouts {
            gaps += usize::from(rollout.rows.iter().any(Option::is_none));
            last += usize::from(rollout.rows.len() == rollout.length);
            short += usize::from(rollout.rows.len() < rollout.length);
        }
    }
    assert!(gaps > 20 && last > 20 && short > 20, "{gaps} {last} {short}");
}
