//! The layout search: what is called. Its loop is in [`crate::search`].
//!
//! Problem: given the placement and a feasible layout, find a layout of least score (DESIGN §1.3).
//! Method: seeds ([`crate::window_shuffle`], [`crate::randomized_best_fit`], [`crate::edp_aware_pair`],
//! [`crate::perturb`], and the layout given), a choice of good and different ones ([`crate::select`]), population
//! annealing ([`crate::system`]), exact balancing of cells within their blocks ([`crate::balance`]) and a final descent
//! ([`crate::descend`]), repeated from places nearby while its budget lasts; in rounds, each longer than the one before.
//! Small windows end with an exact search ([`crate::exact`]). The best layout met, by exact score, wins; it is never worse
//! than the one given.
//! Reference: arXiv 2608.12146 for seeds, sketch and population annealing; DESIGN §1.4.

use routepack_anneal::{Peers, Stream};
use routepack_problem::{Instance, Layout, Placement, Score, check_layout};

use crate::ArrangeError;
use crate::arranged::{ArrangeProgress, Arranged};
use crate::even::Even;
use crate::options::ArrangeOptions;
use crate::search::Search;
use crate::units::Units;

/// Searches for a layout of least score, from a feasible one, for the number of rows that one has.
///
/// The result depends on the arguments alone, not on threads, unless `stop` ended the search; it runs in the current
/// rayon pool. `stop` is looked at every few milliseconds. [`ArrangeOptions`] says how long the search is.
///
/// # Errors
/// An option out of range, a layout that is not feasible, another model's placement, or loads beyond 32 bits.
pub fn arrange(
    instance: &Instance,
    placement: &Placement,
    first: &Layout,
    options: &ArrangeOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut (dyn FnMut(&ArrangeProgress) + Send),
) -> Result<Arranged, ArrangeError> {
    arrange_among(instance, placement, first, options, seed, stop, observe, None)
}

/// [`arrange`], with seeds and population shared among processes that all make this call (see
/// [`routepack_anneal::peers`]); each gets the same result, that of [`arrange`].
///
/// # Errors
/// As [`arrange`]; a process is gone.
#[expect(clippy::too_many_arguments, reason = "those of arrange and one more")]
pub fn arrange_among(
    instance: &Instance,
    placement: &Placement,
    first: &Layout,
    options: &ArrangeOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut (dyn FnMut(&ArrangeProgress) + Send),
    peers: Option<&dyn Peers>,
) -> Result<Arranged, ArrangeError> {
    options.validate()?;
    check_layout(instance, first)?;
    let Some(units) = Units::new_unless(instance, placement, first.num_rows(), stop)? else {
        return Ok(Arranged::unsearched(instance, placement, first));
    };
    let demand = |unit, part, layer, rank| u64::from(units.demand.of(unit, part, layer, rank));
    let least = Even::new(instance, &units, demand).least(instance, &units);
    let mut search =
        Search::new(&units, options, units.cells_of_units(instance, first), least, stop, observe);
    search.peers = peers;
    search.run(&Stream::new(seed))?;
    search.search_tree(instance, placement);
    Ok(search.conclude(instance, first))
}

/// A layout to place experts for: searched as by [`arrange_among`], but with what peaks exceed even loads by charged at
/// `percent` of its weight only, as placing levels most of it afterwards. Even loads are charged in full, so that shards
/// come out alike. In the end attention goes where a long unit is waited for anyway, and blocks are made alike in what they
/// ask of experts. The layout may have a higher score than the one given.
///
/// # Errors
/// As [`arrange_among`].
///
/// # Panics
/// `percent` is above 100.
#[expect(clippy::too_many_arguments, reason = "those of arrange and two more")]
pub fn arrange_to_place(
    instance: &Instance,
    placement: &Placement,
    first: &Layout,
    percent: u32,
    options: &ArrangeOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    peers: Option<&dyn Peers>,
) -> Result<Layout, ArrangeError> {
    options.validate()?;
    check_layout(instance, first)?;
    let Some(units) = Units::with_light_peaks(instance, placement, first.num_rows(), percent, stop)? else {
        return Ok(first.clone());
    };
    let mut ignore = |_: &ArrangeProgress| {};
    let least = Score { worst_shard: 0, total: 0, worst_row: 0 };
    let mut search =
        Search::new(&units, options, units.cells_of_units(instance, first), least, stop, &mut ignore);
    search.peers = peers;
    search.run(&Stream::new(seed))?;
    search.make_placeable(instance, &Stream::new(seed).child(4));
    Ok(search.conclude(instance, first).layout)
}
