//! How fast routes are counted, per core, beside NumPy's bincount of the same arrays.
//!
//! `cargo run --release --example throughput -p routepack-import [python3]`: with a Python that has NumPy, the same
//! arrays are counted there in the same run. Seconds are CPU seconds, the best of twelve short spells of either, one
//! thread each: where cores are shared, single spells differ by a factor of two.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example speaks and stops")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routepack_import::{Dtype, Form, ImportOptions, Layers, Missing, Routes, count_routes, import};

const ROWS: usize = 8192;
const SAMPLES: usize = 16;

const BINCOUNT: &str = "
import sys, time, numpy
ids = numpy.load(sys.argv[1])
rows, layers, k = ids.shape
experts = int(sys.argv[2])
def one_call():
    return numpy.bincount((ids + numpy.arange(layers)[:, None] * experts).ravel(), minlength=layers * experts)
def by_layer():
    return [numpy.bincount(ids[:, layer].ravel(), minlength=experts) for layer in range(layers)]
def best(f):
    seconds = []
    for _ in range(12):
        start = time.process_time(); f(); seconds.append(time.process_time() - start)
    return min(seconds)
print(min(best(one_call), best(by_layer)))
";

fn main() {
    let python = std::env::args().nth(1);
    let folder = tempfile::tempdir().unwrap();
    println!("| layers, experts, k | carrier | GB/s | ratio to bincount |\n|---|---|---|---|");
    for (layers, experts, top_k) in [(48, 128, 8), (58, 256, 8), (60, 384, 8)] {
        for dtype in [Dtype::U8, Dtype::I16, Dtype::I32] {
            if dtype.largest() + 1 < experts as u64 {
                continue;
            }
            measure(folder.path(), [layers, experts, top_k], dtype, python.as_deref());
        }
    }
}

fn measure(folder: &Path, [layers, experts, top_k]: [usize; 3], dtype: Dtype, python: Option<&str>) {
    let bytes = routes([layers, experts, top_k], dtype);
    let shape = [ROWS, layers, top_k];
    let name = dtype.name();
    let options = ImportOptions {
        layers: Some(Layers::Moe),
        num_layers: Some(layers as u32),
        top_k: Some(top_k as u32),
        missing: Missing::LeaveOut,
        ..ImportOptions::new(experts as u32)
    };

    let npy = folder.join("routes.npy");
    std::fs::write(&npy, npy_file(dtype, &shape, &bytes)).unwrap();
    let bincount = python.map(|python| bincount(python, &npy, experts));
    let say = |carrier: &str, bytes: usize, seconds: f64| {
        let ratio = bincount.map_or("-".to_owned(), |bincount| format!("{:.1}", bincount / seconds));
        println!(
            "| {layers}, {experts}, {top_k} | {carrier} | {:.2} | {ratio} |",
            bytes as f64 / seconds / 1e9
        );
    };

    let in_memory = best(|| {
        count_routes(Routes { dtype, shape, bytes: &bytes }, experts as u32, None).unwrap();
    });
    say(&format!("{name} in memory"), bytes.len(), in_memory);

    let whole = ImportOptions { lengths: Some(vec![(ROWS / SAMPLES) as u32; SAMPLES]), ..options.clone() };
    let of_file = best(|| {
        import(&npy, Form::Slime, &whole, &mut |_| {}).unwrap();
    });
    say(&format!("{name} .npy"), bytes.len(), of_file);

    let mut lines = String::new();
    for sample in bytes.chunks(bytes.len() / SAMPLES) {
        let (data, length) = (STANDARD.encode(sample), ROWS / SAMPLES);
        writeln!(
            lines,
            r#"{{"length":{length},"rollout_expert_indices":{{"data":"{data}","shape":[{length},{layers},{top_k}],"dtype":"{name}"}}}}"#
        )
        .unwrap();
    }
    let jsonl = folder.join("routes.jsonl");
    std::fs::write(&jsonl, &lines).unwrap();
    let of_lines = best(|| {
        import(&jsonl, Form::SkyRl, &options, &mut |_| {}).unwrap();
    });
    say(&format!("{name} base64 in JSON lines"), lines.len(), of_lines);
}

/// The kernel tells CPU time in ticks of some milliseconds: work is repeated until ticks no longer matter.
fn best(mut work: impl FnMut()) -> f64 {
    let seconds = (0..12).map(|_| {
        let (start, mut repeats) = (cpu_seconds(), 0);
        while cpu_seconds() - start < 0.06 {
            work();
            repeats += 1;
        }
        (cpu_seconds() - start) / f64::from(repeats)
    });
    seconds.fold(f64::INFINITY, f64::min)
}

/// CPU seconds of this thread (Linux).
fn cpu_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn bincount(python: &str, npy: &Path, experts: usize) -> f64 {
    let output =
        Command::new(python).args(["-c", BINCOUNT]).arg(npy).arg(experts.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Random groups of different experts.
fn routes([layers, experts, top_k]: [usize; 3], dtype: Dtype) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::new();
    let mut group: Vec<u64> = Vec::new();
    for _ in 0..ROWS * layers {
        group.clear();
        while group.len() < top_k {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = (state >> 33) % experts as u64;
            if !group.contains(&id) {
                group.push(id);
            }
        }
        for id in &group {
            bytes.extend_from_slice(&id.to_le_bytes()[..dtype.width()]);
        }
    }
    bytes
}

fn npy_file(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let kind = if dtype.name().starts_with('u') { 'u' } else { 'i' };
    let order = if dtype.width() == 1 { '|' } else { '<' };
    let shape = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let header = format!(
        "{{'descr': '{order}{kind}{}', 'fortran_order': False, 'shape': ({shape}), }}\n",
        dtype.width()
    );
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}
