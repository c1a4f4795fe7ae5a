//! Step times against a calculation by hand, and the laws they obey.

use proptest::prelude::*;
use routepack_problem::{Batch, ExpertCounts, Instance, Layout, Placement, Setting};
use routepack_simulate::{Cluster, Model, SimulateOptions, StepTime, presets, simulate, time_rows};

/// One layer of 4 experts, hidden 2, width 3; a GPU of 1 FLOP a second at full efficiency, links of 1 byte a second.
fn toy() -> (Model, Cluster) {
    let model = "name = 'toy'\nhidden = 2\nvocabulary = 5\npattern = ['full']\nmoe_layers = 1\nexperts = 4\ntop_k = 1\n\
                 expert_width = 3\n[[attention]]\nname = 'full'\nheads = 1\nqk_dim = 2\n";
    let cluster = "name = 'toy'\ngpus_per_node = 8\npeak_tflops = 1e-12\nmemory_tb_s = 1e-12\ndense_efficiency = 1\n\
                   attention_efficiency = 1\nattention_backward_efficiency = 1\ntile_rows = 1\n\
                   grouped = [{ rows = 1, forward = 1, data_gradient = 1, weight_gradient = 1 }]\n\
                   node = { gb_s = 1e-9, latency_us = 0 }\nnetwork = { gb_s = 1e-9, latency_us = 0 }\n";
    (
        presets::parse_model(model, "toy").expect("model"),
        presets::parse_cluster(cluster, "toy").expect("cluster"),
    )
}

/// A window of samples whose tokens all take one expert each.
fn window(samples: &[(u32, usize)], layers: usize, setting: &Setting) -> Instance {
    let mut counts = vec![0; samples.len() * layers * 4];
    for (sample, &(length, expert)) in samples.iter().enumerate() {
        for layer in 0..layers {
            counts[(sample * layers + layer) * 4 + expert] = length;
        }
    }
    let batch = Batch {
        lengths: samples.iter().map(|&(length, _)| length).collect(),
        expert_counts: Some(ExpertCounts::new([samples.len(), 1, layers, 4], counts).expect("shape")),
        ..Batch::default()
    };
    Instance::single(batch, setting).expect("valid")
}

fn setting(dp: u32, ep: u32) -> Setting {
    let mut setting = Setting::new(dp, ep, 1000);
    setting.routing.top_k = 1;
    setting
}

fn time(instance: &Instance, layout: &Layout, options: &SimulateOptions) -> StepTime {
    let (mut model, cluster) = toy();
    model.moe_layers = instance.num_layers() as u32;
    let ranks = instance.topology().num_ranks();
    let placement = Placement::identity(instance.num_layers(), 4, ranks).expect("divides");
    simulate(instance, &placement, layout, None, &model, &cluster, options).expect("simulates")
}

/// Rows timed once give the time of every order, bit for bit that of the layout so ordered.
#[test]
fn an_order_of_rows_takes_what_the_layout_so_ordered_takes() {
    let (mut model, cluster) = toy();
    model.moe_layers = 4;
    let mut setting = setting(4, 2);
    setting.topology.pp = 2;
    let lengths = [9u32, 7, 30, 2, 4, 1, 8, 6, 20, 5, 3, 11];
    let samples: Vec<(u32, usize)> =
        lengths.into_iter().enumerate().map(|(at, length)| (length, at % 4)).collect();
    let instance = window(&samples, 4, &setting);
    let placement = Placement::identity(4, 4, instance.topology().num_ranks()).expect("divides");
    let options = SimulateOptions { planning_seconds: 0.3, ..SimulateOptions::default() };
    // Sample i in row i mod 3.
    let ordered = |order: [u32; 3]| {
        let place = |row: u32| order.iter().position(|&other| other == row).expect("an order") as u32;
        Layout::new(3, 4, (0..12).map(|sample| 4 * place(sample % 3) + sample / 3).collect())
    };
    let layout = ordered([0, 1, 2]);
    let times = time_rows(&instance, &placement, &layout, None, &model, &cluster, &options).expect("valid");
    assert_eq!(times.longest_first()[0], 2, "row 2 holds the longest sample");
    let mut seconds = Vec::new();
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
        let of_layout = simulate(&instance, &placement, &ordered(order), None, &model, &cluster, &options);
        let of_order = times.step_time(&order.map(|row| row as usize));
        assert_eq!(of_layout.expect("valid"), of_order, "{order:?}");
        seconds.push(of_order.seconds.to_bits());
    }
    assert!(seconds.iter().any(|&one| one != seconds[0]), "the order matters");
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found}, expected {expected}");
}

