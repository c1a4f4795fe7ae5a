//! How fast routes are counted, per core, beside NumPy's bincount of the same arrays.
//!
//! `cargo run --release --example throughput -p routepack-import [python3]`: with a Python that has NumPy, the same
//! arrays are counted there in the same run. Both sides take turns in short spells of CPU time, one thread each, because
//! shared cores change their pace by the second; the ratio is the median over pairs of neighbouring spells.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example speaks and stops")]

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routepack_import::{Dtype, Form, ImportOptions, Layers, Missing, Routes, count_routes, import};

const ROWS: usize = 8192;
const SAMPLES: usize = 16;
/// Spells of either side.
const SPELLS: usize = 15;
/// CPU seconds of a spell.
const SPELL: f64 = 0.06;

/// A spell a line of input, of the faster of two ways.
const BINCOUNT: &str = "
import sys, time, numpy
ids = numpy.load(sys.argv[1])
rows, layers, k = ids.shape
experts, spell = int(sys.argv[2]), float(sys.argv[3])
def one_call():
    return numpy.bincount((ids + numpy.arange(layers)[:, None] * experts).ravel(), minlength=layers * experts)
def by_layer():
    return [numpy.bincount(ids[:, layer].ravel(), minlength=experts) for layer in range(layers)]
def seconds(f):
    start, repeats = time.process_time(), 0
    while time.process_time() - start < spell:
        f()
        repeats += 1
    return (time.process_time() - start) / repeats
for line in sys.stdin:
    print(min(seconds(one_call), seconds(by_layer)), flush=True)
";

fn main() {
    let python = std::env::args().nth(1);
    let folder = tempfile::tempdir().unwrap();
    println!(
        "| layers, experts, k | carrier | GB/s | ratio to bincount | least, most |\n|---|---|---|---|---|"
    );
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
    let mut bincount = python.map(|python| Bincount::start(python, &npy, experts));
    let mut say = |carrier: &str, bytes: usize, work: &mut dyn FnMut()| {
        let (mut ours, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..SPELLS {
            let seconds = spell(work);
            ours.push(seconds);
            ratios.extend(bincount.as_mut().map(|bincount| bincount.spell() / seconds));
        }
        ours.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        let ratio = match &ratios[..] {
            [] => "- | -".to_owned(),
            [least, .., most] => format!("{:.1} | {least:.1}, {most:.1}", ratios[ratios.len() / 2]),
            [_] => unreachable!("there are several spells"),
        };
        let speed = bytes as f64 / ours[SPELLS / 2] / 1e9;
        println!("| {layers}, {experts}, {top_k} | {carrier} | {speed:.2} | {ratio} |");
    };

    say(&format!("{name} in memory"), bytes.len(), &mut || {
        count_routes(Routes { dtype, shape, bytes: &bytes }, experts as u32, None).unwrap();
    });

    let whole = ImportOptions { lengths: Some(vec![(ROWS / SAMPLES) as u32; SAMPLES]), ..options.clone() };
    say(&format!("{name} .npy"), bytes.len(), &mut || {
        import(&npy, Form::Slime, &whole, &|| false, &mut |_| {}).unwrap();
    });

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
    say(&format!("{name} base64 in JSON lines"), lines.len(), &mut || {
        import(&jsonl, Form::SkyRl, &options, &|| false, &mut |_| {}).unwrap();
    });
}

/// Seconds of one piece of work, over a spell.
fn spell(work: &mut dyn FnMut()) -> f64 {
    let (start, mut repeats) = (cpu_seconds(), 0);
    while cpu_seconds() - start < SPELL {
        work();
        repeats += 1;
    }
    (cpu_seconds() - start) / f64::from(repeats)
}

/// CPU seconds of this thread (Linux).
fn cpu_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// A Python that counts the same array when asked.
struct Bincount {
    python: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Bincount {
    fn start(python: &str, npy: &Path, experts: usize) -> Self {
        let mut command = Command::new(python);
        command.args(["-c", BINCOUNT]).arg(npy).args([experts.to_string(), SPELL.to_string()]);
        let mut python = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (ask, answer) = (python.stdin.take().unwrap(), BufReader::new(python.stdout.take().unwrap()));
        Self { python, ask, answer }
    }

    /// Seconds of one count, over a spell.
    fn spell(&mut self) -> f64 {
        writeln!(self.ask).unwrap();
        let mut line = String::new();
        self.answer.read_line(&mut line).unwrap();
        line.trim().parse().expect("NumPy's seconds; does this Python have NumPy?")
    }
}

impl Drop for Bincount {
    fn drop(&mut self) {
        // Waiting for input, it does not end by itself while the pipe is open.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
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
