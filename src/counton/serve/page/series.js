// What the page knows of a stream: its windows, its lines, and the released rows of each.

import { shownName } from "./format.js";

/** Texts that say when, not what. */
const TIMES = new Set(["window_start", "window_end", "counted_until", "as_of"]);
/** Numbers that say how much; other ones, such as a degree or a share, name a line as texts do. */
const MEASURES = new Set([
  "step", "last_step", "rank", "lag", "level", "value", "estimate", "std", "lower", "upper",
  "running_total", "running_total_std",
]);

function names(row, column) {
  const value = row[column];
  if (typeof value === "string") return !TIMES.has(column);
  return typeof value === "number" && !MEASURES.has(column);
}

/** Names of numbers that stand beside each other and have units of their own: of an average. */
const OF_AN_AVERAGE = ["mean", "sum", "count"];

/** Windows that are kept at most, however long the page stays open. */
const KEPT = 20_000;

export class Series {
  constructor() {
    /** Newest rows: from the name of a line to its row. */
    this.latest = new Map();
    this.forget();
  }

  /** Drop the history, as when other rows of it are wanted; what is newest stays. */
  forget() {
    this.windows = new Map();
    this.values = new Map();
  }

  get lastStep() {
    return Math.max(0, ...[...this.latest.values()].map(({ step }) => step ?? 0));
  }

  /** The name of the line that a row belongs to. */
  static nameOf(row) {
    const parts = Object.keys(row).filter((column) => names(row, column));
    const words = parts.map((name) =>
      name === "share" ? quantileName(row[name])
        : typeof row[name] === "number" ? `${name} ${row[name]}` : String(row[name]),
    );
    return words.join(" · ") || "all";
  }

  /** Take the newest rows of all lines. A ranking names those that it has now, and no others. */
  takeLatest(rows) {
    if (rows.some((row) => "rank" in row)) this.latest.clear();
    for (const row of rows.map(measured)) {
      const name = Series.nameOf(row);
      const before = this.latest.get(name);
      if (!before || before.step <= row.step) this.latest.set(name, row);
    }
  }

  /** Take rows into the history. */
  take(rows) {
    for (const row of rows.map(measured)) {
      const name = Series.nameOf(row);
      if (!this.windows.has(row.step)) {
        const [start, end] = [Date.parse(row.window_start), Date.parse(row.window_end)];
        this.windows.set(row.step, { step: row.step, start, end });
      }
      if (!this.values.has(name)) this.values.set(name, new Map());
      this.values.get(name).set(row.step, row);
    }
    const old = [...this.windows.keys()].slice(0, Math.max(0, this.windows.size - KEPT));
    for (const step of old) {
      this.windows.delete(step);
      this.values.forEach((rows) => rows.delete(step));
    }
  }

  /** When the newest window of the history ends; null: there is none. */
  get until() {
    let end = null;
    for (const window of this.windows.values()) end = Math.max(end ?? 0, window.end);
    return end;
  }

  /** The last so many windows of the history, oldest first. */
  spans(most = Infinity) {
    const all = [...this.windows.values()].sort((one, other) => one.step - other.step);
    return all.slice(-most);
  }

  /** Rows of a line in the order of windows, null where there is none. */
  rows(name, spans) {
    const found = this.values.get(name);
    return spans.map(({ step }) => found?.get(step) ?? null);
  }

  /** What is measured of each group, in this order, where that has several units. */
  get measures() {
    const named = new Set([...this.latest.values()].map(({ name }) => name));
    return named.has("mean") ? OF_AN_AVERAGE.filter((name) => named.has(name)) : [];
  }

  /** Which of its measures a line is of; null where there is one alone. */
  measureOf(name) {
    return this.measures.length ? this.latest.get(name)?.name ?? null : null;
  }

  /** The name of a line without its measure. */
  labelOf(name, measure) {
    const alone = measure !== null && name.endsWith(` · ${measure}`);
    return shownName(alone ? name.slice(0, -measure.length - 3) : name);
  }

  /** Names of lines, largest first. */
  ranked() {
    const rows = [...this.latest.entries()];
    return rows.sort(([, one], [, other]) => other.estimate - one.estimate).map(([name]) => name);
  }
}

/** What a number is of, as the service says of the numbers of this name; "": nobody says. */
export function unitOf(units, row) {
  if (!units || !row) return "";
  const number = row.name?.split(" ").at(-1);
  const names = row.statistic === undefined ? [row.name] : [`${row.statistic} ${number}`, row.statistic];
  return [...names, ""].map((name) => units[name ?? ""]).find((unit) => unit !== undefined) ?? "";
}

/** Whether a window still takes late rows, so that its number changes. */
export function provisional(row) {
  return row?.final === false;
}

/** Quantiles call their estimate a value. */
function measured(row) {
  return "estimate" in row ? row : { ...row, estimate: row.value };
}

function quantileName(share) {
  if (share === 0.5) return "median";
  return `${Number((100 * share).toPrecision(6))}% below`;
}
