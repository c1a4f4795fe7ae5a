//! What a search takes of the heap: the demands, the population, and little beside. Bytes are counted by the allocator; a
//! binary of its own, as everything that is allocated counts.

#[path = "../examples/windows/mod.rs"]
#[allow(dead_code, reason = "the examples use the rest")]
mod windows;

use peak_alloc::PeakAlloc;
use routepack_arrange::{ArrangeOptions, arrange, spread_bins};
use routepack_generate::Preset;
use serde_json::json;
use windows::Window;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// 4096 samples, 48 layers, EP 16, D 64, for 1 and 8 threads.
#[test]
fn a_search_takes_little_more_than_demands_and_population() {
    let setting = json!({"topology": {"dp": 64, "ep": 16}});
    let routing = json!({"layers": 48, "experts": 32});
    let change = json!({"prompts": 512, "routing": routing, "setting": setting});
    let recipe = Preset::Mixed.recipe().amended(&change).expect("valid");
    let window = Window::new(&recipe, 1).expect("valid");
    let first = spread_bins(&window.instance, &window.bins, window.rows).expect("enough samples");
    // All stages, in short.
    let options =
        ArrangeOptions { proposals_per_unit: 50, descent_per_unit: 10, ..ArrangeOptions::default() };

    let (units, topology) = (window.instance.num_units(), window.instance.topology());
    let values = window.instance.num_layers() * topology.num_ranks();
    let demands = units * values * size_of::<u16>();
    let loads = window.rows * topology.num_groups() * values * size_of::<u32>();
    // A replica also has every unit's cell, its block's list of units, and the unit's place there.
    let replica = loads + 3 * units * size_of::<u32>();
    let limit = demands * 13 / 10 + options.population as usize * replica;

    for threads in [1, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let search =
            || arrange(&window.instance, &window.placement, &first, &options, 1, &|| false, &mut |_| {});
        let arranged = pool.install(search).expect("valid");
        let took = HEAP.peak_usage() - before;
        assert!(arranged.finished);
        assert!(
            took <= limit,
            "{took} bytes with {threads} threads: demands {demands}, a replica {replica}, limit {limit}"
        );
    }
}
