//! Options are data: read from TOML-like text, unknown keys refused.

#![allow(clippy::unwrap_used)]

use routepack_anneal::{Ladder, Options, Start};

#[test]
fn defaults_are_valid_and_survive_a_round_trip() {
    let options = Options::default();
    options.validate().unwrap();
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), options);
    assert_eq!(serde_json::from_str::<Options>("{}").unwrap(), options);
}

#[test]
fn every_ladder_can_be_written() {
    let text = r#"{"ladder": {"kind": "linear-beta", "from": 0.0, "to": 2.5}, "start": "equilibrium", "culling": 0.1}"#;
    let options: Options = serde_json::from_str(text).unwrap();
    assert_eq!(options.ladder, Ladder::LinearBeta { from: 0.0, to: 2.5 });
    assert_eq!((options.start, options.culling), (Start::Equilibrium, Some(0.1)));
    for ladder in [
        r#"{"kind": "geometric", "hottest": 9.0, "coldest": 0.5}"#,
        r#"{"kind": "measured", "hot_acceptance": 0.4, "cold_acceptance": 0.01}"#,
    ] {
        serde_json::from_str::<Ladder>(ladder).unwrap().validate().unwrap();
    }
}

#[test]
fn unknown_keys_are_refused() {
    for text in [
        r#"{"populatoin": 3}"#,
        r#"{"ladder": {"kind": "geometric", "hottest": 9.0, "coldest": 0.5, "rungs": 3}}"#,
        r#"{"ladder": {"kind": "cubic"}}"#,
        r#"{"start": "hot"}"#,
        r#"{"population": -1}"#,
    ] {
        assert!(serde_json::from_str::<Options>(text).is_err(), "{text}");
    }
}

#[test]
fn the_schema_names_every_option() {
    let schema = serde_json::to_value(schemars::schema_for!(Options)).unwrap();
    let options = serde_json::to_value(Options::default()).unwrap();
    for name in options.as_object().unwrap().keys() {
        assert!(schema["properties"][name]["description"].is_string(), "{name}");
    }
}
