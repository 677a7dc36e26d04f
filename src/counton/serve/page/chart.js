// One series with its interval, by uPlot, which the page loads before this module.

import { noteOf, quantity, tick } from "./format.js";

const { uPlot } = globalThis;
/** Seconds that ticks may be apart; each is at most about twice the one before, so that there are several. */
const [MINUTE, HOUR, DAY, MONTH, YEAR] = [60, 3600, 86400, 30 * 86400, 365 * 86400];
const APART = [
  ...[1, 2, 3, 5, 10, 15, 30], ...[1, 2, 3, 5, 10, 15, 30].map((one) => one * MINUTE),
  ...[1, 2, 3, 6, 12].map((one) => one * HOUR), ...[1, 2, 3, 5, 7, 14].map((one) => one * DAY),
  ...[1, 2, 3, 6].map((one) => one * MONTH), ...[1, 2, 3, 5, 10, 20, 50, 100].map((one) => one * YEAR),
];
/** What stands at a tick; below it stands the year, day or minute that it begins. */
const [DATE, TIME] = ["\n{D} {MMM}", "\n{HH}:{mm}"];
const TICKS = [
  [YEAR, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * DAY, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [DAY, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [MINUTE, "{HH}:{mm}", DATE, null, DATE, null, null, null, 1],
  [1, "{ss} s", TIME, null, TIME, null, TIME, null, 1],
];

export class Chart {
  constructor(place) {
    this.place = place;
    const again = () => this.shown && this.draw(...this.shown);
    new ResizeObserver(() => this.plot?.width !== this.width && again()).observe(place);
    // Colours are read from the style sheet, which has the new theme only after this event.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(again));
  }

  get width() {
    return Math.max(200, Math.floor(this.place.clientWidth));
  }

  /** Draw rows in the order of windows; `stepped`: each is of its own window. */
  draw(rows, clock, { stepped, fromZero }) {
    this.shown = [rows, clock, { stepped, fromZero }];
    const columns = [rows.map((row) => Date.parse(row.window_end) / 1000)];
    for (const part of ["upper", "lower", "estimate"]) columns.push(rows.map((row) => row[part]));
    columns.push(rows.map((row) => (noteOf(row) ? row.estimate : null)));
    const [stroke, faint, grid, card] = ["accent", "faint", "grid", "card"].map((name) => this.colour(name));
    const paths = stepped ? uPlot.paths.stepped({ align: -1 }) : uPlot.paths.linear();
    const value = (plot, one, series, at) => {
      const row = rows[at];
      return row ? quantity(one, (row.upper - row.lower) / 2, Number.isInteger(one)) : "–";
    };
    const edge = { stroke: "transparent", width: 0, paths, points: { show: false }, value };
    const axis = { stroke: faint, font: '12px system-ui, "Segoe UI", sans-serif', ticks: { show: false } };
    this.plot?.destroy();
    this.plot = new uPlot(
      {
        width: this.width,
        height: this.width < 560 ? 260 : 360,
        tzDate: (stamp) => uPlot.tzDate(new Date(stamp * 1000), clock.zone),
        padding: [12, 28, 0, 0],
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: { y: { range: (plot, low, high) => span(low, high, fromZero) } },
        axes: [
          {
            ...axis, grid: { show: false }, incrs: APART, values: TICKS, size: 44,
            space: (plot, at, low, high, room) => Math.min(74, room / 4), // two ticks at least
          },
          {
            ...axis, grid: { stroke: grid, width: 1 }, values: (plot, splits) => splits.map(tick),
            size: (plot, values) => 16 + 7.2 * Math.max(0, ...(values ?? []).map((text) => text.length)),
          },
        ],
        series: [
          { label: "Until", value: (plot, at) => (at === null ? "–" : clock.end(1000 * at)) },
          { ...edge, label: "at most" },
          { ...edge, label: "at least" },
          { label: "number", stroke, width: 1.8, paths, value, points: { show: rows.length < 40, size: 5, fill: stroke } },
          // Windows with a note are hollow.
          { stroke, paths: () => null, value: () => "", points: { show: true, size: 11, width: 2, fill: card } },
        ],
        bands: [{ series: [1, 2], fill: stroke.replace(")", ", 0.2)") }],
      },
      columns,
      this.place,
    );
  }

  /** A colour of the style sheet as the theme of the moment has it. */
  colour(name) {
    this.place.style.outlineColor = `var(--${name})`;
    return getComputedStyle(this.place).outlineColor;
  }
}

function span(low, high, fromZero) {
  if (low === null || high === null) return [0, 1];
  const [bottom, top] = fromZero ? [Math.min(0, low), Math.max(0, high)] : [low, high];
  const margin = 0.04 * Math.max(top - bottom, 1e-9 + 1e-6 * Math.abs(top));
  return [bottom < 0 || !fromZero ? bottom - margin : 0, top + margin];
}
