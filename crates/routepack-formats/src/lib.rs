//! Files to nouns and back: npz, JSON, TOML, text, schemas.
