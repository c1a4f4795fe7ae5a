//! Generators and oracles shared by the tests.
