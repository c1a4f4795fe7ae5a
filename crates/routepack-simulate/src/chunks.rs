//! Which layers of the model every pipeline chunk runs.
//!
//! S stages of V chunks; chunk c = v·S + s is the v-th of stage s, and a token meets chunks in the order of c. `MoE`
//! layers lie on the stages that the topology says, dense ones before all others on the first. Where every stage has one
//! run of layers it is cut into V equal parts; where some have several, and none more than V, the v-th run of a stage is
//! its v-th chunk, as Megatron interleaves and as expert state is moved. More runs than chunks are no interleaving: a
//! stage's layers in order are then cut into V equal parts. O(L + S·V).

/// The layers of every chunk, ascending, `[chunks]`.
///
/// `layer_stage`: the stage of every `MoE` layer; these come after `dense` other layers.
pub(crate) fn chunks(layer_stage: &[u32], stages: usize, parts: usize, dense: usize) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<Vec<usize>>> = vec![Vec::new(); stages];
    for (layer, &stage) in layer_stage.iter().enumerate() {
        let of_stage = &mut runs[stage as usize];
        if layer == 0 || layer_stage[layer - 1] != stage {
            of_stage.push(Vec::new());
        }
        of_stage.last_mut().expect("a run has begun").push(dense + layer);
    }
    match runs[0].first_mut() {
        Some(first) => drop(first.splice(0..0, 0..dense)),
        None => runs[0].push((0..dense).collect()),
    }
    let most = runs.iter().map(Vec::len).max().unwrap_or(0);
    let interleaved = (2..=parts).contains(&most);
    let mut chunks = vec![Vec::new(); stages * parts];
    for (stage, runs) in runs.into_iter().enumerate() {
        if interleaved {
            for (part, run) in runs.into_iter().enumerate() {
                chunks[part * stages + stage] = run;
            }
        } else {
            let layers = runs.concat();
            for part in 0..parts {
                let cut = |part: usize| layers.len() * part / parts;
                chunks[part * stages + stage] = layers[cut(part)..cut(part + 1)].to_vec();
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_a_stage_is_cut_evenly() {
        assert_eq!(chunks(&[0, 0, 1, 1, 1], 2, 1, 1), [vec![0, 1, 2], vec![3, 4, 5]]);
        assert_eq!(chunks(&[0, 0, 0, 1, 1], 2, 2, 1), [vec![0, 1], vec![4], vec![2, 3], vec![5]]);
        assert_eq!(chunks(&[0, 0], 3, 1, 0), [vec![0, 1], vec![], vec![]]);
        assert_eq!(chunks(&[1, 1], 2, 1, 1), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn a_stage_keeps_its_layers_wherever_they_lie() {
        assert_eq!(chunks(&[0, 1, 1, 0, 0, 1], 2, 1, 0), [vec![0, 3, 4], vec![1, 2, 5]]);
        assert_eq!(chunks(&[1, 1, 1, 0, 0, 0], 2, 1, 0), [vec![3, 4, 5], vec![0, 1, 2]]);
        assert_eq!(chunks(&[1, 1, 0], 2, 1, 2), [vec![0, 1, 4], vec![2, 3]]);
        // Three runs of stage 0 are more than two chunks.
        assert_eq!(chunks(&[0, 1, 0, 1, 0], 2, 2, 0), [vec![0], vec![1], vec![2, 4], vec![3]]);
    }

    #[test]
    fn runs_are_chunks_where_a_stage_has_several() {
        assert_eq!(chunks(&[0, 0, 1, 0, 1, 1], 2, 2, 1), [vec![0, 1, 2], vec![3], vec![4], vec![5, 6]]);
        assert_eq!(chunks(&[0, 0, 1, 1, 1, 0], 2, 2, 0), [vec![0, 1], vec![2, 3, 4], vec![5], vec![]]);
    }
}
