//! Plans the optimizer step of MoE reinforcement-learning training, and proves what it claims.
