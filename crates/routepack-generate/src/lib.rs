//! Realistic windows and bin-packing instances, deterministic for a seed.
