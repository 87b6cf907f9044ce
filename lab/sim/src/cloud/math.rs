//! Logarithm, exponential and normal quantile from the four basic operations and `sqrt` alone.
//!
//! Those five are exactly rounded by IEEE 754, and Rust neither fuses nor reorders them, so a seed
//! gives the same delays, to the bit, on every machine. The standard library's `ln` and `exp` come
//! from the platform and may differ in the last place.

/// Natural logarithm of 2.
const LN_2: f64 = std::f64::consts::LN_2;

/// Natural logarithm of a normal number above 0; 0 and below give negative infinity.
pub fn ln(x: f64) -> f64 {
    if x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7FF) as i64 - 1_023;
    let mut mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 0x3FF0_0000_0000_0000);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is below 0.172, so 12 terms are plenty.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for term in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * term + 1);
    }
    exponent as f64 * LN_2 + 2.0 * t * sum
}

/// Exponential, for arguments within ±700.
pub fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let halves = x / LN_2;
    let whole = (if halves < 0.0 { halves - 0.5 } else { halves + 0.5 }) as i64;
    let rest = x - whole as f64 * LN_2;
    // |rest| is at most 0.347: 16 terms of the series reach the last place.
    let mut sum = 1.0;
    for term in (1..16).rev() {
        sum = 1.0 + rest / f64::from(term) * sum;
    }
    sum * f64::from_bits(((whole + 1_023) as u64) << 52)
}

/// `base` to the power of `exponent`, for a base above 0.
pub fn pow(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

fn horner(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Quantile of the standard normal distribution: the rational approximations AS 241 of Wichura
/// (1988), about 16 digits. `p` is kept away from 0 and 1 by 1e-300.
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if (-0.425..=0.425).contains(&q) {
        let r = 0.180_625 - q * q;
        return q * horner(&CENTRE.0, r) / horner(&CENTRE.1, r);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = (-ln(tail.max(1e-300))).sqrt();
    let x = if r <= 5.0 {
        horner(&MIDDLE.0, r - 1.6) / horner(&MIDDLE.1, r - 1.6)
    } else {
        horner(&FAR.0, r - 5.0) / horner(&FAR.1, r - 5.0)
    };
    if q < 0.0 { -x } else { x }
}

type Ratio = ([f64; 8], [f64; 8]);

const CENTRE: Ratio = (
    [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_66e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
);
const MIDDLE: Ratio = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);
const FAR: Ratio = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library_to_fourteen_digits() {
        for step in 1..2_000 {
            let x = f64::from(step) * 0.37 - 300.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "exp {x}");
            let y = x.abs() + 1e-9;
            assert!((ln(y) - y.ln()).abs() < 1e-14 * (1.0 + y.ln().abs()), "ln {y}");
        }
        assert!((pow(10.0, 0.5) - 10f64.sqrt()).abs() < 1e-13);
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
    }

    #[test]
    fn normal_quantiles_match_published_ones() {
        let known = [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_081_7),
            (0.95, 1.644_853_626_951_472_7),
            (0.995, 2.575_829_303_548_900_4),
            (1e-6, -4.753_424_308_822_899),
            (1e-20, -9.262_340_089_798_409),
        ];
        for (p, z) in known {
            assert!((normal_quantile(p) - z).abs() < 1e-12, "{p}: {}", normal_quantile(p));
            if p > 1e-7 {
                assert!((normal_quantile(1.0 - p) + z).abs() < 1e-9, "{p}");
            }
        }
    }
}
