//! Reference arms: what trainers do today.
