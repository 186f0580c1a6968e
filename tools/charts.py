"""Charts as SVG, for tools/performance. A picture has its own background and follows the reader's light or dark
theme."""
import math
from xml.sax.saxutils import escape

WIDTH = 760
LABEL_WIDTH = 250
BAR_WIDTH = 370
ROW_HEIGHT = 26
BAR_HEIGHT = 16

STYLE = """
  :root { color-scheme: light dark; }
  .card { fill: #ffffff; }
  text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .small { fill: #59636e; }
  .track { fill: #e4e8ec; }
  .c0 { fill: #0072b2; } .c1 { fill: #e69f00; } .c2 { fill: #009e73; }
  .l0 { stroke: #0072b2; } .l1 { stroke: #e69f00; } .line { fill: none; stroke-width: 2; } .grid { stroke: #e4e8ec; }
  .c3 { fill: #cc79a7; } .c4 { fill: #56b4e9; } .c5 { fill: #8c959f; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; }
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .track { fill: #2a313a; } .grid { stroke: #2a313a; } .l0 { stroke: #3b9be0; }
    .c0 { fill: #3b9be0; } .c4 { fill: #a5e3ff; } .c5 { fill: #6e7681; }
  }
"""


class Picture:
    """Lines of SVG from top to bottom."""

    def __init__(self, title):
        self.title, self.lines, self.y = title, [], 28
        self.text(16, title, "title")
        self.y += 26

    def text(self, x, text, style="", anchor="start"):
        self.lines.append(f'<text class="{style}" x="{x:g}" y="{self.y}" text-anchor="{anchor}">{escape(text)}</text>')

    def box(self, x, width, style):
        self.lines.append(f'<rect class="{style}" x="{x:g}" y="{self.y - 13}" width="{max(width, 1):.1f}" height="{BAR_HEIGHT}" rx="2"/>')

    def bar(self, label, parts, said, track=False):
        """Draws one row: a label, boxes of (share of the full width, style) next to each other, and a text."""
        self.text(LABEL_WIDTH, label, anchor="end")
        if track:
            self.box(LABEL_WIDTH + 12, BAR_WIDTH, "track")
        x = LABEL_WIDTH + 12.0
        for share, style in parts:
            self.box(x, share * BAR_WIDTH, style)
            x += share * BAR_WIDTH
        self.text(x + 8 if not track else LABEL_WIDTH + BAR_WIDTH + 20, said, "small")
        self.y += ROW_HEIGHT

    def heading(self, text):
        self.y += 6
        self.text(16, text, "small")
        self.y += ROW_HEIGHT

    def legend(self, entries):
        """Draws colours and their names, three per line."""
        for begin in range(0, len(entries), 3):
            for column, (name, style) in enumerate(entries[begin : begin + 3]):
                x = LABEL_WIDTH + 12 + 145 * column
                self.lines.append(f'<rect class="{style}" x="{x}" y="{self.y - 11}" width="12" height="12" rx="2"/>')
                self.text(x + 18, name, "small")
            self.y += 20

    def svg(self):
        height = self.y
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n"
            f'<rect class="card" width="{WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(self.lines) + "\n</svg>\n"
        )


def share_chart(title, rows):
    """Draws rows of (label, share from 0 to 1, text): each bar in front of the whole that it is a share of."""
    picture = Picture(title)
    for label, share, said in rows:
        picture.bar(label, [(min(share, 1), "c0")], said, track=True)
    return picture.svg()


def group_chart(title, groups):
    """Draws groups of (heading, [(label, value, text)]): the longest bar of each group has the full width."""
    picture = Picture(title)
    for heading, bars in groups:
        picture.heading(heading)
        most = max(value for _, value, _ in bars)
        for index, (label, value, said) in enumerate(bars):
            picture.bar(label, [(0.8 * value / most, f"c{index}")], said)
    return picture.svg()


def stack_chart(title, names, rows):
    """Draws rows of (label, a value for each name, text): stacked bars on one scale, with a legend."""
    picture = Picture(title)
    picture.legend([(name, f"c{index}") for index, name in enumerate(names)])
    picture.y += 8
    most = max(sum(values) for _, values, _ in rows)
    for label, values, said in rows:
        picture.bar(label, [(0.85 * value / most, f"c{index}") for index, value in enumerate(values)], said)
    return picture.svg()


def curve_chart(title, x_name, y_name, curves):
    """Draws curves of (name, [(x, y, text)]) on logarithmic axes, which begin and end at powers of
    ten. The points of the first curve are labelled with their texts."""
    picture = Picture(title)
    picture.legend([(name, f"c{index}") for index, (name, _) in enumerate(curves)])
    left, top, width, height = 70, picture.y + 14, WIDTH - 100, 300
    points = [point for _, of_curve in curves for point in of_curve]
    decades = [(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))
               for values in ([x for x, _, _ in points], [y for _, y, _ in points])]
    x_of = lambda x: left + width * (math.log10(x) - decades[0][0]) / (decades[0][1] - decades[0][0])
    y_of = lambda y: top + height * (1 - (math.log10(y) - decades[1][0]) / (decades[1][1] - decades[1][0]))

    def rule(value, x, y, to_x, to_y, label_x, label_y, anchor):
        picture.lines.append(f'<line class="grid" x1="{x:.0f}" y1="{y:.0f}" x2="{to_x:.0f}" y2="{to_y:.0f}"/>')
        picture.y = round(label_y)
        picture.text(label_x, f"{value:,}", "small", anchor)

    ticks = lambda first, last: [step * 10**power for power in range(first, last) for step in (1, 2, 5)] + [10**last]
    for value in ticks(*decades[0]):
        rule(value, x_of(value), top, x_of(value), top + height, x_of(value), top + height + 18, "middle")
    for value in ticks(*decades[1]):
        rule(value, left, y_of(value), left + width, y_of(value), left - 8, y_of(value) + 4, "end")
    for index, (_, of_curve) in enumerate(curves):
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y, _ in of_curve)
        picture.lines.append(f'<polyline class="line l{index}" points="{path}"/>')
        for x, y, said in of_curve:
            picture.lines.append(f'<circle class="c{index}" cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="4"/>')
            if index == 0:
                picture.y = round(y_of(y) - 8)
                picture.text(x_of(x) + 6, said, "small")
    picture.y = top + height + 40
    picture.text(left + width, x_name, "small", "end")
    picture.y = top - 8
    picture.text(left, y_name, "small")
    picture.y = top + height + 56
    return picture.svg()
