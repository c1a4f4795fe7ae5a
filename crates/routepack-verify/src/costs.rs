//! Cost bounds and gaps of one step.

use routepack_bounds::{
    LayoutBound, attention_bounds, given_demand, layout_bound_with, placement_free, quick_attention_bounds,
};
use routepack_problem::{Instance, Placement, RankDemand};

use crate::{PlanBound, PlanBounds};

impl From<LayoutBound> for PlanBound {
    fn from(bound: LayoutBound) -> Self {
        let LayoutBound { attention, expert, total, worst_shard, worst_row, .. } = bound;
        Self { attention, expert, total, worst_shard, worst_row }
    }
}

/// Both lower bounds on the cost of any layout with this number of rows, the quick ones of a plan that was cut short: its
/// deadline is over.
pub(crate) fn bound_costs(
    instance: &Instance,
    placement: &Placement,
    demand: &RankDemand,
    rows: usize,
    finished: bool,
) -> PlanBounds {
    let bounds = if finished { attention_bounds } else { quick_attention_bounds };
    let attention = bounds(instance, rows);
    let given = given_demand(instance, placement, demand);
    PlanBounds {
        given_placement: layout_bound_with(instance, &given, attention.clone(), rows).into(),
        placement_free: layout_bound_with(instance, &placement_free(instance), attention, rows).into(),
    }
}

/// (incumbent − bound)/incumbent; 0 when there is no cost.
pub(crate) fn gap(incumbent: u64, bound: u64) -> f64 {
    if incumbent == 0 { 0.0 } else { (i128::from(incumbent) - i128::from(bound)) as f64 / incumbent as f64 }
}

/// The placement to charge with: the one given, or one without layers when no routes were recorded.
///
/// # Errors
/// None for a batch without routes; with routes, a placement must be there and have the batch's dimensions.
pub(crate) fn placement_in_force(
    instance: &Instance,
    placement: Option<&Placement>,
) -> Result<Placement, routepack_problem::ProblemError> {
    let (layers, experts) = (instance.num_layers(), instance.num_experts());
    let ranks = instance.topology().num_ranks();
    let found = match placement {
        None if layers == 0 => return Placement::new(ranks, Vec::new()),
        Some(placement)
            if layers > 0
                && [placement.num_layers(), placement.num_experts(), placement.num_ranks()]
                    == [layers, experts, ranks] =>
        {
            return Ok(placement.clone());
        }
        None => "no placement".to_owned(),
        Some(placement) => format!(
            "[{} layers, {} experts] on {} ranks",
            placement.num_layers(),
            placement.num_experts(),
            placement.num_ranks()
        ),
    };
    Err(routepack_problem::ProblemError::Shape {
        field: "placement",
        found,
        expected: if layers == 0 {
            "no placement, as no routes were recorded".to_owned()
        } else {
            format!("[{layers} layers, {experts} experts] on {ranks} ranks")
        },
    })
}
