//! The numbers of the pictures are those that a verified plan claims.

use routepack_generate::{Preset, window};
use routepack_html::{
    MovePoint, Page, Picture, RowsPoint, ShownStep, TracePoint, annealing, page, pictures_of_step,
    placement_moves, rows_curve_picture, trade_off_curve,
};
use routepack_problem::{Batch, Instance, Layout, Placement, Setting};
use routepack_verify::{Figures, figures};

struct Step {
    instance: Instance,
    layout: Layout,
    placement: Placement,
    before: Placement,
    figures: Figures,
}

/// A generated window on two shards, two samples a cell, experts shifted by one place.
fn step() -> Step {
    let mut recipe = Preset::KnifeEdge.recipe();
    (recipe.knife_edge, recipe.prompts) = (None, 20);
    let made = window(&recipe, 1).expect("a window");
    let instance = Instance::single(made.batch, &made.setting).expect("valid");
    let cells = (0..instance.num_samples()).map(|sample| sample as u32 % 40).collect();
    let layout = Layout::new(5, 8, cells);
    let (layers, experts) = (instance.num_layers(), instance.num_experts());
    let shifted = (0..experts as u32).map(|expert| (expert + 1) % experts as u32).collect();
    let placement = Placement::new(4, vec![shifted; layers]).expect("bijection");
    let before = Placement::identity(layers, experts, 4).expect("divides");
    let figures = figures(&instance, Some(&placement), &layout, true).expect("valid");
    Step { instance, layout, placement, before, figures }
}

fn pictures(step: &Step) -> Vec<Picture> {
    let Step { instance, layout, placement, before, figures } = step;
    pictures_of_step(&ShownStep { instance, layout, placement, before, before_name: "resident", figures })
}

fn column(picture: &Picture, column: usize) -> Vec<&str> {
    picture.numbers.rows.iter().map(|row| row[column].as_str()).collect()
}

fn find<'a>(pictures: &'a [Picture], name: &str) -> &'a Picture {
    pictures.iter().find(|picture| picture.id.ends_with(name)).unwrap_or_else(|| panic!("no picture {name}"))
}

#[test]
fn costs_are_the_verified_ones() {
    let step = step();
    let (pictures, figures) = (pictures(&step), &step.figures);
    let unit = figures.unit as f64;
    let cost = |scaled: u64| format!("{:.4}", scaled as f64 / unit);
    let shards = find(&pictures, "-shards");
    let expected: Vec<String> = figures
        .shard_cost
        .iter()
        .copied()
        .chain([figures.bounds.given_placement.worst_shard, figures.bounds.placement_free.worst_shard])
        .map(cost)
        .collect();
    assert_eq!(column(shards, 3), expected);
    let worst_row =
        column(find(&pictures, "-rows"), 3).into_iter().map(|text| text.parse::<f64>().expect("number"));
    let worst_row = worst_row.fold(0.0, f64::max);
    assert!((worst_row - figures.score.worst_row as f64 / unit).abs() < 1e-4);
    // The slowest slots' cells, summed over rows and shards, are the attention that is charged: one attention kind.
    let cells = find(&pictures, "-cells");
    let charged: f64 = cells
        .numbers
        .rows
        .iter()
        .flat_map(|row| row[1..].chunks(4))
        .map(|shard| shard.iter().map(|text| text.parse::<f64>().expect("number")).fold(0.0, f64::max))
        .sum();
    assert!((charged - figures.attention_cost).abs() < 1e-4 * 20.0, "{charged} {}", figures.attention_cost);
}

