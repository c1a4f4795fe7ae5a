//! Linear and integer programs as data, solved by HiGHS or a pure-Rust stand-in.
