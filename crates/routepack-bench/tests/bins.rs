//! A bench goes on after a kill, and names what contradicts a known optimum.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use routepack_bench::{BenchError, BinsBench, Optima, Record, Status, Table, bench_bins};
use routepack_binpack::PackOptions;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "4\n10\n6\n5\n5\n4\n").unwrap();
    std::fs::write(folder.path().join("b.txt"), "2\n10\n7 3\n3 2\n").unwrap();
    std::fs::write(folder.path().join("c.txt"), "6\n10000\n5000\n3750\n3250\n3001\n2000\n2000\n").unwrap();
    folder
}

fn bench(folder: &Path, jobs: usize, optima: Optima) -> BinsBench {
    BinsBench {
        instances: vec![folder.to_owned()],
        first: None,
        time_limit: Duration::from_secs(60),
        jobs,
        seed: 1,
        optima,
        certificates: Some(folder.to_owned()),
        options: PackOptions::default(),
    }
}

#[test]
fn goes_on_after_a_kill() {
    let folder = folder();
    let path = folder.path().join("bins.csv");
    let bench = bench(folder.path(), 1, Optima::default());
    let seen = AtomicU64::new(0);
    let mut count = |_: &Record| {
        seen.fetch_add(1, Ordering::Relaxed);
    };
    let mut table = Table::<Record>::open(&path).unwrap();
    let stop = || seen.load(Ordering::Relaxed) == 2;
    assert_eq!(bench_bins(&bench, &mut table, &stop, &mut count).unwrap().left, 1);
    // The second line was cut off in the middle.
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 3);
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    let mut table = Table::<Record>::open(&path).unwrap();
    assert_eq!(table.records().len(), 1);
    let summary = bench_bins(&bench, &mut table, &|| false, &mut count).unwrap();
    assert_eq!((summary.proved, summary.open, summary.wrong, summary.left), (3, 0, 0, 0));
    assert_eq!(seen.load(Ordering::Relaxed), 4);
    let again = Table::<Record>::open(&path).unwrap();
    assert_eq!(again.records(), table.records());
    let found: Vec<_> =
        again.records().iter().map(|record| (&record.instance[..], record.incumbent)).collect();
    assert_eq!(found, [("a.txt", 2), ("b.txt", 3), ("c.txt", 3)]);
    let class = folder.path().file_name().unwrap();
    assert!(folder.path().join(class).join("c.txt.cert").exists());
}

#[test]
fn jobs_change_nothing_but_the_order() {
    let folder = folder();
    let mut bins = Vec::new();
    for jobs in [1, 3] {
        let mut table = Table::<Record>::open(&folder.path().join(format!("{jobs}.csv"))).unwrap();
        bench_bins(&bench(folder.path(), jobs, Optima::default()), &mut table, &|| false, &mut |_| {})
            .unwrap();
        let mut found: Vec<_> = table
            .records()
            .iter()
            .map(|record| {
                (record.instance.clone(), record.incumbent, record.columns, record.certificate_bytes)
            })
            .collect();
        found.sort();
        bins.push(found);
    }
    assert_eq!(bins[0], bins[1]);
}

#[test]
fn contradictions_are_named() {
    let folder = folder();
    let known = folder.path().join("known.tsv");
    std::fs::write(&known, "class\tinstance\toptimum\nx\ta.txt\t2\nx\tb.txt\t2\nx\tc.txt\t\n").unwrap();
    let optima = Optima::read(&known).unwrap();
    let mut table = Table::<Record>::open(&folder.path().join("bins.csv")).unwrap();
    let summary = bench_bins(&bench(folder.path(), 1, optima), &mut table, &|| false, &mut |_| {}).unwrap();
    assert_eq!((summary.proved, summary.wrong), (2, 1));
    assert_eq!(table.records()[1].status, Status::Wrong);
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = Table::<Record>::open(&folder.path().join("bins.csv")).unwrap();
    let bench = bench(folder.path(), 1, Optima::default());
    let found = bench_bins(&bench, &mut table, &|| false, &mut |_| {}).unwrap_err();
    assert!(matches!(found, BenchError::Empty { .. }), "{found}");
    std::fs::write(folder.path().join("bad.txt"), "2\n10\n11\n3\n").unwrap();
    let found = bench_bins(&bench, &mut table, &|| false, &mut |_| {}).unwrap_err();
    assert!(found.to_string().contains("bad.txt") && found.to_string().contains("11"), "{found}");
}

/// A file without a newline was once emptied, and one without end read for ever.
#[test]
fn what_is_no_table_is_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("precious.json");
    for text in ["{\"precious\": true}", "hello\n", "hello\nworld", "instance,class\n", "a,b\n1,2\n"] {
        std::fs::write(&path, text).unwrap();
        let found = Table::<Record>::open(&path).unwrap_err();
        assert!(found.to_string().contains("precious.json"), "{found}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // What a kill leaves of the first line, and what the first record puts there.
    std::fs::write(&path, "instance,cl").unwrap();
    let mut table = Table::<Record>::open(&path).unwrap();
    let bench = bench(folder.path(), 1, Optima::default());
    bench_bins(&bench, &mut table, &|| false, &mut |_| {}).unwrap();
    assert_eq!(Table::<Record>::open(&path).unwrap().records(), table.records());
    #[cfg(unix)]
    assert!(matches!(Table::<Record>::open(Path::new("/dev/zero")), Err(BenchError::File { .. })));
}

#[test]
fn the_first_of_every_series_and_a_summary_of_every_class() {
    let folder = tempfile::tempdir().unwrap();
    let text = "4\n10\n6\n5\n5\n4\n";
    let names = [
        "10_a_0.txt",
        "10_a_1.BPP",
        "10_a_2.txt",
        "20_a_0.Csp",
        "hard7.txt",
        "hard8.txt",
        "hard9.txt",
        "x.md",
    ];
    for class in ["one", "two"] {
        std::fs::create_dir(folder.path().join(class)).unwrap();
        names.iter().for_each(|name| std::fs::write(folder.path().join(class).join(name), text).unwrap());
    }
    let mut bench = bench(folder.path(), 1, Optima::default());
    (bench.instances, bench.first) =
        (["one", "two"].map(|class| folder.path().join(class)).to_vec(), Some(2));
    let mut table = Table::<Record>::open(&folder.path().join("bins.csv")).unwrap();
    let summary = bench_bins(&bench, &mut table, &|| false, &mut |_| {}).unwrap();
    let counts: Vec<_> = summary.classes.iter().map(|class| (&class.class[..], class.proved)).collect();
    let half = |class| [(class, "10", 2), (class, "20", 1), (class, "", 2)];
    let expected: Vec<_> = ["one", "two"].into_iter().flat_map(half).collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(class, size, proved)| (format!("{class} {size}").trim_end().to_owned(), *proved))
        .collect();
    assert_eq!(counts, expected.iter().map(|(class, proved)| (&class[..], *proved)).collect::<Vec<_>>());
    assert_eq!((summary.instances, summary.proved), (10, 10));
    // Equal names of different folders do not overwrite each other.
    let certificate = |class: &str| folder.path().join(class).join("10_a_1.BPP.cert").exists();
    assert!(certificate("one") && certificate("two"));
}
