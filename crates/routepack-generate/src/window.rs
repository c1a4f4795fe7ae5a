//! Windows from a recipe: lengths, groups, routes, and the job that belongs to them.

use routepack_anneal::stream::Stream;
use routepack_problem::{Batch, ExpertCounts, SampleIds, Setting};

use crate::knife_edge::{Edge, plant};
use crate::lengths::Prompt;
use crate::routing::{Popularity, Routed};
use crate::{GenerateError, WindowRecipe};

/// Which child of the seed's stream serves what; numbers never change.
mod branch {
    pub(super) const LENGTHS: u64 = 1;
    pub(super) const DOMAIN_LENGTHS: u64 = 2;
    pub(super) const KNIFE_EDGE: u64 = 3;
    pub(super) const POPULARITY: u64 = 4;
    pub(super) const DRIFT: u64 = 5;
    pub(super) const ROUTES: u64 = 6;
}

/// A window and its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The samples of all steps, step by step, prompt by prompt.
    pub batch: Batch,
    /// The job the recipe gives with them.
    pub setting: Setting,
}

/// The window of a recipe and seed.
///
/// Samples come with `loss_tokens` (the response), `prompt_ids`, `sample_ids` (prompt · 1000 + number of the response),
/// with `step` if there are several steps, and with counts and `routed_rows` if the recipe has routing. The same recipe
/// and seed give the same window on every machine and for every number of threads.
///
/// # Errors
/// A field of the recipe out of its range, or no window at the knife edge within the attempts.
pub fn window(recipe: &WindowRecipe, seed: u64) -> Result<Generated, GenerateError> {
    recipe.validate()?;
    let stream = Stream::new(seed);
    let mut steps = Vec::new();
    for step in 0..recipe.steps {
        steps.push(match &recipe.knife_edge {
            Some(_) => prompts_at_the_edge(recipe, step, &stream)?,
            None => prompts(recipe, step, &stream),
        });
    }
    let mut batch = Batch::default();
    let (mut loss_tokens, mut prompt_ids, mut sample_ids, mut step_of) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let numbered =
        steps.iter().enumerate().flat_map(|(step, prompts)| prompts.iter().map(move |p| (step, p)));
    for (id, (step, prompt)) in numbered.enumerate() {
        for (response, &total) in prompt.totals.iter().enumerate() {
            batch.lengths.push(total);
            loss_tokens.push(total - prompt.prompt);
            prompt_ids.push(id as i64);
            sample_ids.push(id as i64 * 1000 + response as i64);
            step_of.push(step as i64);
        }
    }
    batch.loss_tokens = Some(loss_tokens);
    batch.prompt_ids = Some(prompt_ids);
    batch.sample_ids = Some(SampleIds::Integers(sample_ids));
    batch.step = (recipe.steps > 1).then_some(step_of);
    route(recipe, &steps, &stream, &mut batch)?;
    batch.check(recipe.setting.routing.top_k)?;
    Ok(Generated { batch, setting: recipe.setting.clone() })
}

/// The prompts of one step.
fn prompts(recipe: &WindowRecipe, step: u32, stream: &Stream) -> Vec<Prompt> {
    let lengths = stream.child(branch::LENGTHS).child(u64::from(step));
    (0..recipe.prompts)
        .map(|prompt| {
            let domain = u64::from(prompt % recipe.domains);
            let shift = recipe.lengths.domain_shift(&mut stream.child(branch::DOMAIN_LENGTHS).child(domain));
            recipe.lengths.draw(recipe.group, shift, &mut lengths.child(u64::from(prompt)))
        })
        .collect()
}

/// The prompts of one step whose samples fill the cells: lengths are drawn one by one, then put into random order and
/// dealt to prompts, the last of which may be short of samples.
fn prompts_at_the_edge(
    recipe: &WindowRecipe,
    step: u32,
    stream: &Stream,
) -> Result<Vec<Prompt>, GenerateError> {
    let Some(edge) = &recipe.knife_edge else { return Ok(Vec::new()) };
    let packing = &recipe.setting.packing;
    let edge = Edge {
        recipe: edge,
        slots: u64::from(recipe.setting.topology.dp),
        capacity: u64::from(packing.cell_capacity()),
        multiple: u64::from(packing.sample_multiple),
    };
    let stream = stream.child(branch::KNIFE_EDGE).child(u64::from(step));
    let mut draw = |stream: &mut Stream| u64::from(recipe.lengths.draw(1, 0.0, stream).totals[0]);
    let mut totals: Vec<u32> = plant(&edge, &mut draw, &stream.child(0))?
        .into_iter()
        .flatten()
        .map(|total| u32::try_from(total).expect("a drawn total is a u32"))
        .collect();
    let mut stream = stream.child(1);
    stream.shuffle(&mut totals);
    Ok(totals
        .chunks(recipe.group as usize)
        .map(|totals| {
            let shortest = totals.iter().copied().min().expect("chunks are not empty");
            let prompt = recipe.lengths.draw(0, 0.0, &mut stream).prompt.min(shortest - 1);
            Prompt { prompt, totals: totals.to_vec() }
        })
        .collect())
}

/// Adds counts and routed rows, if the recipe has routing.
fn route(
    recipe: &WindowRecipe,
    steps: &[Vec<Prompt>],
    stream: &Stream,
    batch: &mut Batch,
) -> Result<(), GenerateError> {
    let Some(routing) = &recipe.routing else { return Ok(()) };
    let (samples, top_k) = (batch.num_samples(), recipe.setting.routing.top_k);
    let (layers, experts) = (routing.layers as usize, routing.experts as usize);
    routing.check_size(samples as u64)?;
    let rows: Vec<u32> = batch.lengths.iter().map(|&length| length - recipe.unrouted_tokens).collect();
    let mut values = vec![0; samples * layers * experts];
    let mut popularity =
        Popularity::draw(routing, recipe.domains as usize, &stream.child(branch::POPULARITY));
    let mut first = 0;
    for (step, prompts) in steps.iter().enumerate() {
        if step > 0 {
            popularity.drift(stream.child(branch::DRIFT).child(step as u64));
        }
        let start = first;
        let routed: Vec<Routed<'_>> = prompts
            .iter()
            .enumerate()
            .map(|(index, prompt)| {
                let rows = &rows[first..first + prompt.totals.len()];
                first += prompt.totals.len();
                Routed { domain: index % recipe.domains as usize, rows }
            })
            .collect();
        popularity.count(
            &routed,
            recipe.group as usize,
            top_k,
            &stream.child(branch::ROUTES).child(step as u64),
            &mut values[start * layers * experts..first * layers * experts],
        );
    }
    batch.expert_counts = Some(ExpertCounts::new([samples, 1, layers, experts], values)?);
    batch.routed_rows = Some(rows);
    Ok(())
}