#[test]
fn loads_are_the_verified_ones() {
    let step = step();
    let (pictures, figures) = (pictures(&step), &step.figures);
    let ranks = find(&pictures, "-ranks");
    for (row, loads) in ranks.numbers.rows.iter().zip(&figures.rank_loads) {
        assert_eq!(row[1..], loads.iter().map(u64::to_string).collect::<Vec<_>>());
    }
    let layers = find(&pictures, "-layers");
    let charged: u64 = column(layers, 4).into_iter().map(|text| text.parse::<u64>().expect("number")).sum();
    assert_eq!(charged, figures.peak_sum);
    let after: Vec<String> =
        figures.rank_loads.iter().map(|ranks| ranks.iter().max().expect("ranks").to_string()).collect();
    assert_eq!(column(layers, 3), after, "without padding, rows together hold the window");
    assert_ne!(column(layers, 1), after, "the placement before is another");
    let stayed =
        routepack_verify::figures(&step.instance, Some(&step.before), &step.layout, true).expect("valid");
    let rows: u64 = column(layers, 2).into_iter().map(|text| text.parse::<u64>().expect("number")).sum();
    assert_eq!(rows, stayed.peak_sum, "the same rows without moves");
}

#[test]
fn samples_and_tokens_are_all_there() {
    let step = step();
    let pictures = pictures(&step);
    let sum = |picture: &Picture, columns: std::ops::Range<usize>| -> u64 {
        let cells = picture.numbers.rows.iter().flat_map(|row| row[columns.clone()].to_vec());
        cells.map(|text| text.parse::<u64>().expect("number")).sum()
    };
    assert_eq!(sum(find(&pictures, "-lengths"), 1..2), step.figures.tokens.samples);
    assert_eq!(sum(find(&pictures, "-fill"), 1..9), step.figures.tokens.padded);
    // Shifted by one: the last expert of each rank moves to the next.
    let moves = placement_moves(&step.before, &step.placement);
    assert_eq!(sum(&moves, 1..5), 4 * step.instance.num_layers() as u64);
}

