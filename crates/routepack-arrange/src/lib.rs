//! Samples into micro-batches: seeds, moves, annealing, exact programs for small cases.
