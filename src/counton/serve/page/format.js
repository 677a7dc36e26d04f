// Numbers, times and names as counton prints them elsewhere: page, charts and tables agree.

function fixed(value, digits) {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" };
  const text = value.toLocaleString("en-US", options);
  // A rounded "-0" is no negative number; a minus sign is no hyphen.
  return /[1-9]/.test(text) ? text.replace("-", "−") : text.replace("-", "");
}

/** A name in one line, with codes for characters that are invisible or control a screen. */
export function shownName(name) {
  return name.replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (one) =>
    `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
}

/** A number with thousands separators and as many decimals as its error makes sense of. */
export function quantity(value, error, whole = false) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (whole || error >= 10) return fixed(value, 0);
  if (!(error > 0)) return fixed(value, Number.isInteger(value) ? 0 : 6).replace(/(\.\d*?)0+$/, "$1");
  return fixed(value, Math.max(0, Math.min(2 - Math.ceil(Math.log10(error)), 12)));
}

/** An estimate with the decimals that its interval makes sense of. */
export function number({ estimate, lower, upper }) {
  const half = (upper - lower) / 2;
  return quantity(estimate, half, Number.isInteger(estimate) && Number.isInteger(half));
}

/** The half-width or the ends of an interval, as it stands behind an estimate; "": there is none. */
export function band({ estimate, lower, upper }) {
  if ([estimate, lower, upper].some((one) => one === null || one === undefined)) return "";
  const half = (upper - lower) / 2;
  if (Math.abs(estimate - lower - (upper - estimate)) <= 1e-6 * half) {
    return `± ${quantity(half, half, Number.isInteger(estimate) && Number.isInteger(half))}`;
  }
  const [low, high] = [lower, upper].map((one) => quantity(one, half, Number.isInteger(one)));
  return `(${low} to ${high})`;
}

export function count(value) {
  return fixed(value, 0);
}

/** A round number of an axis in full. */
export function tick(value) {
  return Number.isInteger(value) ? fixed(value, 0) : String(Number(value.toPrecision(6))).replace("-", "−");
}

export function percent(share) {
  return `${Number((100 * share).toPrecision(6))}%`;
}

export function sentence(text) {
  const words = text.trim();
  const begun = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** Columns that say when or how much; other ones, such as a group or a degree, name a line. */
const NO_NAMES = new Set([
  "window_index", "window_start", "window_end", "counted_until", "n_windows", "as_of", "lag_windows", "series",
  "rank", "estimate", "noise_std", "lower", "upper", "confidence_level", "is_certain", "is_final", "note",
]);

/** The note of a row's window; null: there is none. */
export function noteOf(row) {
  return row.note ?? null;
}

/** The name of the line that a row belongs to. */
export function nameOf(row) {
  const words = Object.entries(row).map(([column, value]) => {
    if (NO_NAMES.has(column)) return "";
    if (typeof value === "string") return value;
    if (typeof value !== "number") return "";
    if (column !== "quantile") return `${column} ${value}`;
    return value === 0.5 ? "median" : `${percent(value)} below`;
  });
  if (row.series === "rolling") words.push(lastWords(row.n_windows));
  return words.filter(Boolean).join(" · ") || "all";
}

function lastWords(windows) {
  return windows === 1 ? "last window" : `last ${count(windows)} windows`;
}

/** The series of counts and sums that a stream publishes, the usual one first. */
export function publishedSeries({ series, last }) {
  const alone = ["per-window", "rolling", "decayed"].includes(series);
  const plain = series === "both" ? ["cumulative", "per-window"] : [alone ? series : "cumulative"];
  return last && series !== "rolling" ? [...plain, "rolling"] : plain;
}

/** What the numbers of a series are. */
export function seriesWords({ last, half_life: halfLife }, series) {
  if (series === "rolling") return last?.length === 1 ? `In the ${lastWords(last[0])}` : "In the last windows";
  if (series === "decayed") return `Sums in which a window counts half after ${halfLife} window${halfLife === "1" ? "" : "s"}`;
  return series === "per-window" ? "In each window" : "Running totals";
}

/** What a number is of, as the service says of the numbers of this name; "": nobody says. */
export function unitOf(units, row) {
  const { statistic, measure } = row;
  const names = statistic === undefined ? [measure] : [`${statistic} ${measure}`, statistic];
  return [...names, ""].map((name) => units?.[name ?? ""]).find((unit) => unit !== undefined) ?? "";
}

/** Times in the zone of a stream. All moments are milliseconds since 1970. */
export class Clock {
  constructor(zone, every) {
    this.zone = zone;
    this.daily = /(d|w|mo|y)$/.test(every);
    const day = { day: "numeric", month: "short", year: "numeric" };
    const hour = { hour: "2-digit", minute: "2-digit", ...(every.endsWith("s") && { second: "2-digit" }) };
    const named = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
    [this.forms, this.days, this.hours] = [{ ...day, ...hour }, day, hour].map(named);
  }

  full(moment) {
    return this.forms.format(moment);
  }

  /** Whether windows are of days, and a day begins at a moment. */
  midnight(moment) {
    return this.daily && this.hours.format(moment) === "00:00";
  }

  /** A moment at which a window ends: days end at midnight, and are called by their own name. */
  end(moment) {
    return this.midnight(moment) ? this.days.format(moment - 1) : this.full(moment);
  }

  /** A window in words: a day by its name, and weeks and months by their first and last day. */
  window(start, end) {
    if (!this.midnight(start) || !this.midnight(end)) {
      return `${this.full(start)} to ${(this.daily ? this.forms : this.hours).format(end)}`;
    }
    const [first, last] = [this.days.format(start), this.end(end)];
    return first === last ? first : `${first} to ${last}`;
  }
}

/** "15m" in words: every 15 minutes. */
export function everyWords(every) {
  const names = { s: "second", m: "minute", h: "hour", d: "day", w: "week", mo: "month" };
  const [, amount, unit] = /^(\d+)([a-z]+)$/.exec(every) ?? [];
  if (!names[unit]) return `every ${every}`;
  return amount === "1" ? `every ${names[unit]}` : `every ${amount} ${names[unit]}s`;
}
