// Lines with their bands, by uPlot, which the page loads before this module.

import { band, number, tick } from "./format.js";
import { provisional } from "./series.js";

const { uPlot } = globalThis;

/** So many lines have colours that readers with any kind of colour vision tell apart. */
export const COLOURS = 8;
/** Below this width a chart is lower. */
const NARROW = 560;
/** Seconds that ticks may be apart; each is at most about twice the one before, so that there are several. */
const [MINUTE, HOUR, DAY, MONTH, YEAR] = [60, 3600, 86400, 30 * 86400, 365 * 86400];
const APART = [
  ...[1, 2, 3, 5, 10, 15, 30],
  ...[1, 2, 3, 5, 10, 15, 30].map((one) => one * MINUTE),
  ...[1, 2, 3, 6, 12].map((one) => one * HOUR),
  ...[1, 2, 3, 5, 7, 14].map((one) => one * DAY),
  ...[1, 2, 3, 6].map((one) => one * MONTH),
  ...[1, 2, 3, 5, 10, 20, 50, 100].map((one) => one * YEAR),
];
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export class Chart {
  /** The pointer moves through the windows; the same numbers stand as text in the table. */
  constructor(place) {
    Object.assign(this, { place, plot: null, shape: null, shown: null });
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.holder = document.createElement("div");
    place.append(this.holder, this.tip);
    new ResizeObserver(() => this.resized()).observe(place);
    const again = () => this.repaint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  }

  get width() {
    return Math.max(200, Math.floor(this.place.clientWidth));
  }

  get height() {
    return this.width < NARROW ? 280 : Math.round(Math.min(440, Math.max(320, this.width * 0.48)));
  }

  /**
   * Draw lines.
   *
   * `shown`: {clock, windows: [{start, end}], lines: [{name, colour, rows}], stepped, fromZero}, with
   * rows in the order of windows, null where a line has none.
   */
  draw(shown) {
    this.shown = shown;
    const { clock, windows, lines, stepped } = shown;
    // A step of width needs its left end: the first window begins where it begins.
    this.lead = stepped && windows.length ? 1 : 0;
    const xs = windows.map(({ end }) => end / 1000);
    if (this.lead) xs.unshift(windows[0].start / 1000);
    const columns = [xs];
    for (const { rows } of lines) {
      const kept = [...rows];
      if (this.lead) kept.unshift(kept[0]);
      for (const part of ["upper", "lower", "estimate"]) {
        columns.push(kept.map((row) => row?.[part] ?? null));
      }
    }
    const shape = JSON.stringify([
      lines.map(({ name, colour }) => [name, colour]), stepped, clock.zone, shown.fromZero,
      xs.length < 40, windows.length === 1,
    ]);
    if (this.plot && shape === this.shape) {
      this.plot.setData(columns);
    } else {
      this.shape = shape;
      this.make(columns);
    }
  }

  repaint() {
    if (!this.shown) return;
    this.shape = null;
    // Colours are read from the style sheet, which has the new theme only after this event.
    requestAnimationFrame(() => this.draw(this.shown));
  }

  resized() {
    if (!this.plot || this.plot.width === this.width) return;
    this.shape = null;
    this.draw(this.shown);
  }

  make(columns) {
    const colour = (name) => this.colour(name);
    const { clock, lines, stepped, fromZero } = this.shown;
    const [faint, grid] = ["--faint", "--grid"].map(colour);
    const few = columns[0].length < 40;
    const alone = this.shown.windows.length === 1;
    const paths = stepped ? uPlot.paths.stepped({ align: -1 }) : uPlot.paths.linear();
    const series = [{}];
    const bands = [];
    for (const line of lines) {
      const stroke = colour(`--series-${line.colour}`);
      const edge = { stroke: "transparent", width: 0, paths, points: { show: false } };
      bands.push({ series: [series.length, series.length + 1], fill: stroke.replace(")", ", 0.2)") });
      const points = { show: few && !stepped && !alone, size: 5, fill: stroke };
      series.push(edge, { ...edge }, { stroke, width: 1.8, paths, points });
    }
    const axis = {
      stroke: faint,
      font: `12px ${FONT}`,
      grid: { stroke: grid, width: 1 },
      ticks: { show: false },
    };
    this.plot?.destroy();
    this.plot = new uPlot(
      {
        width: this.width,
        height: this.height,
        tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), clock.zone),
        padding: [12, 28, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          points: {
            // Each series needs an element, also the edges of bands, whose points nobody shall see.
            show: (plot, index) =>
              point(index % 3 === 0 ? colour(`--series-${lines[index / 3 - 1].colour}`) : null),
          },
          drag: { x: false, y: false },
        },
        scales: {
          x: { time: true, range: (plot, low, high) => widened(low, high, this.shown.windows) },
          y: { range: (plot, low, high) => heightOf(low, high, fromZero) },
        },
        axes: [
          {
            ...axis,
            size: (plot, values) => (values?.some((text) => text.includes("\n")) ? 44 : 28),
            space: (plot, axis, low, high, room) => Math.min(74, room / 4), // two ticks at least
            incrs: APART,
            grid: { show: false },
            values: (plot, splits, number_, space, apart) =>
              clock.ticks(splits.map((stamp) => stamp * 1000), apart),
          },
          {
            ...axis,
            size: (plot, values) => axisRoom(values),
            values: (plot, splits) => splits.map(tick),
          },
        ],
        series,
        bands,
        hooks: {
          setCursor: [(plot) => this.pointed(plot)],
          draw: [(plot) => alone && this.single(plot)],
        },
      },
      columns,
      this.holder,
    );
  }

  /** A colour of the style sheet as the theme of the moment has it. */
  colour(name) {
    this.tip.style.outlineColor = `var(${name})`;
    return getComputedStyle(this.tip).outlineColor;
  }

  /** A single window makes no lines: dots with their intervals stand beside each other. */
  single(plot) {
    const ratio = devicePixelRatio;
    const { ctx } = plot;
    const { windows, lines } = this.shown;
    const middle = plot.valToPos(windows[0].end / 1000, "x", true);
    ctx.save();
    lines.forEach(({ colour, rows: [row] }, place) => {
      if (!row) return;
      const x = middle + (place - (lines.length - 1) / 2) * 22 * ratio;
      const [low, at, high] = [row.lower, row.estimate, row.upper].map((one) => plot.valToPos(one, "y", true));
      ctx.strokeStyle = ctx.fillStyle = this.colour(`--series-${colour}`);
      ctx.lineWidth = 6 * ratio;
      ctx.globalAlpha = 0.3;
      ctx.beginPath();
      ctx.moveTo(x, low);
      ctx.lineTo(x, high);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.arc(x, at, 5 * ratio, 0, 2 * Math.PI);
      ctx.fill();
    });
    ctx.restore();
  }

  pointed(plot) {
    const { idx, left } = plot.cursor;
    if (idx === null || idx === undefined || left < 0) {
      this.tip.hidden = true;
      return;
    }
    this.tell(Math.max(0, idx - this.lead), left + plot.over.offsetLeft);
  }

  tell(at, left) {
    const span = this.shown.windows[at];
    if (!span) return;
    const { clock, lines, stepped } = this.shown;
    const title = document.createElement("p");
    title.className = "tip-time";
    title.textContent = stepped
      ? clock.window(span.start, span.end)
      : `until ${clock.until(span.end)}`;
    if (lines.some(({ rows }) => provisional(rows[at]))) title.textContent += ", provisional";
    const list = lines
      .filter(({ rows }) => rows[at])
      .sort((one, other) => other.rows[at].estimate - one.rows[at].estimate)
      .map((line) => {
        const item = document.createElement("p");
        const swatch = document.createElement("span");
        swatch.className = `swatch series-${line.colour}`;
        const name = document.createElement("span");
        name.className = "tip-name";
        name.textContent = line.name;
        const value = document.createElement("span");
        value.className = "tip-value";
        value.textContent = `${number(line.rows[at])} ${band(line.rows[at])}`;
        item.append(swatch, name, value);
        return item;
      });
    this.tip.replaceChildren(title, ...list);
    this.tip.hidden = false;
    const wide = this.tip.offsetWidth;
    const beside = left + 16 + wide > this.width ? left - wide - 16 : left + 16;
    this.tip.style.left = `${Math.max(4, Math.min(beside, this.width - wide - 4))}px`;
  }
}

function point(stroke) {
  const dot = document.createElement("div");
  dot.style.background = stroke ?? "transparent";
  dot.style.width = dot.style.height = "9px";
  dot.style.marginLeft = dot.style.marginTop = "-4.5px";
  return dot;
}

/** The one window that there is stands in the middle. */
function widened(low, high, windows) {
  if (windows.length !== 1) return [low, high];
  const [{ start, end }] = windows;
  const length = (end - start) / 1000;
  return [end / 1000 - 2 * length, end / 1000 + 2 * length];
}

function heightOf(low, high, fromZero) {
  if (low === null || high === null) return [0, 1];
  const bottom = fromZero ? Math.min(0, low) : low;
  const top = fromZero ? Math.max(0, high) : high;
  const margin = 0.04 * Math.max(top - bottom, 1e-9 + Math.abs(top) * 1e-6);
  return [bottom < 0 || !fromZero ? bottom - margin : 0, top + margin || 1];
}

function axisRoom(values) {
  const longest = Math.max(0, ...(values ?? []).map((text) => text.length));
  return 16 + 7.2 * longest;
}
