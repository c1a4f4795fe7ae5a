//! The recorded axes, resolved: what the shapes say, what the options say, and what the form says, in agreement.

use crate::count_rows::RowPlan;
use crate::{Dtype, Form, Ids, ImportError, ImportOptions, Layers, Place};

/// Most layers on the recorded axis.
const MAX_LAYERS: usize = 1 << 12;

/// Layers and k of all samples, with the plan of a row.
pub(crate) struct Axes {
    /// Layers on the recorded axis.
    pub(crate) recorded: usize,
    /// Recorded positions of the `MoE` layers.
    pub(crate) moe: Vec<usize>,
    pub(crate) top_k: usize,
    /// What to add to a layer in messages: rows of a single layer are counted under axes of their own.
    pub(crate) first_layer: usize,
    pub(crate) plan: RowPlan,
}

impl Axes {
    /// Resolves the axes from the first shape seen; `[layers, k]` as recorded.
    pub(crate) fn resolve(
        form: Form,
        options: &ImportOptions,
        place: &Place,
        [recorded, top_k]: [usize; 2],
    ) -> Result<Self, ImportError> {
        let experts = options.num_experts as usize;
        for (what, found, given) in
            [("layers", recorded, options.num_layers), ("top_k", top_k, options.top_k)]
        {
            if let Some(given) = given.filter(|&given| given as usize != found) {
                return Err(ImportError::sample(
                    place,
                    "shape",
                    format!("{found} {what}, declared are {given}"),
                ));
            }
        }
        if recorded == 0 || recorded > MAX_LAYERS || top_k == 0 || top_k > experts {
            let why = format!(
                "{recorded} layers, k = {top_k}: expected 1 to {MAX_LAYERS} layers, and k from 1 to {experts} experts"
            );
            return Err(ImportError::sample(place, "shape", why));
        }
        let moe: Vec<usize> = match &options.layers {
            Some(Layers::Moe) => (0..recorded).collect(),
            None if form.moe_layers_only() => (0..recorded).collect(),
            None => {
                let why = "does the layer axis hold MoE layers only, or all, and which of them are MoE?";
                return Err(ImportError::Undeclared { form: form.name(), option: "layers", why });
            }
            Some(Layers::All(moe)) => moe.iter().map(|&layer| layer as usize).collect(),
        };
        if let Some(&beyond) = moe.last().filter(|&&last| last >= recorded) {
            return Err(ImportError::option(
                "layers",
                beyond,
                format!("the layer axis has {recorded} layers"),
            ));
        }
        let phys2log = match &options.ids {
            Ids::Logical => None,
            Ids::Physical(map) => Some(flatten(map, moe.len())?),
        };
        let (mut routed, mut dense) = (Vec::new(), Vec::new());
        let mut from = 0;
        while from < recorded {
            let is_moe = moe.contains(&from);
            let end = (from..recorded).find(|layer| moe.contains(layer) != is_moe).unwrap_or(recorded);
            if is_moe { &mut routed } else { &mut dense }.push(from * top_k..end * top_k);
            from = end;
        }
        let plan = RowPlan { top_k, experts, row_ids: recorded * top_k, routed, dense, phys2log };
        Ok(Self { recorded, moe, top_k, first_layer: 0, plan })
    }

    /// The axes of a single layer: the `index`th of the `MoE` layers.
    pub(crate) fn single(&self, index: usize) -> Self {
        let top_k = self.top_k;
        let slots = self.num_ids();
        let plan = RowPlan {
            top_k,
            experts: self.plan.experts,
            row_ids: top_k,
            routed: std::iter::once(0..top_k).collect(),
            dense: Vec::new(),
            phys2log: self.plan.phys2log.as_ref().map(|map| map[index * slots..(index + 1) * slots].to_vec()),
        };
        Self { recorded: 1, moe: vec![0], top_k, first_layer: self.moe[index], plan }
    }

    /// Ids there are: experts, or slots where ids are physical.
    pub(crate) fn num_ids(&self) -> usize {
        self.plan.phys2log.as_ref().map_or(self.plan.experts, |map| map.len() / self.moe.len())
    }

    /// Checks that ids of this type cannot have wrapped.
    pub(crate) fn check_dtype(&self, dtype: Dtype, place: &Place) -> Result<(), ImportError> {
        if dtype.largest() >= self.num_ids() as u64 - 1 {
            return Ok(());
        }
        Err(ImportError::NarrowType {
            place: place.clone(),
            dtype: dtype.name(),
            largest: dtype.largest(),
            experts: self.num_ids(),
        })
    }
}

fn flatten(map: &[Vec<u32>], layers: usize) -> Result<Vec<u16>, ImportError> {
    let slots = map.first().map_or(0, Vec::len);
    if map.len() != layers || map.iter().any(|layer| layer.len() != slots) {
        let value = format!("{} layers", map.len());
        return Err(ImportError::option(
            "phys2log",
            value,
            format!("expected {layers} MoE layers of equal slots"),
        ));
    }
    Ok(map.iter().flatten().map(|&expert| expert as u16).collect())
}