#[test]
fn drawings_are_files_and_the_page_names_them_all() {
    let step = step();
    let pictures = pictures(&step);
    for picture in &pictures {
        let svg = picture.svg();
        assert!(svg.starts_with("<?xml") && svg.contains("<style>") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<svg").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", picture.id);
    }
    let ids: Vec<String> = pictures.iter().map(|picture| picture.id.clone()).collect();
    let facts = [("a < b".to_owned(), "\"c\"".to_owned())];
    let sections = [("Step 0".to_owned(), pictures)];
    let text = page(&Page { title: "Plan", facts: &facts, tables: &[], sections: &sections });
    assert!(text.contains("a &lt; b"), "text is escaped");
    for id in ids {
        assert_eq!(text.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        assert!(text.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    for network in ["http:", "https:", "<script", "@import", "url("] {
        assert!(!text.replace("http://www.w3.org/2000/svg", "").contains(network), "{network}");
    }
}

#[test]
fn what_is_beside_the_plan_is_as_in_its_files() {
    let at = |search: u32, rung: u32, temperature: f64| TracePoint {
        step: 1,
        search,
        rung,
        temperature,
        best: 1.5,
        median: 2.0,
        worst: f64::from(rung) + 3.25,
        spread: 0.5,
        families: 9 - rung,
        plan_sha256: String::new(),
    };
    let mut trace = [at(1, 0, 8.0), at(1, 1, 4.0), at(1, 2, 2.0)];
    assert_eq!(at(1, 0, 8.0).check(9), Ok(()));
    assert_eq!(at(1, 0, 8.0).check(8), Err("families = 9: expected 1 to 8".to_owned()));
    let endless = at(1, 0, f64::INFINITY).check(9).expect_err("no temperature of a search");
    assert_eq!(endless, "temperature = inf: expected 0 to 1e30");
    trace[1].best = 1.0;
    // In a unit of 2, above the 1.5 of the start.
    let drawn = annealing(&trace, 2.0);
    assert_eq!(
        drawn[0].numbers.rows[1],
        ["1", "1", "1", "-0.250000", "0.250000", "1.375000"],
        "best, median and worst energies"
    );
    assert_eq!(column(&drawn[1], 3), ["4.000e0", "2.000e0", "1.000e0"]);
    assert_eq!(column(&drawn[2], 3), ["9", "8", "7"]);
    // Another search begins a line of its own, and says so.
    let mut second = at(2, 0, 4.0);
    second.best = -7.5;
    let twice = annealing(&[at(1, 0, 4.0), at(1, 1, 2.0), second, at(2, 1, 2.0)], 1.0);
    assert_eq!(
        column(&twice[0], 3),
        ["0.000000", "0.000000", "0.000000", "9.000000"],
        "each above its own start"
    );
    let families = &twice[2];
    let line = families
        .svg()
        .split("line s0\" d=\"")
        .nth(1)
        .and_then(|path| path.split('"').next())
        .map(str::to_owned);
    let line = line.expect("a line");
    assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 2), "{line}");
    assert!(families.caption.contains("2 searches, one after another"), "{}", families.caption);
    assert!(!drawn[2].caption.contains("searches"), "{}", drawn[2].caption);
    // Layer 0: peak 12 at no move, 10 with two, its bound; layer 1: 11 and 10 with four. Within 20 %: none need move, but
    // within 10 % the first layer's two.
    let move_of =
        |layer, moved, peak| MovePoint { layer, method: "routepack".to_owned(), moved, peak, bound: 10 };
    let curve =
        trade_off_curve(&[move_of(0, 0, 12), move_of(0, 2, 10), move_of(1, 0, 11), move_of(1, 4, 10)]);
    let moved = |percent: &str| {
        curve
            .numbers
            .rows
            .iter()
            .find(|row| row[0] == percent)
            .map(|row| row[1].clone())
            .expect("a percentage")
    };
    assert_eq!([moved("0"), moved("10"), moved("20")], ["6", "2", "0"]);
    // What no move brings within 20 % has an axis of percents all the same.
    for curve in [&curve, &trade_off_curve(&[move_of(0, 0, 13)])] {
        let axis: Vec<bool> =
            ["0", "5", "10", "15", "20"].map(|tick| curve.svg().contains(&format!(">{tick}</text>"))).into();
        assert!(axis.iter().all(|&there| there), "{axis:?}");
    }
    let point =
        |rows, seconds| RowsPoint { rows, seconds, tokens_per_second: 8.0, bubble: 0.25, joint_score: 3.0 };
    let rows = rows_curve_picture(
        "rows-curve".to_owned(),
        "By rows",
        "M on C",
        &[point(4, 2.5), point(5, 2.25), point(6, 2.75)],
    );
    assert_eq!(column(&rows, 1), ["2.5", "2.25", "2.75"]);
    assert_eq!(rows.numbers.rows[0], ["4", "2.5", "8", "0.25", "3"]);
    assert!(rows.caption.starts_with("M on C. Least with 5 rows: 2.2500 s"), "{}", rows.caption);
    for picture in drawn.iter().chain([&curve, &rows]) {
        let svg = picture.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", picture.id);
        assert!(svg.contains("<path class=\"line"), "{}", picture.id);
    }
}

/// Where a shard has one slot, every cell paces its row: frames would tell nothing.
#[test]
fn the_slowest_cell_is_framed_among_others_alone() {
    let step = step();
    let frames = |picture: &Picture| picture.svg().matches("class=\"pace\"").count();
    let shown = pictures(&step);
    assert!(frames(find(&shown, "-cells")) >= 5 * 2, "one a row and shard");
    for unit in [
        ("-cells", "cost (unit of the paper)"),
        ("-ranks", "of the layer's mean"),
        ("-fill", "% of the capacity"),
    ] {
        assert!(
            find(&shown, unit.0).svg().contains(&format!("{}</text>", unit.1)),
            "a scale without its unit: {unit:?}"
        );
    }
    let setting = Setting::new(1, 1, 100);
    let instance = Instance::single(Batch::from_lengths(vec![40, 50, 60]), &setting).expect("valid");
    let (layout, none) = (Layout::new(3, 1, vec![0, 1, 2]), Placement::identity(0, 0, 1).expect("none"));
    let figures = figures(&instance, None, &layout, true).expect("valid");
    let alone = Step { instance, layout, placement: none.clone(), before: none, figures };
    let shown = pictures(&alone);
    let cells = find(&shown, "-cells");
    assert_eq!(frames(cells), 0);
    assert!(!cells.caption.contains("framed"), "{}", cells.caption);
}

/// Rows are numbered as rows, whatever the number of shards; and of thousands, each mark is that of a row there is.
#[test]
fn rows_are_marked_by_their_own_numbers_and_many_share_a_mark() {
    let step = step();
    let shown = pictures(&step);
    let rows = find(&shown, "-rows");
    assert_eq!(rows.numbers.rows.len(), 5 * 2);
    let svg = rows.svg();
    let ticks: Vec<&str> =
        svg.split("soft middle\"").skip(1).filter_map(|text| text.split(['>', '<']).nth(1)).collect();
    assert_eq!(ticks, ["0", "1", "2", "3", "4"], "five rows on two shards");
    for (slots, ranks, num_rows) in [(2, 1, 700), (4, 2, 700), (2, 2, 3000), (8, 1, 100)] {
        let lengths: Vec<u32> = (0..num_rows * slots).map(|sample| 1 + sample * 7919 % 100).collect();
        let instance = Instance::single(Batch::from_lengths(lengths), &Setting::new(slots, ranks, 100));
        let instance = instance.expect("valid");
        let layout = Layout::new(num_rows as usize, slots as usize, (0..num_rows * slots).collect());
        let none = Placement::identity(0, 0, ranks as usize).expect("none");
        let figures = figures(&instance, None, &layout, true).expect("valid");
        let many = Step { instance, layout, placement: none.clone(), before: none, figures };
        let (shown, unit) = (pictures(&many), many.figures.unit as f64);
        let cost = |scaled: u64| format!("{:.4}", scaled as f64 / unit);
        let of = |row: u32, slot: u32| -> u64 {
            many.instance.charges().attention((row * slots + slot) as usize).iter().sum()
        };
        let rows = find(&shown, "-rows");
        assert!(rows.numbers.rows.len() <= 256, "{} bars", rows.numbers.rows.len());
        let costliest = column(rows, 3).into_iter().max_by(|one, other| {
            let number = |text: &&str| text.parse::<f64>().expect("number");
            number(one).total_cmp(&number(other))
        });
        assert_eq!(costliest, Some(&*cost(many.figures.score.worst_row)), "the costliest row is in sight");
        for line in &rows.numbers.rows {
            let place: Vec<u32> = line[0]
                .split(|letter: char| !letter.is_ascii_digit())
                .filter_map(|word| word.parse().ok())
                .collect();
            let (row, shard) = (place[0], place.get(1).copied().unwrap_or(0));
            let slowest = (shard * ranks..(shard + 1) * ranks).map(|slot| of(row, slot)).max();
            assert_eq!(line[3], cost(slowest.expect("slots")), "{}", line[0]);
        }
        let cells = find(&shown, "-cells");
        for line in &cells.numbers.rows {
            let ends: Vec<u32> = line[0].split(" to ").map(|end| end.parse().expect("a row")).collect();
            let rows = ends[0]..=*ends.last().expect("a row");
            for slot in 0..slots {
                let largest = rows.clone().map(|row| of(row, slot)).max().expect("rows");
                assert_eq!(line[1 + slot as usize], cost(largest), "{rows:?}, slot {slot}");
            }
        }
        assert_eq!(cells.numbers.rows.len() < num_rows as usize, num_rows > 128);
        assert_eq!(cells.caption.contains("A line stands for"), num_rows > 128, "{}", cells.caption);
    }
}
