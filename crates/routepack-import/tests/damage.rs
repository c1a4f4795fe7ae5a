//! Damaged files are errors, never panics, and nothing is allocated from what a header says.

mod support;

use proptest::prelude::*;
use proptest::sample::Index;
use routepack_formats::FormatError;
use routepack_import::{Dtype, Form, ImportError, ImportOptions, Layers, Missing, import, import_lines};

use support::{Named, Style, npz, recordings, safetensors, write_arrays, write_lines};

const LINES: [(Form, Dtype); 11] = [
    (Form::Vllm, Dtype::I32),
    (Form::VllmNpy, Dtype::I16),
    (Form::Sglang, Dtype::I32),
    (Form::Slime, Dtype::I32),
    (Form::Miles, Dtype::I32),
    (Form::NemoRl, Dtype::I16),
    (Form::SkyRl, Dtype::U8),
    (Form::PrimeRl, Dtype::U16),
    (Form::MsSwift, Dtype::I32),
    (Form::Tunix, Dtype::I32),
    (Form::Megatron, Dtype::I32),
];
const ARRAYS: [Form; 5] = [Form::Slime, Form::Verl, Form::Tunix, Form::Megatron, Form::ExpertDistribution];

/// Changes, doubles, drops or moves some bytes.
fn damage(bytes: &mut Vec<u8>, changes: &[(Index, u8, u8)]) {
    for (place, kind, value) in changes {
        if bytes.is_empty() {
            return;
        }
        let at = place.index(bytes.len());
        match kind % 4 {
            0 => bytes[at] = *value,
            1 => bytes.insert(at, *value),
            2 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn damaged_files_are_read_or_refused(
        recording in recordings(true),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>(), any::<u8>()), 1..4),
    ) {
        for (form, dtype) in LINES {
            let style = Style { form, dense: 1, dtype, arrays: false };
            let mut bytes = write_lines(&recording, style).into_bytes();
            damage(&mut bytes, &changes);
            for missing in [Missing::LeaveOut, Missing::ScaleUp, Missing::Refuse] {
                let options = ImportOptions { missing, ..style.options(&recording) };
                if let Ok(imported) = import_lines(&bytes[..], "damaged", form, &options, &|| false, &mut |_| {}) {
                    imported.batch.check(recording.top_k as u32).expect("what is accepted is a valid window");
                }
            }
        }
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for form in ARRAYS {
            let style = Style { form, dense: 1, dtype: Dtype::I32, arrays: true };
            for write in [npz as fn(&[Named]) -> Vec<u8>, safetensors] {
                let mut bytes = write(&write_arrays(&recording, style));
                damage(&mut bytes, &changes);
                std::fs::write(file.path(), &bytes).expect("written");
                if let Ok(imported) = import(file.path(), form, &style.options(&recording), &|| false, &mut |_| {}) {
                    imported.batch.check(recording.top_k as u32).expect("what is accepted is a valid window");
                }
            }
        }
    }
}

