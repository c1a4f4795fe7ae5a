//! Aggregated expert distributions: every recorded step becomes one sample of as many tokens as it routed.

use crate::facts::Facts;
use crate::window::Window;
use crate::{Form, ImportError};

/// Adds one step's counts `[layers, ids]`. A step that routed nothing is passed over.
pub(crate) fn add_step(
    window: &mut Window<'_>,
    counts: &[i64],
    [layers, ids]: [usize; 2],
) -> Result<(), ImportError> {
    let place = window.place(None);
    let why = "counts alone do not tell how many experts a token chose";
    let form = Form::ExpertDistribution.name();
    let top_k = window.options.top_k.ok_or(ImportError::Undeclared { form, option: "top_k", why })?;
    let axes = window.axes(&place, [layers, top_k as usize])?;
    if ids != axes.num_ids() {
        let why = format!("{ids} counts a layer, expected {}", axes.num_ids());
        return Err(ImportError::sample(&place, "logical_count", why));
    }
    let mut logical = vec![0u64; axes.moe.len() * axes.plan.experts];
    for (index, counts) in counts.chunks_exact(ids).enumerate() {
        let layer = axes.moe.iter().position(|&layer| layer == index);
        for (id, &count) in counts.iter().enumerate() {
            let count = u32::try_from(count).map(u64::from).map_err(|_| {
                let why = format!("{count} routes: expected 0 to {}", u32::MAX);
                ImportError::sample(&place, format!("layer {index}, expert {id}"), why)
            })?;
            match layer {
                None if count > 0 => {
                    let (place, value) = (place.clone(), id as i64);
                    return Err(ImportError::DenseRouted { place, row: 0, layer: index, value });
                }
                None => {}
                Some(layer) => {
                    let expert = match &axes.plan.phys2log {
                        Some(map) => usize::from(map[layer * ids + id]),
                        None => id,
                    };
                    logical[layer * axes.plan.experts + expert] += count;
                }
            }
        }
    }
    let sums = logical.chunks_exact(axes.plan.experts).map(|counts| counts.iter().sum::<u64>());
    let total = sums.clone().next().unwrap_or(0);
    let rows = total / u64::from(top_k);
    for ((&layer, sum), counts) in axes.moe.iter().zip(sums).zip(logical.chunks_exact(axes.plan.experts)) {
        let most = counts.iter().copied().max().unwrap_or(0);
        if sum != total || sum % u64::from(top_k) != 0 || most > rows || u32::try_from(rows).is_err() {
            let expected = format!(
                "{total} as in the first layer, a multiple of top_k = {top_k}, no count above {rows} rows"
            );
            return Err(ImportError::CountSum { place, layer, sum, expected });
        }
    }
    if rows > 0 {
        let counts: Vec<u32> = logical.iter().map(|&count| count as u32).collect();
        let facts = Facts { length: rows as u32, ..Facts::default() };
        window.add_counts(facts, rows as u32, &counts);
    }
    Ok(())
}
