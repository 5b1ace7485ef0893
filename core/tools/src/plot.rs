//! Curves on two logarithmic axes, as SVG.

use std::fmt::Write;

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// (x, y), both above 0, with growing x; and whether the point is marked.
    pub points: Vec<(f64, f64, bool)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above everything.
    pub title: String,
    /// What x is.
    pub x_label: String,
    /// What y is.
    pub y_label: String,
    /// What a mark means.
    pub mark_label: String,
    /// The base of the steps of the x axis: 2 or 10.
    pub x_base: f64,
    /// How a step of the x axis is written.
    pub x_text: fn(f64) -> String,
    /// The curves.
    pub curves: Vec<Curve>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 560.0;
/// Left, top, right (the legend), bottom.
const MARGIN: [f64; 4] = [72.0, 48.0, 240.0, 56.0];
/// Colours that also people with colour-blindness tell apart (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DASHES: [&str; 3] = ["", " stroke-dasharray=\"7 3\"", " stroke-dasharray=\"2 3\""];

/// The logarithm of a value to the axis' base, and back.
#[derive(Clone, Copy)]
struct Axis {
    base: f64,
    first: f64,
    last: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, base: f64, from: f64, to: f64) -> Axis {
        let (low, high) =
            values.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let first = (low.ln() / base.ln() + 1e-9).floor();
        let last = (high.ln() / base.ln() - 1e-9).ceil().max(first + 1.0);
        Axis { base, first, last, from, to }
    }

    fn place(self, value: f64) -> f64 {
        let part = (value.ln() / self.base.ln() - self.first) / (self.last - self.first);
        self.from + part * (self.to - self.from)
    }

    /// Steps to write, not more than a dozen.
    fn steps(self) -> impl Iterator<Item = f64> {
        let every = ((self.last - self.first) / 12.0).ceil().max(1.0);
        let count = ((self.last - self.first) / every) as u32;
        (0..=count).map(move |step| self.base.powf(self.first + f64::from(step) * every))
    }
}

/// The chart as a file.
///
/// # Panics
/// When there is no point.
pub fn svg(chart: &Chart) -> String {
    let points = || chart.curves.iter().flat_map(|curve| &curve.points);
    assert!(points().next().is_some(), "a chart has points");
    let [left, top, right, bottom] = MARGIN;
    let x = Axis::over(points().map(|point| point.0), chart.x_base, left, WIDTH - right);
    let y = Axis::over(points().map(|point| point.1), 10.0, HEIGHT - bottom, top);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"28\" font-size=\"17\">{}</text>\n",
        escaped(&chart.title)
    );
    let mut line = |text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "{text}");
    };
    for step in x.steps() {
        let at = x.place(step);
        line(format!("<path d=\"M{at:.1} {top}V{:.1}\" stroke=\"#dddddd\"/>", HEIGHT - bottom));
        let text = (chart.x_text)(step);
        line(format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            HEIGHT - bottom + 18.0
        ));
    }
    for step in y.steps() {
        let at = y.place(step);
        line(format!("<path d=\"M{left} {at:.1}H{:.1}\" stroke=\"#dddddd\"/>", WIDTH - right));
        line(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{step}</text>",
            left - 8.0,
            at + 4.0
        ));
    }
    let middle = left + (WIDTH - left - right) / 2.0;
    line(format!(
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        HEIGHT - 12.0,
        escaped(&chart.x_label)
    ));
    let centre = top + (HEIGHT - top - bottom) / 2.0;
    line(format!(
        "<text transform=\"translate(20 {centre:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(&chart.y_label)
    ));
    for (number, curve) in chart.curves.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dash = DASHES[number / COLOURS.len() % DASHES.len()];
        let mut path = String::new();
        for (index, &(px, py, _)) in curve.points.iter().enumerate() {
            let _ =
                write!(path, "{}{:.1} {:.1}", if index == 0 { "M" } else { "L" }, x.place(px), y.place(py));
        }
        line(format!("<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>"));
        for &(px, py, _) in curve.points.iter().filter(|point| point.2) {
            let (cx, cy) = (x.place(px), y.place(py));
            line(format!(
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{colour}\" stroke=\"black\"/>"
            ));
        }
        let (at, from) = (top + 10.0 + 18.0 * number as f64, WIDTH - right + 14.0);
        line(format!(
            "<path d=\"M{from:.1} {at:.1}h26\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            from + 32.0,
            at + 4.0,
            escaped(&curve.name)
        ));
    }
    if points().any(|point| point.2) {
        let at = top + 16.0 + 18.0 * chart.curves.len() as f64;
        let from = WIDTH - right + 27.0;
        line(format!(
            "<circle cx=\"{from:.1}\" cy=\"{at:.1}\" r=\"4\" fill=\"white\" stroke=\"black\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            from + 19.0,
            at + 4.0,
            escaped(&chart.mark_label)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `4`, `16K`, `1M`: bytes of a power of two.
pub fn bytes_text(bytes: f64) -> String {
    let bytes = bytes.round() as u64;
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes >= 1 << shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_drawn_inside_with_its_name_and_marks() {
        let curve = |name: &str, factor: f64, marked: bool| Curve {
            name: name.to_owned(),
            points: (0..20)
                .map(|power| (f64::from(1 << power), factor * f64::from(power + 1), marked))
                .collect(),
        };
        let chart = Chart {
            title: "a < b".into(),
            x_label: "bytes".into(),
            y_label: "us".into(),
            mark_label: "chosen".into(),
            x_base: 2.0,
            x_text: bytes_text,
            curves: vec![curve("first", 0.3, true), curve("second", 40.0, false)],
        };
        let svg = svg(&chart);
        assert!(svg.contains("a &lt; b") && svg.contains(">first<") && svg.contains(">second<"));
        assert_eq!(svg.matches("<circle").count(), 21, "20 points and the legend");
        assert!(svg.contains(">256K<") && svg.contains(">0.1<") && svg.contains(">1000<"), "{svg}");
        let numbers = svg.split(['M', 'L', ' ', '"', 'H', 'V']).filter_map(|word| word.parse::<f64>().ok());
        assert!(numbers.into_iter().all(|number| (-90.0..=WIDTH.max(1000.0)).contains(&number)));
    }
}
