//! Sizes as Kubernetes writes them.

/// The number of bytes of a quantity such as `1Gi` or `500M`; none if it is not one.
pub fn bytes(quantity: &str) -> Option<f64> {
    let split = quantity
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(split);
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_and_decimal_units_differ() {
        assert_eq!(bytes("1Gi"), Some(1_073_741_824.0));
        assert_eq!(bytes("1.5G"), Some(1_500_000_000.0));
        assert_eq!(bytes("5 apples"), None);
    }
}