#[test]
fn two_slots_by_hand() {
    // Slot 0: 3 and 4 tokens of experts 0 and 2; slot 1: 5 tokens of expert 3. Two EP ranks of two experts, one shard.
    let instance = window(&[(3, 0), (4, 2), (5, 3)], 1, &setting(2, 2));
    let layout = Layout::new(1, 2, vec![0, 0, 1]);
    let time = time(&instance, &layout, &SimulateOptions::default());
    // Attention, slot 0: projections 2·16·7 FLOPs, pairs 1·(2 + 2)·(9 + 16); slot 1: 2·16·5 and 4·25. Backward 2 and 2.5.
    close(time.work.attention, (224.0 + 100.0) + (448.0 + 250.0));
    // Router 2·8 a token in the layer, output layer 2·10 a token; both paced by slot 0's 7 tokens.
    close(time.work.dense, 3.0 * (16.0 * 7.0 + 20.0 * 7.0));
    // Rank 1 owns experts 2 and 3: 9 rows of 6·2·3 FLOPs, three times in all.
    close(time.work.expert, 3.0 * 36.0 * 9.0);
    // Slot 0 sends sample 1 (4 tokens of 2·2 bytes) to rank 1, slot 1 nothing to rank 0: 16 bytes, four ways.
    close(time.work.all_to_all, 4.0 * 16.0);
    assert_eq!(time.tokens, 12);
    // Shared: attention 16, router 8, embeddings 2·10 parameters on two copies; experts on one.
    close(time.gradients, 6.0 * 44.0 / 2.0);
    close(time.optimizer, 30.0 * (44.0 / 2.0 + 4.0 * 18.0 / 2.0));
}

#[test]
fn recomputation_repeats_forward_and_moves_are_charged_once_moved() {
    let instance = window(&[(3, 0), (4, 2)], 1, &setting(2, 2));
    let layout = Layout::new(1, 2, vec![0, 1]);
    let plain = time(&instance, &layout, &SimulateOptions::default());
    let twice = time(&instance, &layout, &SimulateOptions { recompute: true, ..SimulateOptions::default() });
    // Linear work: forward is a third of it.
    close(twice.work.expert, plain.work.expert * 4.0 / 3.0);
    close(twice.work.dense, plain.work.dense * 4.0 / 3.0);

    let (model, cluster) = toy();
    let identity = Placement::identity(1, 4, 2).expect("divides");
    let swapped = Placement::new(2, vec![vec![0, 2, 1, 3]]).expect("bijection");
    let options = SimulateOptions::default();
    let run = |resident: &Placement| {
        simulate(&instance, &swapped, &layout, Some(resident), &model, &cluster, &options).expect("simulates")
    };
    close(run(&swapped).moves, 0.0);
    // Each rank sends one expert of 18 parameters, 14 bytes each.
    close(run(&identity).moves, 18.0 * 14.0);
}

