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
    let figures = figures(&instance, Some(&placement), &layout).expect("valid");
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
    let stayed = routepack_verify::figures(&step.instance, Some(&step.before), &step.layout).expect("valid");
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
    let mut trace = [at(1, 0, f64::INFINITY), at(1, 1, 4.0), at(1, 2, 2.0)];
    trace[1].best = 1.0;
    // In a unit of 2, above the 1.5 of the start.
    let drawn = annealing(&trace, 2.0);
    assert_eq!(
        drawn[0].numbers.rows[1],
        ["1", "1", "1", "-0.250000", "0.250000", "1.375000"],
        "best, median and worst energies"
    );
    assert_eq!(column(&drawn[1], 3), ["inf", "2.000e0", "1.000e0"]);
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
    let setting = Setting::new(1, 1, 100);
    let instance = Instance::single(Batch::from_lengths(vec![40, 50, 60]), &setting).expect("valid");
    let (layout, none) = (Layout::new(3, 1, vec![0, 1, 2]), Placement::identity(0, 0, 1).expect("none"));
    let figures = figures(&instance, None, &layout).expect("valid");
    let alone = Step { instance, layout, placement: none.clone(), before: none, figures };
    let shown = pictures(&alone);
    let cells = find(&shown, "-cells");
    assert_eq!(frames(cells), 0);
    assert!(!cells.caption.contains("framed"), "{}", cells.caption);
}
