//! Incremental loads, peaks and their deltas: the hot kernels of layout search.
