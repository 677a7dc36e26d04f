// Numbers and times as counton prints them elsewhere: the page, the charts and the tables agree.

const grouped = new Map();

function fixed(value, digits) {
  if (!grouped.has(digits)) {
    const options = {
      minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven",
    };
    grouped.set(digits, new Intl.NumberFormat("en-US", options));
  }
  const text = grouped.get(digits).format(value);
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

/** The half-width or the ends of an interval, as it stands behind an estimate. */
export function band(row) {
  const { estimate, lower, upper } = row;
  if ([estimate, lower, upper].some((one) => one === null || one === undefined)) return "";
  const half = (upper - lower) / 2;
  const whole = Number.isInteger(estimate) && Number.isInteger(half);
  if (Math.abs(estimate - lower - (upper - estimate)) <= 1e-6 * half) {
    return `± ${quantity(half, half, whole)}`;
  }
  return `(${ends(row)})`;
}

/** Both ends of an interval in words. */
function ends({ lower, upper }) {
  const half = (upper - lower) / 2;
  const [low, high] = [lower, upper].map((one) => quantity(one, half, Number.isInteger(one)));
  return `${low} to ${high}`;
}

/** An estimate with the decimals that its interval makes sense of. */
export function number(row) {
  const half = (row.upper - row.lower) / 2;
  const whole = Number.isInteger(row.estimate) && Number.isInteger(half);
  return quantity(row.estimate, half, whole);
}

export function count(value) {
  return fixed(value, 0);
}

/** A round number of an axis in full. */
export function tick(value) {
  if (Number.isInteger(value)) return fixed(value, 0);
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

export function percent(level) {
  return `${Number((100 * level).toPrecision(6))}%`;
}

/** Times in the zone of a stream. All moments are milliseconds since 1970. */
export class Clock {
  constructor(zone, everySeconds) {
    this.zone = zone;
    this.seconds = everySeconds % 60 !== 0;
    this.daily = everySeconds >= 86400;
    const parts = { timeZone: zone, hourCycle: "h23" };
    const day = { day: "numeric", month: "short", year: "numeric" };
    const hour = { hour: "2-digit", minute: "2-digit" };
    const second = this.seconds ? { ...hour, second: "2-digit" } : hour;
    const named = (options) => new Intl.DateTimeFormat("en-GB", { ...parts, ...options });
    this.forms = {
      full: named({ ...day, ...second }),
      day: named(day),
      dayMonth: named({ day: "numeric", month: "short" }),
      month: named({ month: "short" }),
      year: named({ year: "numeric" }),
      minute: named(hour),
      second: named({ ...hour, second: "2-digit" }),
    };
  }

  /** A moment in full: one form for the whole page. */
  full(moment) {
    return this.forms.full.format(moment);
  }

  time(moment) {
    return this.daily ? this.full(moment) : (this.seconds ? this.forms.second : this.forms.minute).format(moment);
  }

  /** A moment at which a window ends: days end at midnight, and are called by their own name. */
  end(moment) {
    return this.midnight(moment) ? this.forms.day.format(moment - 1) : this.full(moment);
  }

  /** The same in a sentence, after "until". */
  until(moment) {
    return this.midnight(moment) ? `the end of ${this.end(moment)}` : this.full(moment);
  }

  /** A window in words: a day by its name, and weeks and months by their first and last day. */
  window(start, end) {
    if (!this.midnight(start) || !this.midnight(end)) return `${this.full(start)} to ${this.time(end)}`;
    const [first, last] = [this.forms.day.format(start), this.end(end)];
    return first === last ? first : `${first} to ${last}`;
  }

  /** Whether windows are of days, and a day begins at a moment. */
  midnight(moment) {
    return this.daily && this.forms.second.format(moment) === "00:00:00";
  }

  /** What stands below an axis whose ticks are so many seconds apart. */
  ticks(moments, apart) {
    if (apart >= 86400 * 360) return moments.map((one) => this.forms.year.format(one));
    if (apart >= 86400 * 28) return below(moments, this.forms.month, this.forms.year);
    if (apart >= 86400) return moments.map((one) => this.forms.dayMonth.format(one));
    if (apart >= 60) return below(moments, this.forms.minute, this.forms.dayMonth);
    const seconds = { format: (one) => `${Math.floor(one / 1000) % 60} s` };
    return below(moments, seconds, this.forms.minute);
  }
}

/** Moments in words, and below each what it is a part of, where that begins. */
function below(moments, form, whole) {
  let before = null;
  return moments.map((one) => {
    const part = whole.format(one);
    const shown = part === before ? form.format(one) : `${form.format(one)}\n${part}`;
    before = part;
    return shown;
  });
}

const UNITS = { s: 1, m: 60, h: 3600, d: 86400, w: 604800, mo: 2592000 };
const NAMES = { s: "second", m: "minute", h: "hour", d: "day", w: "week", mo: "month" };

/** About how many seconds a window such as "15m" lasts. */
export function secondsOf(every) {
  const [, amount, unit] = /^(\d+)([a-z]+)$/.exec(every) ?? [null, "1", "h"];
  return Number(amount) * (UNITS[unit] ?? 3600);
}

/** "15m" in words: every 15 minutes. */
export function everyWords(every) {
  const [, amount, unit] = /^(\d+)([a-z]+)$/.exec(every) ?? [null, null, null];
  if (!NAMES[unit]) return `every ${every}`;
  return amount === "1" ? `every ${NAMES[unit]}` : `every ${amount} ${NAMES[unit]}s`;
}
