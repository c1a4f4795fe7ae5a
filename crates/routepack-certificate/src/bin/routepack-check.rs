//! Checks a certificate.

fn main() {}
