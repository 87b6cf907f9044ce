//! The report's plots as SVG text: latency by receiver, delivery window over time, book depth.
//!
//! Input is plain points; what lies outside a plot's range is clipped to its edge, and a plot
//! without points is left out. Colours are meant for a white page.

use plotters::coord::Shift;
use plotters::prelude::*;

/// What the plots show.
#[derive(Clone, Debug, Default)]
pub struct PlotData {
    /// Latency from t_sent to release, one curve per receiver.
    pub release: Vec<Curve>,
    /// The delivery window, slice by slice, in order of time.
    pub windows: Vec<WindowPoint>,
    /// Books at the end of the run.
    pub depth: Vec<Depth>,
}

/// A cumulative distribution.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Whose.
    pub name: String,
    /// (nanoseconds, share of values at or below, 0 to 1), both ascending.
    pub points: Vec<(u64, f64)>,
}

/// The delivery window of the datagrams of one slice of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowPoint {
    /// Middle of the slice since play started.
    pub at_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest value, ns.
    pub max_ns: u64,
}

/// A displayed book by price level.
#[derive(Clone, Debug, Default)]
pub struct Depth {
    /// Which book.
    pub symbol: String,
    /// (price, quantity) in whole units, best first.
    pub bids: Vec<(f64, f64)>,
    /// (price, quantity) in whole units, best first.
    pub asks: Vec<(f64, f64)>,
}

/// Price levels of a side that set the range of the depth plot.
const DEPTH_LEVELS: usize = 150;
/// Curves with a legend; more are drawn without.
const LEGEND_MAX: usize = 12;
/// Left end of a logarithmic axis of time: a hundred nanoseconds.
const MICROS_MIN: f64 = 0.1;

const INK: RGBColor = RGBColor(0x33, 0x3b, 0x47);
const GRID: RGBColor = RGBColor(0xe4, 0xe8, 0xee);
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xd6);
const ORANGE: RGBColor = RGBColor(0xe0, 0x7b, 0x1a);
const GREEN: RGBColor = RGBColor(0x1d, 0x93, 0x5c);
const RED: RGBColor = RGBColor(0xc8, 0x3b, 0x3b);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Latency from t_sent to release, a curve per receiver.
pub fn release(curves: &[Curve]) -> Option<String> {
    let curves: Vec<&Curve> = curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    let points = || curves.iter().flat_map(|curve| &curve.points).map(|(ns, _)| micros(*ns));
    let least = points().fold(f64::INFINITY, f64::min);
    let most = points().fold(MICROS_MIN, f64::max);
    let first = *curves.first()?;
    svg((960, 380), |area| {
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(30)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d((least * 0.9..most * 1.1).log_scale(), 0.0..1.02)?;
        chart
            .configure_mesh()
            .x_desc("from t_sent to release, us")
            .y_desc("share of datagrams")
            .x_label_formatter(&|x| log_number(*x, most / least))
            .y_label_formatter(&|y| format!("{:.0} %", y * 100.0))
            .label_style(text())
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (index, curve) in curves.iter().enumerate() {
            let colour = shade(index, curves.len());
            let start = curve.points.first().map(|(ns, _)| (micros(*ns), 0.0));
            let points = curve.points.iter().map(|(ns, share)| (micros(*ns), *share));
            let line =
                LineSeries::new(steps(start.into_iter().chain(points)), colour.stroke_width(2));
            let series = chart.draw_series(line)?;
            if curves.len() <= LEGEND_MAX {
                series.label(&curve.name).legend(move |at| key(at, colour));
            }
        }
        if curves.len() <= LEGEND_MAX && !first.name.is_empty() {
            legend(&mut chart, SeriesLabelPosition::LowerRight)?;
        }
        Ok(())
    })
}

