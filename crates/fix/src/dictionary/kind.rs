//! Data types of FIX and the form of their values.

use crate::value;

/// Data type of a field: the form that its values must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any text; also every data type that is not listed here.
    String,
    /// A whole number, with an optional minus sign.
    Int,
    /// A whole number without a sign: lengths, sequence numbers, tags.
    Count,
    /// A whole number that counts the instances of a group.
    NumInGroup,
    /// A decimal number: quantities, prices, amounts, percentages.
    Decimal,
    /// Exactly one character.
    Char,
    /// `Y` or `N`.
    Boolean,
    /// A date and time of day, UTC (UTCTimestamp).
    UtcTimestamp,
    /// A time of day, UTC (UTCTimeOnly).
    UtcTime,
    /// A date, UTC or local, as YYYYMMDD.
    Date,
    /// A month, with day or week: YYYYMM, YYYYMMDD or YYYYMMwN.
    MonthYear,
    /// A day of a month: 1 to 31.
    DayOfMonth,
    /// Words separated by blanks, each one of the field's listed values.
    Words,
    /// Bytes, the number of which is the value of the field before it.
    Data,
}

impl Kind {
    /// The data type with the name that dictionaries use, of any FIX version.
    pub fn of(name: &str) -> Kind {
        match name {
            "INT" => Kind::Int,
            "LENGTH" | "SEQNUM" | "TAGNUM" => Kind::Count,
            "NUMINGROUP" => Kind::NumInGroup,
            "QTY" | "QUANTITY" | "PRICE" | "PRICEOFFSET" | "AMT" | "FLOAT" | "PERCENTAGE" => {
                Kind::Decimal
            }
            "CHAR" => Kind::Char,
            "BOOLEAN" => Kind::Boolean,
            "UTCTIMESTAMP" | "TIME" => Kind::UtcTimestamp,
            "UTCTIMEONLY" => Kind::UtcTime,
            "UTCDATE" | "UTCDATEONLY" | "LOCALMKTDATE" | "DATE" => Kind::Date,
            "MONTHYEAR" => Kind::MonthYear,
            "DAYOFMONTH" => Kind::DayOfMonth,
            "MULTIPLEVALUESTRING" | "MULTIPLECHARVALUE" | "MULTIPLESTRINGVALUE" => Kind::Words,
            "DATA" | "XMLDATA" => Kind::Data,
            _ => Kind::String,
        }
    }

    /// Name of the type in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "String",
            Kind::Int => "int",
            Kind::Count => "int, not negative",
            Kind::NumInGroup => "NumInGroup",
            Kind::Decimal => "decimal",
            Kind::Char => "char",
            Kind::Boolean => "Boolean",
            Kind::UtcTimestamp => "UTCTimestamp",
            Kind::UtcTime => "UTCTimeOnly",
            Kind::Date => "date",
            Kind::MonthYear => "MonthYear",
            Kind::DayOfMonth => "DayOfMonth",
            Kind::Words => "words",
            Kind::Data => "data",
        }
    }

    /// Whether `text`, which is not empty, has the form of this type.
    pub fn admits(self, text: &[u8]) -> bool {
        match self {
            Kind::String | Kind::Words | Kind::Data => true,
            Kind::Int => value::int(text).is_some(),
            Kind::Count | Kind::NumInGroup => value::uint(text).is_some(),
            Kind::Decimal => decimal(text),
            Kind::Char => text.len() == 1,
            Kind::Boolean => value::boolean(text).is_some(),
            Kind::UtcTimestamp => value::timestamp(text).is_some(),
            Kind::UtcTime => value::time_of_day(text).is_some(),
            Kind::Date => value::date(text).is_some(),
            Kind::MonthYear => month_year(text),
            Kind::DayOfMonth => value::uint(text).is_some_and(|day| (1..=31).contains(&day)),
        }
    }
}

/// Digits with at most one point among them and at most one sign before them.
#[inline]
pub(super) fn decimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let mut points = 0;
    for &byte in digits {
        if byte == b'.' {
            points += 1;
        } else if byte.wrapping_sub(b'0') > 9 {
            return false;
        }
    }
    points <= 1 && digits.len() > points
}

fn month_year(text: &[u8]) -> bool {
    let month = |text: &[u8]| {
        value::uint(text).is_some_and(|month| (197_001..=999_912).contains(&month))
            && value::uint(&text[4..]).is_some_and(|month| (1..=12).contains(&month))
    };
    match text {
        [yyyymm @ .., b'w', b'1'..=b'5'] if yyyymm.len() == 6 => month(yyyymm),
        text if text.len() == 6 => month(text),
        text => value::date(text).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn each_type_refuses_what_is_not_of_it() {
        let cases: &[(Kind, &str, &str)] = &[
            (Kind::Int, "-5", "5.0"),
            (Kind::Count, "5", "-5"),
            (Kind::NumInGroup, "0", "x"),
            (Kind::Decimal, "-002000.00", "+200.00"),
            (Kind::Decimal, ".5", "."),
            (Kind::Char, "x", "xy"),
            (Kind::Boolean, "Y", "y"),
            (Kind::UtcTimestamp, "20040415-00:00:00", "20040415"),
            (Kind::UtcTime, "23:59:59.999", "24:00:00"),
            (Kind::Date, "20240229", "20230229"),
            (Kind::MonthYear, "202412w5", "202413"),
            (Kind::DayOfMonth, "31", "32"),
        ];
        for &(kind, good, bad) in cases {
            assert!(kind.admits(good.as_bytes()), "{kind:?} {good}");
            assert!(!kind.admits(bad.as_bytes()), "{kind:?} {bad}");
        }
        assert_eq!(Kind::of("SOMETHINGNEW"), Kind::String);
    }
}
