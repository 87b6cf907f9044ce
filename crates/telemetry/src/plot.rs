//! Figures of measurements: lines over two linear axes, written as SVG and as PNG.
//!
//! Both come from the same strokes and words, so they show the same; neither needs a font library.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use crate::canvas::{Canvas, INK, PALE};

/// One line of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Points in the order of x.
    pub points: Vec<(f64, f64)>,
}

/// A figure to draw.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// File name without extension.
    pub file: &'static str,
    /// Title above the drawing, one line.
    pub title: String,
    /// Label of the horizontal axis, with its unit.
    pub x: &'static str,
    /// Label of the vertical axis, with its unit.
    pub y: &'static str,
    /// Curves over the same two axes; colours come again after twelve.
    pub curves: Vec<Curve>,
}

const WIDTH: i32 = 960;
const HEIGHT: i32 = 600;
const LEFT: i32 = 90;
const RIGHT: i32 = 30;
const TOP: i32 = 50;
const BOTTOM: i32 = 70;
/// Colours of the lines, in turn; indexes into the canvas's palette after ink, paper and grid.
const COLOURS: [&str; 12] = [
    "#1f5fa8", "#c8492c", "#2f8a4c", "#8a5fb0", "#b98a1d", "#3c9aa8", "#a83c78", "#6b6b6b",
    "#6fa8e6", "#f09a7a", "#8cc63f", "#4b2e1f",
];
/// Height of a curve's row in the legend, and width of the legend.
const ROW: i32 = 18;
const LEGEND: i32 = 330;

/// Writes every figure twice; gives the files.
///
/// # Errors
/// What the file system says.
pub fn write(figures: &[Figure], folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !figures.is_empty() {
        std::fs::create_dir_all(folder)?;
    }
    for figure in figures {
        let drawing = draw(figure);
        for (extension, bytes) in [("svg", svg(&drawing).into_bytes()), ("png", png(&drawing))] {
            let path = folder.join(format!("{}.{extension}", figure.file));
            std::fs::write(&path, bytes)?;
            files.push(path);
        }
    }
    Ok(files)
}

/// A figure as SVG text.
pub fn picture(figure: &Figure) -> String {
    svg(&draw(figure))
}

/// Elements of a figure.
enum Shape {
    /// From, to, colour (`None`: ink), or grid.
    Line((i32, i32), (i32, i32), Stroke),
    /// Words with their left, middle or right end at a point.
    Words(i32, i32, Anchor, String),
}

#[derive(Clone, Copy)]
enum Stroke {
    Ink,
    Grid,
    Curve(usize),
}

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// Round numbers from below `low` to above `high`, five to eleven of them.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let span = (high - low).max(1e-9);
    let power = 10f64.powf((span / 8.0).log10().ceil());
    let step = [0.2, 0.25, 0.5, 1.0].into_iter().map(|part| part * power);
    let step = step.into_iter().find(|step| span / step <= 10.0).unwrap_or(power);
    let first = (low / step).floor();
    (0..=((high / step).ceil() - first) as i64).map(|i| (first + i as f64) * step).collect()
}

fn label(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    // Minus nothing looks odd.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

fn draw(figure: &Figure) -> Vec<Shape> {
    let points = || figure.curves.iter().flat_map(|curve| &curve.points);
    let range = |pick: fn(&(f64, f64)) -> f64| {
        let values = || points().map(pick).filter(|value| value.is_finite());
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (x, mut y) = (range(|p| p.0), range(|p| p.1));
    let mut shapes = Vec::new();
    shapes.push(Shape::Words(WIDTH / 2, 28, Anchor::Middle, figure.title.clone()));
    if x.0 > x.1 {
        return shapes;
    }
    if y.0 > 0.0 && y.0 < 0.5 * y.1 {
        y.0 = 0.0;
    }
    let (xs, ys) = (ticks(x.0, x.1), ticks(y.0, y.1));
    let ends = |ticks: &[f64]| (ticks[0], ticks[ticks.len() - 1].max(ticks[0] + 1e-9));
    let (x, y) = (ends(&xs), ends(&ys));
    let across =
        |value: f64| LEFT + ((value - x.0) / (x.1 - x.0) * f64::from(WIDTH - LEFT - RIGHT)) as i32;
    let up = |value: f64| {
        HEIGHT - BOTTOM - ((value - y.0) / (y.1 - y.0) * f64::from(HEIGHT - TOP - BOTTOM)) as i32
    };
    for tick in &xs {
        let at = across(*tick);
        shapes.push(Shape::Line((at, TOP), (at, HEIGHT - BOTTOM), Stroke::Grid));
        shapes.push(Shape::Words(at, HEIGHT - BOTTOM + 20, Anchor::Middle, label(*tick)));
    }
    for tick in &ys {
        let at = up(*tick);
        shapes.push(Shape::Line((LEFT, at), (WIDTH - RIGHT, at), Stroke::Grid));
        shapes.push(Shape::Words(LEFT - 8, at + 5, Anchor::End, label(*tick)));
    }
    let corner = (LEFT, HEIGHT - BOTTOM);
    shapes.push(Shape::Line(corner, (WIDTH - RIGHT, HEIGHT - BOTTOM), Stroke::Ink));
    shapes.push(Shape::Line(corner, (LEFT, TOP), Stroke::Ink));
    shapes.push(Shape::Words(WIDTH / 2, HEIGHT - 20, Anchor::Middle, figure.x.into()));
    shapes.push(Shape::Words(8, TOP - 12, Anchor::Start, figure.y.into()));
    let places: Vec<_> = points().map(|point| (across(point.0), up(point.1))).collect();
    let legend = legend(figure.curves.len(), &places);
    for (index, curve) in figure.curves.iter().enumerate() {
        let stroke = Stroke::Curve(index % COLOURS.len());
        for pair in curve.points.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|p| (across(p.0), up(p.1)));
            shapes.push(Shape::Line(a, b, stroke));
        }
        if curve.points.len() <= 20 {
            for point in &curve.points {
                let (x, y) = (across(point.0), up(point.1));
                shapes.push(Shape::Line((x - 3, y - 3), (x + 3, y + 3), stroke));
                shapes.push(Shape::Line((x - 3, y + 3), (x + 3, y - 3), stroke));
            }
        }
        let row = legend + ROW * index as i32;
        let right = WIDTH - RIGHT - 14;
        shapes.push(Shape::Line((right - 30, row - 5), (right, row - 5), stroke));
        shapes.push(Shape::Words(right - 38, row, Anchor::End, curve.name.clone()));
    }
    shapes
}

