//! The `routepack` command.

fn main() {}
