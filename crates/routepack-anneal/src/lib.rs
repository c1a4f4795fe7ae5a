//! Population annealing of any system, deterministic for a seed whatever the number of threads.