/// The delivery window over time: median, 99th percentile, largest.
pub fn windows(points: &[WindowPoint]) -> Option<String> {
    let (first, last) = (points.first()?, points.last()?);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let most = points.iter().map(|point| micros(point.max_ns)).fold(1.0, f64::max);
    let range = seconds(first.at_ns)..seconds(last.at_ns).max(seconds(first.at_ns) + 0.001);
    svg((960, 340), |area| {
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(30)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(range, (MICROS_MIN..most * 6.0).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("time of play, s")
            .y_desc("delivery window, us")
            .x_label_formatter(&|x| axis_number(*x))
            .y_label_formatter(&|y| axis_number(*y))
            .label_style(text())
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        let series = [("largest", RGBColor(0xb4, 0xbc, 0xc8)), ("p99", ORANGE), ("p50", BLUE)];
        for (index, (name, colour)) in series.into_iter().enumerate() {
            let value = |point: &WindowPoint| [point.max_ns, point.p99_ns, point.p50_ns][index];
            let line = points.iter().map(|point| (seconds(point.at_ns), micros(value(point))));
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
                .label(name)
                .legend(move |at| key(at, colour));
        }
        legend(&mut chart, SeriesLabelPosition::UpperRight)
    })
}

/// The quantity up to each price on both sides of a book, around the best prices.
pub fn depth(book: &Depth) -> Option<String> {
    let side = |levels: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let sum = |total: &mut f64, &(price, qty): &(f64, f64)| {
            *total += qty;
            Some((price, *total))
        };
        levels.iter().scan(0.0, sum).collect()
    };
    let (bids, asks) = (side(&book.bids), side(&book.asks));
    let (best_bid, best_ask) = (bids.first().or(asks.first())?.0, asks.first().or(bids.first())?.0);
    let middle = (best_bid + best_ask) / 2.0;
    let reach = [&bids, &asks]
        .iter()
        .filter_map(|side| side.get(DEPTH_LEVELS.min(side.len()).checked_sub(1)?))
        .map(|(price, _)| (price - middle).abs())
        .fold(middle.abs() * 1e-6, f64::max);
    let range = middle - reach..middle + reach;
    let inside = |side: &[(f64, f64)]| -> Vec<(f64, f64)> {
        side.iter().copied().take_while(|(price, _)| range.contains(price)).collect()
    };
    let (bids, asks) = (inside(&bids), inside(&asks));
    let most = bids.last().map_or(0.0, |b| b.1).max(asks.last().map_or(0.0, |a| a.1)).max(1e-9);
    svg((960, 320), |area| {
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(30)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(range.clone(), 0.0..most * 1.05)?;
        chart
            .configure_mesh()
            .x_desc("price")
            .y_desc("quantity up to this price")
            .x_label_formatter(&|x| axis_number(*x))
            .y_label_formatter(&|y| axis_number(*y))
            .label_style(text())
            .axis_style(INK)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (name, colour, side, edge) in
            [("bids", GREEN, bids, range.start), ("offers", RED, asks, range.end)]
        {
            let start = side.first().map(|(price, _)| (*price, 0.0));
            let end = side.last().map(|(_, total)| (edge, *total));
            let line: Vec<(f64, f64)> = steps(start.into_iter().chain(side).chain(end)).collect();
            chart
                .draw_series(
                    AreaSeries::new(line, 0.0, colour.mix(0.18))
                        .border_style(colour.stroke_width(2)),
                )?
                .label(name)
                .legend(move |at| key(at, colour));
        }
        legend(&mut chart, SeriesLabelPosition::UpperMiddle)
    })
}

/// Draws into a fresh SVG; drawing into memory has no reason to fail, and a plot that did would be
/// left out.
fn svg(size: (u32, u32), draw: impl FnOnce(Area<'_>) -> Drawn) -> Option<String> {
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, size).into_drawing_area();
        draw(area.clone()).ok()?;
        area.present().ok()?;
    }
    Some(out)
}

fn legend<'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, C>,
    position: SeriesLabelPosition,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font(text())
        .draw()
}

fn key(at: (i32, i32), colour: RGBColor) -> PathElement<(i32, i32)> {
    PathElement::new([(at.0, at.1), (at.0 + 16, at.1)], colour.stroke_width(3))
}

fn text() -> TextStyle<'static> {
    ("sans-serif", 13).with_color(INK).into_text_style(&(1, 1))
}

