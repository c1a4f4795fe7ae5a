//! Lets `target/release/routepack` find a prebuilt HiGHS in `target/highs/lib`, where `setup.sh` puts it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if linux && std::env::var_os("CARGO_FEATURE_HIGHS").is_some() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../highs/lib");
    }
}
