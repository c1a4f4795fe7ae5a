//! Nouns of expert placement and sample packing for MoE training, and the exact objective from scratch.