/// The first row of a legend at the right: below or above, where it hides less.
fn legend(rows: usize, points: &[(i32, i32)]) -> i32 {
    let height = ROW * rows as i32;
    let tops = [HEIGHT - BOTTOM - 16 - height + ROW, TOP + ROW];
    let hidden = |top: &i32| {
        let under = |(x, y): &&(i32, i32)| {
            *x > WIDTH - RIGHT - LEGEND && (top - ROW..top + height).contains(y)
        };
        points.iter().filter(under).count()
    };
    tops.into_iter().min_by_key(hidden).unwrap_or(TOP + ROW)
}

fn svg(shapes: &[Shape]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"14\"><rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n"
    );
    // Writing to a string can't fail.
    for shape in shapes {
        let _ = match shape {
            Shape::Line(a, b, stroke) => {
                let (colour, width) = match stroke {
                    Stroke::Ink => ("#333b47", 1),
                    Stroke::Grid => ("#e3e6ea", 1),
                    Stroke::Curve(index) => (COLOURS[*index], 2),
                };
                writeln!(
                    text,
                    "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{colour}\" \
                     stroke-width=\"{width}\"/>",
                    a.0, a.1, b.0, b.1
                )
            }
            Shape::Words(x, y, anchor, words) => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let words = words.replace('&', "&amp;").replace('<', "&lt;");
                writeln!(
                    text,
                    "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"#333b47\">{words}\
                     </text>"
                )
            }
        };
    }
    text + "</svg>\n"
}

fn png(shapes: &[Shape]) -> Vec<u8> {
    let mut canvas = Canvas::new(WIDTH, HEIGHT, &COLOURS);
    for shape in shapes {
        match shape {
            Shape::Line(a, b, stroke) => match stroke {
                Stroke::Ink => canvas.line(*a, *b, INK, 1),
                Stroke::Grid => canvas.line(*a, *b, PALE, 1),
                Stroke::Curve(index) => canvas.line(*a, *b, PALE + 1 + *index as u8, 2),
            },
            Shape::Words(x, y, anchor, words) => {
                let width = Canvas::width_of(words);
                let left = match anchor {
                    Anchor::Start => *x,
                    Anchor::Middle => x - width / 2,
                    Anchor::End => x - width,
                };
                canvas.words(left, y - 10, words);
            }
        }
    }
    canvas.png()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_files_of_both_kinds() {
        let curve = Curve { name: "a < b & c".into(), points: vec![(0.0, 1.0), (2.0, 3.0)] };
        let figure = Figure { file: "f", title: "T".into(), x: "x", y: "y", curves: vec![curve] };
        let drawing = draw(&figure);
        let text = svg(&drawing);
        assert!(text.contains("a &lt; b &amp; c") && text.ends_with("</svg>\n"));
        let bytes = png(&drawing);
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(&bytes[bytes.len() - 8..bytes.len() - 4], b"IEND");
        let empty = Figure { curves: Vec::new(), ..figure };
        assert_eq!(draw(&empty).len(), 1, "a title and no axes");
    }

    #[test]
    fn a_legend_stands_where_it_hides_less() {
        let (right, low, high) = (WIDTH - RIGHT - 20, HEIGHT - BOTTOM - 20, TOP + 20);
        assert!(legend(3, &[(right, low)]) < legend(3, &[(right, high)]));
        assert_eq!(legend(3, &[]), legend(3, &[(right, high)]));
    }

    #[test]
    fn ticks_are_round_and_enclose_the_range() {
        for (low, high) in [(0.0, 1.0), (137.2, 251.9), (-99.9, 12.0), (5.0, 5.0), (0.0, 1e6)] {
            let ticks = ticks(low, high);
            assert!(ticks[0] <= low && ticks[ticks.len() - 1] >= high, "{low} {high} {ticks:?}");
            assert!((1..=13).contains(&ticks.len()), "{low} {high} {ticks:?}");
        }
        assert_eq!(ticks(0.0, 1.0)[1], 0.2);
    }
}
