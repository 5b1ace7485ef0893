"""SVG plots with the standard library only."""

import html
import math

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000"]
ROW, LEFT, RIGHT, TOP, BOTTOM, WIDTH = 26, 190, 210, 60, 46, 1000


class Point:
    """A ratio with its spread, in a row and of a series."""

    def __init__(self, row, series, value, low, high):
        self.row, self.series, self.value, self.low, self.high = row, series, value, low, high


def ratios(title, points):
    """A plot of ratios on a logarithmic axis: a line a row, a dot a series, a bar for the spread, 1 in the middle."""
    rows = list(dict.fromkeys(point.row for point in points))
    series = list(dict.fromkeys(point.series for point in points))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(series)}
    # Outliers of the spread may leave the picture; the ratios themselves do not.
    least = min([0.5, *(point.value for point in points)]) / 1.15
    most = max([2.0, *(point.value for point in points)]) * 1.15
    height = TOP + ROW * len(rows) + BOTTOM
    inner = WIDTH - LEFT - RIGHT

    def x(value):
        part = math.log(min(max(value, least), most) / least) / math.log(most / least)
        return LEFT + inner * part

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="16">{html.escape(title)}</text>',
           f'<text x="{LEFT}" y="42" fill="#555">ratio of times, left of 1 is faster; bars are the 10th to 90th percentile</text>']
    bottom = TOP + ROW * len(rows)
    for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1):
        for digit in (1, 2, 5):
            value = digit * 10.0 ** power
            if least <= value <= most:
                strong = value == 1
                out.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{TOP}" y2="{bottom}" '
                           f'stroke="{"#000" if strong else "#ddd"}"/>')
                out.append(f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
    for index, row in enumerate(rows):
        middle = TOP + ROW * index + ROW / 2
        out.append(f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{html.escape(row)}</text>')
        out.append(f'<line x1="{LEFT}" x2="{LEFT + inner}" y1="{middle}" y2="{middle}" stroke="#f2f2f2"/>')
        own = [point for point in points if point.row == row]
        for point in own:
            place = series.index(point.series)
            y = middle + (place - (len(series) - 1) / 2) * (ROW - 8) / max(len(series), 2)
            hue = colour[point.series]
            out.append(f'<line x1="{x(point.low):.1f}" x2="{x(point.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{hue}"/>')
            out.append(f'<circle cx="{x(point.value):.1f}" cy="{y:.1f}" r="3.5" fill="{hue}">'
                       f'<title>{html.escape(point.series)}: {point.value:.2f}</title></circle>')
    for index, name in enumerate(series):
        y = TOP + 10 + 20 * index
        out.append(f'<circle cx="{WIDTH - RIGHT + 24}" cy="{y}" r="4" fill="{colour[name]}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 36}" y="{y + 4}">{html.escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"