#[test]
fn a_stage_runs_its_own_layers_wherever_they_lie() {
    // A list of stages, and the order in which the same layers lie side by side.
    let cases = [
        (vec![0, 1, 1, 0, 0, 1], vec![0, 3, 4, 1, 2, 5], 1),
        (vec![1, 1, 1, 0, 0, 0], vec![3, 4, 5, 0, 1, 2], 1),
        (vec![0, 1, 0, 1, 0, 1], vec![0, 2, 4, 1, 3, 5], 3),
    ];
    // At layer l some tokens of every second sample leave the expert of the first: layers cost differently.
    let time_of = |order: &[usize], stages: &[u32], vpp: u32| {
        let mut setting = setting(2, 2);
        setting.topology.pp = 2;
        setting.topology.vpp = vpp;
        setting.topology.layer_stage = Some(stages.to_vec());
        let away = [0, 7, 2, 9, 4, 1];
        let counts = (0..4).flat_map(|sample| {
            let away = move |layer: usize| sample % 2 * away[layer];
            order.iter().flat_map(move |&layer| [10 - away(layer), 0, away(layer), 0])
        });
        let counts = ExpertCounts::new([4, 1, order.len(), 4], counts.collect()).expect("shape");
        let batch = Batch { lengths: vec![10; 4], expert_counts: Some(counts), ..Batch::default() };
        let instance = Instance::single(batch, &setting).expect("valid");
        time(&instance, &Layout::new(2, 2, vec![0, 1, 2, 3]), &SimulateOptions::default())
    };
    for (stages, order, vpp) in cases {
        let (scattered, together) =
            (time_of(&[0, 1, 2, 3, 4, 5], &stages, vpp), time_of(&order, &[0, 0, 0, 1, 1, 1], vpp));
        close(scattered.seconds, together.seconds);
        close(scattered.work.expert, together.work.expert);
        close(scattered.bubble, together.bubble);
        close(scattered.optimizer, together.optimizer);
    }
}

#[test]
fn ranks_of_other_nodes_are_reached_over_the_network() {
    let instance = window(&[(3, 0), (4, 2), (5, 3)], 1, &setting(2, 2));
    let layout = Layout::new(1, 2, vec![0, 0, 1]);
    let (model, mut cluster) = toy();
    let placement = Placement::identity(1, 4, 2).expect("divides");
    cluster.network.gb_s /= 4.0;
    let mut exchange = |gpus| {
        cluster.gpus_per_node = gpus;
        let options = SimulateOptions::default();
        let made = simulate(&instance, &placement, &layout, None, &model, &cluster, &options);
        made.expect("simulates").work.all_to_all
    };
    close(exchange(2), 4.0 * 16.0);
    close(exchange(1), 4.0 * 16.0 * 4.0);
}

#[test]
fn another_model_and_rows_that_do_not_interleave_are_refused() {
    let mut of_stages = setting(1, 1);
    (of_stages.topology.pp, of_stages.topology.vpp) = (2, 2);
    let instance = window(&[(3, 0), (4, 2), (5, 1)], 4, &of_stages);
    let (mut model, cluster) = toy();
    let placement = Placement::identity(4, 4, 1).expect("divides");
    let refused = |model: &Model, rows: usize| {
        let cells = (0..3).map(|sample: u32| sample % rows as u32).collect();
        let layout = Layout::new(rows, 1, cells);
        let options = SimulateOptions::default();
        simulate(&instance, &placement, &layout, None, model, &cluster, &options)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(refused(&model, 2), "the window has 4 expert layers, model toy has 1");
    model.moe_layers = 4;
    assert_eq!(
        refused(&model, 3),
        "3 rows on 2 stages with vpp = 2: expected a multiple of 2 (packing.rows_multiple)"
    );
}

proptest! {
    /// Terms add up; a longer sample never takes less; stages change waiting, not work in all.
    #[test]
    fn laws(
        samples in prop::collection::vec((1u32..60, 0usize..4), 8..16),
        longer in 0usize..8,
        shards in prop::bool::ANY,
    ) {
        let setting = setting(2, if shards { 1 } else { 2 });
        let layout = Layout::new(4, 2, (0..samples.len()).map(|sample| sample as u32 % 8).collect());
        let options = SimulateOptions::default();
        let made = time(&window(&samples, 4, &setting), &layout, &options);
        let terms = made.work.seconds() + made.bubble + made.gradients + made.optimizer;
        prop_assert!((terms - made.seconds).abs() < 1e-9 * made.seconds);
        prop_assert!(made.bubble.abs() < 1e-9 * made.seconds, "one stage waits for nobody");

        let mut more = samples.clone();
        more[longer].0 += 1;
        let more = time(&window(&more, 4, &setting), &layout, &options);
        prop_assert!(more.seconds > made.seconds - 1e-9);

        let mut staged = setting.clone();
        (staged.topology.pp, staged.topology.vpp) = (4, 1);
        let staged = time(&window(&samples, 4, &staged), &layout, &options);
        prop_assert!(staged.bubble > 0.0);
        prop_assert!(staged.work.seconds() < made.work.seconds());
    }
}
