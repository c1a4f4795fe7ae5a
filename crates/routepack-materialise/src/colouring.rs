//! Edge colouring of a bipartite multigraph with as many colours as its largest degree.
//!
//! Problem: colour edges so that no two at one vertex share a colour, with the fewest colours; senders on the left,
//! receivers on the right, a colour is a round. Δ colours are necessary at a vertex of degree Δ, and suffice.
//! Method: edges one after another. For edge (u, v) take the least colour a free at u and b free at v; if a is not free
//! at v, swap a and b along the path that starts at v with a: it cannot reach u, since it would have to arrive at the
//! left on an edge coloured a, which u has not. Then colour the edge a.
//! Complexity: O(E·(V + Δ)) for E edges, V vertices. Deterministic.
//! Reference: D. König, Über Graphen und ihre Anwendung auf Determinantentheorie und Mengenlehre, Math. Annalen 77,
//! 1916, doi 10.1007/BF01456961. Faster in theory: R. Cole, K. Ost and S. Schirra, Combinatorica 21, 2001,
//! doi 10.1007/s004930170002; not needed here.

/// No edge.
const NONE: usize = usize::MAX;

/// The colour of every edge (left, right), `0..Δ`.
pub(crate) fn colour_edges(num_left: usize, num_right: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let num_colours = largest_degree(num_left, num_right, edges);
    let mut left = vec![vec![NONE; num_colours]; num_left];
    let mut right = vec![vec![NONE; num_colours]; num_right];
    let mut colours = vec![NONE; edges.len()];
    let free = |at: &[usize]| at.iter().position(|&edge| edge == NONE).expect("fewer edges than colours");
    for (edge, &(u, v)) in edges.iter().enumerate() {
        let (a, b) = (free(&left[u]), free(&right[v]));
        if right[v][a] != NONE {
            let mut path = Vec::new();
            let (mut next, mut colour, mut at_right) = (right[v][a], a, true);
            while next != NONE {
                path.push(next);
                let (x, y) = edges[next];
                colour = if colour == a { b } else { a };
                next = if at_right { left[x][colour] } else { right[y][colour] };
                at_right = !at_right;
            }
            for &edge in &path {
                let (x, y) = edges[edge];
                (left[x][colours[edge]], right[y][colours[edge]]) = (NONE, NONE);
            }
            for &edge in &path {
                let (x, y) = edges[edge];
                colours[edge] = if colours[edge] == a { b } else { a };
                (left[x][colours[edge]], right[y][colours[edge]]) = (edge, edge);
            }
        }
        colours[edge] = a;
        (left[u][a], right[v][a]) = (edge, edge);
    }
    colours
}

/// Δ: the most edges at one vertex.
pub(crate) fn largest_degree(num_left: usize, num_right: usize, edges: &[(usize, usize)]) -> usize {
    let (mut left, mut right) = (vec![0; num_left], vec![0; num_right]);
    for &(u, v) in edges {
        left[u] += 1;
        right[v] += 1;
    }
    left.into_iter().chain(right).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_many_colours_as_the_largest_degree(
            edges in prop::collection::vec((0usize..6, 0usize..5), 0..60),
        ) {
            let colours = colour_edges(6, 5, &edges);
            let degree = largest_degree(6, 5, &edges);
            prop_assert!(colours.iter().all(|&colour| colour < degree));
            for (i, a) in edges.iter().enumerate() {
                for (j, b) in edges.iter().enumerate().skip(i + 1) {
                    prop_assert!((a.0 != b.0 && a.1 != b.1) || colours[i] != colours[j]);
                }
            }
        }
    }

    #[test]
    fn paths_are_swapped() {
        // The first free colours leave none in common for the last edge.
        let edges = [(0, 0), (1, 1), (0, 1), (1, 2), (2, 2), (2, 0)];
        let mut colours = colour_edges(3, 3, &edges);
        colours.sort_unstable();
        assert_eq!(colours, [0, 0, 0, 1, 1, 1]);
    }
}
