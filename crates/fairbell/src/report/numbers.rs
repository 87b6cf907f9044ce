//! Numbers as people read them: digit groups, microseconds, lots, percentages.

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds as microseconds with one decimal: `1,234.5`.
pub fn micros(ns: u64) -> String {
    let tenths = ns.saturating_add(50) / 100;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}

/// Nanoseconds as seconds with one decimal.
pub fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// A share of 0 to 1 as a percentage; never `100.00` unless it is all.
pub fn percent(share: f64) -> String {
    let hundredths = share * 10_000.0;
    let shown = if share < 1.0 { hundredths.round().min(9_999.0) } else { 10_000.0 };
    format!("{:.2} %", shown / 100.0)
}

/// Lots of 10^-`decimals` as units, trailing zeros cut: `1.5`.
pub fn lots(lots: u64, decimals: u8) -> String {
    let scale = 10u64.saturating_pow(decimals.into());
    let part = format!("{:0width$}", lots % scale, width = decimals.into());
    let part = if decimals == 0 { "" } else { part.trim_end_matches('0') };
    let whole = grouped(lots / scale);
    if part.is_empty() { whole } else { format!("{whole}.{part}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(micros(1_234_549), "1,234.5");
        assert_eq!(micros(u64::MAX), "18,446,744,073,709,551.6");
        assert_eq!(lots(150_000_000, 8), "1.5");
        assert_eq!(lots(7, 0), "7");
        assert_eq!(lots(1, 8), "0.00000001");
    }

    #[test]
    fn almost_all_is_not_all() {
        assert_eq!(percent(0.999_999), "99.99 %");
        assert_eq!(percent(1.0), "100.00 %");
        assert_eq!(percent(0.0), "0.00 %");
        assert_eq!(percent(f64::NAN), "100.00 %");
    }
}