/// A file that ends early is damaged input, not a failure of the system: the two have exit codes of their own.
#[test]
fn files_cut_anywhere_are_damaged_input() {
    let line = |sample: usize| {
        let expert = sample % 5;
        format!("{{\"length\":3,\"id\":{sample},\"routed_experts\":[[[{expert},5]],[[1,2]]]}}\n")
    };
    let lines: String = (0..50).map(line).collect();
    let options = ImportOptions { layers: Some(Layers::Moe), ..ImportOptions::new(6) };
    let arrays = [
        Named("routed_experts".to_owned(), Dtype::U8, vec![3, 1, 2], vec![1, 2, 3, 4, 5, 0]),
        Named("lengths".to_owned(), Dtype::I64, vec![1], 3i64.to_le_bytes().to_vec()),
    ];
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut refused = 0;
    for whole in [support::gzip(lines.as_bytes()), safetensors(&arrays), npz(&arrays)] {
        std::fs::write(file.path(), &whole).expect("written");
        import(file.path(), Form::Slime, &options, &|| false, &mut |_| {}).expect("whole");
        for end in (20..whole.len()).step_by(7) {
            std::fs::write(file.path(), &whole[..end]).expect("written");
            let error = import(file.path(), Form::Slime, &options, &|| false, &mut |_| {}).expect_err("cut");
            let access = matches!(error, ImportError::File(FormatError::Access { .. }));
            assert!(!access && !error.to_string().contains("Some("), "cut at {end}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 50, "{refused}");
}

/// A header of a shape without values may say anything about the other dimensions.
#[test]
fn empty_arrays_of_any_shape_are_refused() {
    let huge = usize::MAX / 2;
    let options = ImportOptions { layers: Some(Layers::Moe), top_k: Some(2), ..ImportOptions::new(4) };
    let lengths = || Named("lengths".to_owned(), Dtype::I64, vec![0], Vec::new());
    let mask = |shape| Named("attention_mask".to_owned(), Dtype::U8, shape, Vec::new());
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (form, name, shape) in [
        (Form::Slime, "routed_experts", vec![0, huge, huge]),
        (Form::Slime, "routed_experts", vec![0, huge, huge, huge]),
        (Form::Slime, "routed_experts", vec![huge, 0, 1, 2]),
        (Form::Slime, "routed_experts", vec![0, 0, 1, 2]),
        (Form::Verl, "routed_experts", vec![0, huge, huge, 2]),
        (Form::Tunix, "routed_experts", vec![0, 1, huge, huge]),
        (Form::Megatron, "layer_0", vec![0, huge]),
        (Form::Megatron, "routed_experts", vec![0, huge, huge]),
        (Form::Megatron, "routed_experts", vec![huge, 0, 2]),
        (Form::ExpertDistribution, "logical_count", vec![0, huge, huge]),
        (Form::ExpertDistribution, "logical_count", vec![huge, 0, huge]),
    ] {
        let arrays =
            [Named(name.to_owned(), Dtype::I16, shape.clone(), Vec::new()), lengths(), mask(vec![0, huge])];
        std::fs::write(file.path(), npz(&arrays)).expect("written");
        import(file.path(), form, &options, &|| false, &mut |_| {})
            .expect_err(&format!("{form:?} {shape:?}"));
    }
    let one = || Named("lengths".to_owned(), Dtype::I64, vec![1], 1i64.to_le_bytes().to_vec());
    let routes = || Named("routed_experts".to_owned(), Dtype::U8, vec![1, 1, 2], vec![0, 1]);
    for name in ["attention_mask", "loss_mask", "response_mask"] {
        let mask = Named(name.to_owned(), Dtype::U8, vec![huge, 0], Vec::new());
        std::fs::write(file.path(), npz(&[routes(), one(), mask])).expect("written");
        let error =
            import(file.path(), Form::Slime, &options, &|| false, &mut |_| {}).expect_err(name).to_string();
        assert!(error.contains(&format!("{name}: shape [{huge}, 0]: no positions")), "{error}");
    }
    for (form, routes) in [
        (Form::SkyRl, r#"{"data":"","shape":[0,18446744073709551615,9],"dtype":"int64"}"#),
        (Form::Tunix, r#"{"data":"","shape":[18446744073709551615,0,9],"dtype":"int64"}"#),
        (Form::NemoRl, r#""nrlre1:int32:0x18446744073709551615x2:""#),
    ] {
        let line = format!(r#"{{"length":4294967295,"start":4294967295,"routed_experts":{routes}}}"#);
        import_lines(line.as_bytes(), "empty", form, &options, &|| false, &mut |_| {}).expect_err(routes);
    }
}

/// The length of a header may begin as another file does.
#[test]
fn safetensors_are_told_before_all_others() {
    let counts = [Named("routed_experts".to_owned(), Dtype::U8, vec![3, 1, 2], vec![1, 2, 3, 4, 5, 0])];
    let whole = safetensors(&counts);
    let (length, rest) = whole.split_first_chunk::<8>().expect("a header");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let padded = [header, &vec![b' '; 0xfeff - header.len()]].concat();
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let options = ImportOptions { layers: Some(Layers::Moe), ..ImportOptions::new(6) };
    let said = |bytes: Vec<u8>| {
        std::fs::write(file.path(), bytes).expect("written");
        import(file.path(), Form::Slime, &options, &|| false, &mut |_| {})
            .expect_err("no lengths")
            .to_string()
    };
    let short = said(whole.clone());
    assert_eq!(said([&0xfeff_u64.to_le_bytes()[..], &padded, data].concat()), short);
}

/// Told to stop after one sample, neither lines nor arrays go on to the next.
#[test]
fn an_import_ends_when_told_to() {
    let lines = "{\"length\":3,\"routed_experts\":[[[0,5]],[[1,2]]]}\n".repeat(5);
    let arrays = npz(&[
        Named("routed_experts".to_owned(), Dtype::U8, vec![9, 1, 2], (0..18).map(|id| id % 6).collect()),
        Named("lengths".to_owned(), Dtype::I64, vec![3], [3i64; 3].map(i64::to_le_bytes).concat()),
    ]);
    let options = ImportOptions { layers: Some(Layers::Moe), ..ImportOptions::new(6) };
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    for whole in [lines.as_bytes(), &arrays[..]] {
        std::fs::write(file.path(), whole).expect("written");
        let samples = std::cell::Cell::new(0);
        let stopped = import(file.path(), Form::Slime, &options, &|| true, &mut |progress| {
            samples.set(progress.samples);
        });
        assert!(matches!(stopped, Err(ImportError::Stopped { .. })), "{stopped:?}");
        assert_eq!(samples.get(), 1);
        import(file.path(), Form::Slime, &options, &|| false, &mut |_| {}).expect("whole");
    }
}