/// Each value holds until the next one: corners instead of slopes.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    let mut before: Option<f64> = None;
    points.flat_map(move |(x, y)| {
        let corner = before.replace(y).map(|y| (x, y));
        corner.into_iter().chain([(x, y)])
    })
}

fn micros(ns: u64) -> f64 {
    (ns as f64 / 1e3).max(MICROS_MIN)
}

/// Blue to teal to orange over the receivers.
fn shade(index: usize, of: usize) -> RGBColor {
    let stops = [(0x1f, 0x4e, 0xb4), (0x17, 0xa2, 0xa2), (0xe0, 0x8a, 0x1a), (0xb8, 0x3a, 0x6e)];
    let at = index as f64 / (of.max(2) - 1) as f64 * (stops.len() - 1) as f64;
    let low = (at as usize).min(stops.len() - 2);
    let mix = |a: i32, b: i32| (f64::from(a) + f64::from(b - a) * (at - low as f64)).round() as u8;
    let (a, b) = (stops[low], stops[low + 1]);
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// On a logarithmic axis of more than a few steps only 1, 2 and 5 times a power of ten have room.
fn log_number(x: f64, span: f64) -> String {
    let lead = x / 10f64.powf((x.log10() + 1e-9).floor());
    let room = span < 4.0 || [1.0, 2.0, 5.0].iter().any(|digit| (lead - digit).abs() < 1e-6);
    if room { axis_number(x) } else { String::new() }
}

/// Few digits, thousands grouped, millions as `M`.
fn axis_number(x: f64) -> String {
    let x = if x.abs() < 1e-9 { 0.0 } else { x };
    match x.abs() {
        0.0 => "0".to_string(),
        a if a >= 1e6 => axis_number(x / 1e6) + " M",
        a if a >= 100.0 => {
            let sign = if x < 0.0 { "-" } else { "" };
            format!("{sign}{}", super::numbers::grouped(a.round() as u64))
        }
        a if a >= 1.0 => format!("{x:.2}").trim_end_matches('0').trim_end_matches('.').to_string(),
        _ => format!("{x:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_without_points_are_left_out() {
        assert!(release(&[]).is_none());
        assert!(release(&[Curve::default()]).is_none());
        assert!(windows(&[]).is_none());
        assert!(depth(&Depth::default()).is_none());
    }

    #[test]
    fn odd_points_still_give_a_picture() {
        let zero = Curve { name: "r".into(), points: vec![(0, 1.0)] };
        assert!(release(&[zero]).unwrap().contains("<svg"));
        assert!(windows(&[WindowPoint::default()]).unwrap().contains("<svg"));
        let one_sided = Depth { bids: vec![(5.0, 1.0)], ..Depth::default() };
        assert!(depth(&one_sided).unwrap().contains("<svg"));
    }

    #[test]
    fn many_receivers_have_no_legend() {
        let curve = |n| Curve { name: format!("receiver {n}"), points: vec![(1_000, 1.0)] };
        let few: Vec<Curve> = (1..=3).map(curve).collect();
        let many: Vec<Curve> = (1..=40).map(curve).collect();
        assert!(release(&few).unwrap().contains("receiver 2"));
        assert!(!release(&many).unwrap().contains("receiver 2"));
    }

    #[test]
    fn steps_have_corners() {
        let points: Vec<_> = steps([(1.0, 0.2), (2.0, 0.6)].into_iter()).collect();
        assert_eq!(points, [(1.0, 0.2), (2.0, 0.2), (2.0, 0.6)]);
    }

    #[test]
    fn a_crowded_logarithmic_axis_is_thinned() {
        let shown = [1_000.0, 2_000.0, 3_000.0, 5_000.0, 0.1].map(|x| log_number(x, 100.0));
        assert_eq!(shown, ["1,000", "2,000", "", "5,000", "0.1"]);
        assert_eq!(log_number(3_000.0, 2.0), "3,000");
    }

    #[test]
    fn axis_numbers_are_short() {
        let shown = [0.0, 0.1, 1.5, 12.0, 78_350.0, -250.0, 2.5e9, 1e6].map(axis_number);
        assert_eq!(shown, ["0", "0.1", "1.5", "12", "78,350", "-250", "2,500 M", "1 M"]);
    }
}
