//! Fewest bins, always with a certificate.
