// The page: what is asked of the service, when, and which part shows it.

import { COLOURS, Chart } from "./chart.js";
import { Clock, count, everyWords, percent, secondsOf } from "./format.js";
import { element, showGroups, showHead, showLegend, showPromise, showTable } from "./panels.js";
import { Series, provisional, unitOf } from "./series.js";
import { Live, NeedsToken, Service, Unreachable, at } from "./service.js";

const page = document;
const find = (selector) => page.querySelector(selector);
/** Lines that a chart shows before anyone picks some. */
const FIRST_PICKED = 5;
/** Windows that are shown: noise hides single ones sooner than totals. */
const SPAN = { totals: 500, windows: 60 };
/** Milliseconds, at least, between two questions about the budget and what is public of a stream. */
const REFRESH = 5000;

class App {
  constructor() {
    this.service = new Service();
    this.chart = new Chart(find("#chart"));
    this.live = null;
    this.heard = null; // news that waits until what is shown has been asked anew; null: none does
    this.stream = null;
    this.picked = new Map(); // from the name of a line to its colour
    this.stated = new URLSearchParams(location.hash.slice(1));
    this.listen();
  }

  listen() {
    find("#streams").addEventListener("change", (event) => this.open(event.target.value));
    find("#of").addEventListener("change", () => this.reload());
    find("#measures").addEventListener("change", () => {
      this.picked.clear();
      this.reload();
    });
    find("#token-form").addEventListener("submit", () => {
      this.service.use(find("#token-field").value.trim());
      find("#token-field").value = "";
      this.start();
    });
    const narrow = matchMedia("(max-width: 60rem)");
    const place = () => this.place(narrow.matches);
    narrow.addEventListener("change", place);
    place();
    setInterval(() => this.stream && !page.hidden && this.head(), 1000);
  }

  /** In one column the long text comes last, and groups stand below their chart: for keys too. */
  place(narrow) {
    const cards = ["#groups-card", "#protected-card", "#download-card"].map(find);
    if (narrow) {
      find(".chart-card").after(cards[0]);
      find(".main-column").append(...cards.slice(1));
    } else find(".side-column").append(...cards);
  }

  get of() {
    return find('input[name="of"]:checked').value;
  }

  get stepped() {
    return this.counts && this.of === "windows";
  }

  /** What newest numbers and the order of groups are of: totals, where they are released. */
  get usual() {
    return this.stream.release === "windows" ? "windows" : "totals";
  }

  get counts() {
    return ["count", "sum"].includes(this.stream.statistic);
  }

  async start() {
    this.ask();
    try {
      this.trouble(null);
      const { streams } = await this.service.streams();
      this.streams = streams;
      const names = streams.map(({ name }) => name);
      find("#streams").replaceChildren(...names.map((name) => new Option(name, name)));
      find("#streams-label").hidden = names.length < 2;
      if (!names.length) {
        this.trouble("This service has no streams yet. Add a job to its file and start it again.");
        this.settle();
        return;
      }
      const stated = this.stated.get("stream");
      await this.open(names.includes(stated) ? stated : names[0]);
    } catch (error) {
      this.unanswered(error, () => this.start());
    }
  }

  /**
   * All that is shown is being asked anew. Until it is drawn, news waits: numbers that answer one
   * question never stand below the words of another, and none is lost between the two.
   */
  ask() {
    this.heard ??= [];
    find("#numbers").setAttribute("aria-busy", "true");
  }

  /** What was asked is drawn, or never will be. */
  settle() {
    const heard = this.heard ?? [];
    this.heard = null;
    find("#numbers").setAttribute("aria-busy", "false");
    heard.forEach((told) => this.released(told));
  }

  /** Show a stream from its beginning. The one before stays until the service has answered. */
  async open(name) {
    const opening = (this.opening = (this.opening ?? 0) + 1);
    this.ask();
    find("#streams").value = name;
    let stream;
    try {
      stream = await this.service.stream(name);
    } catch (error) {
      if (opening !== this.opening) return;
      if (this.stream !== null) find("#streams").value = this.stream.name;
      this.unanswered(error, () => opening === this.opening && this.open(name));
      return;
    }
    if (opening !== this.opening) return; // another was chosen meanwhile
    this.live?.close();
    clearTimeout(this.refreshing);
    clearTimeout(this.catching);
    this.live = this.refreshing = this.catching = null;
    this.heard = [];
    this.stream = stream;
    this.series = new Series();
    this.picked.clear();
    this.loaded = new Set();
    page.title = `${name} · counton`;
    this.clock = new Clock(this.stream.timezone, secondsOf(this.stream.every));
    if (this.stated.get("stream") === name) this.restore();
    const { release } = this.stream;
    find("#of").hidden = !this.counts || release !== "both";
    if (this.counts && release !== "both") find(`input[name="of"][value="${release}"]`).checked = true;
    find("#content").hidden = false;
    showPromise(page, this.stream);
    this.state("waiting", "connecting");
    await this.reload();
  }

  /** What the address says, so that a view can be sent to others. */
  restore() {
    const { stated } = this;
    const of = stated.get("of") === "windows" ? "windows" : "totals";
    find(`input[name="of"][value="${of}"]`).checked = true;
    this.wanted = stated.getAll("group");
  }

  remember() {
    const stated = new URLSearchParams({ stream: this.stream.name });
    if (this.stepped) stated.set("of", "windows");
    for (const name of this.picked.keys()) stated.append("group", name);
    history.replaceState(null, "", `#${stated}`);
  }

  get most() {
    return SPAN[this.of];
  }

  query(extra = {}, groups = []) {
    const { of, ...rest } = { of: this.of, ...extra };
    const query = new URLSearchParams(rest);
    if (this.counts) query.set("of", of);
    for (const group of groups) query.append("group", group);
    return query;
  }

  /** Groups to ask for; none where a stream has no groups to choose from: then it sends all rows. */
  chosenGroups() {
    const found = [...this.picked.keys()].map((name) => this.series.latest.get(name)?.group);
    const groups = [...new Set(found.filter((group) => group !== undefined))];
    return (this.stream.groups?.length ?? 0) > 1 ? groups : [];
  }

  /** Ask anew for all that is shown. */
  async reload() {
    const round = (this.round = (this.round ?? 0) + 1);
    const { name } = this.stream;
    this.ask();
    try {
      const newest = await this.service.series(name, this.query({ last: "1", of: this.usual }));
      if (round !== this.round) return;
      this.series.latest.clear();
      this.series.takeLatest(newest.rows);
      this.measureOptions();
      this.pickFirst();
      const extra = { last: String(this.most) };
      const groups = this.chosenGroups();
      const history = await this.service.series(name, this.query(extra, groups));
      if (round !== this.round) return;
      this.series.forget();
      this.series.take(history.rows);
      this.loaded = new Set(groups);
      this.trouble(null);
      this.remember();
      this.all();
      this.settle();
      if (this.live === null) this.listenLive(name);
      else if (this.connected) this.state("live", "live");
      this.complete(); // groups that were picked meanwhile
    } catch (error) {
      if (round === this.round) this.unanswered(error, () => round === this.round && this.reload());
    }
  }

  pickFirst() {
    const there = this.series.ranked();
    const drawn = new Set(this.measured(there));
    const stated = (this.wanted ?? []).find((name) => this.series.latest.has(name));
    const measure = stated === undefined ? null : this.series.measureOf(stated);
    if (measure !== null) find(`#measures input[value="${measure}"]`).checked = true;
    for (const name of [...this.picked.keys()]) {
      if (!drawn.has(name)) this.picked.delete(name);
    }
    const wanted = (this.wanted ?? []).filter((name) => this.series.latest.has(name));
    if (this.series.latest.size) this.wanted = [];
    wanted.slice(0, COLOURS).forEach((name) => this.pick(name));
    if (!this.picked.size) this.preferred(there).forEach((name) => this.pick(name));
  }

  /** Lines of one measure: an average's sum and number have other units than the average. */
  measured(names) {
    return names.filter((name) => this.series.measureOf(name) === this.measure);
  }

  /** Which measure is shown; null where a stream has one alone. */
  get measure() {
    if (!this.series.measures.length) return null;
    const chosen = find('#measures input:checked')?.value;
    return this.series.measures.includes(chosen) ? chosen : this.series.measures[0];
  }

  /** What measures there are to choose from. */
  measureOptions() {
    const { measures } = this.series;
    const field = find("#measures");
    field.hidden = measures.length < 2;
    if (field.dataset.key === measures.join()) return;
    field.dataset.key = measures.join();
    field.replaceChildren(field.firstElementChild, ...measures.map((name, place) => choice(name, !place)));
  }

  /** The name of a line where its measure stands beside. */
  label(name) {
    return this.series.labelOf(name, this.measure);
  }

  preferred(there) {
    return this.measured(there).slice(0, FIRST_PICKED);
  }

  pick(name) {
    const used = new Set(this.picked.values());
    const free = [...Array(COLOURS).keys()].find((colour) => !used.has(colour));
    if (free !== undefined) this.picked.set(name, free);
  }

  async toggled(name, on) {
    if (on) this.pick(name);
    else this.picked.delete(name);
    if (!this.picked.size) this.pick(name); // an empty chart says nothing
    this.remember();
    if (this.heard !== null) return; // it is drawn with what is being asked
    if (!(await this.complete())) this.all();
  }

  /** Ask for the windows of groups that were picked and not asked for yet; whether there were any. */
  async complete() {
    const { round, series } = this;
    const { name } = this.stream;
    const missing = this.chosenGroups().filter((group) => !this.loaded.has(group));
    if (!missing.length) return false;
    this.ask();
    try {
      const extra = { last: String(this.most) };
      const { rows } = await this.service.series(name, this.query(extra, missing));
      if (round !== this.round) return true;
      missing.forEach((group) => this.loaded.add(group));
      // Newer windows come for all groups alike.
      series.take(rows.filter(({ step }) => series.windows.has(step)));
      this.all();
      this.settle();
      this.complete();
    } catch (error) {
      if (round === this.round) this.unanswered(error, () => round === this.round && this.reload());
    }
    return true;
  }

  listenLive(name) {
    let before = false;
    this.connected = false;
    this.live = new Live(this.service, name, this.series.lastStep, {
      released: (told) => this.released(told),
      connected: () => {
        this.connected = true;
        this.state("live", "live");
        if (before) this.reload(); // what was released meanwhile
        before = true;
      },
      lost: () => {
        this.connected = false;
        this.state("lost", "connection lost, trying again");
      },
      refused: (error) => this.failed(error, () => this.start()),
    });
  }

  /** A window was released: its rows came with the news where they are what is shown. */
  released(told) {
    if (this.heard !== null) {
      this.heard.push(told);
      return;
    }
    const { rows } = told;
    const newest = Math.max(0, ...rows.map(({ step }) => step));
    this.stream.steps = Math.max(this.stream.steps ?? 0, newest);
    this.expect();
    const shown = !this.counts || this.of === this.usual;
    if (!this.series.latest.size) {
      this.reload();
      return;
    }
    this.series.takeLatest(rows);
    if (shown) {
      const { loaded } = this;
      this.series.take(loaded.size ? rows.filter(({ group }) => loaded.has(group)) : rows);
      this.later();
    } else if (!this.catching) {
      // Many pages hear the news at once; they do not all ask at once.
      this.catching = setTimeout(() => this.catchUp(), 400 * Math.random());
    }
  }

  /** Ask for the windows that came since, where the news did not bring what is shown. */
  async catchUp() {
    const round = this.round;
    const { name } = this.stream;
    try {
      const from = new Date(this.series.until ?? 0).toISOString();
      const groups = new Set([...this.loaded, ...this.chosenGroups()]);
      const { rows } = await this.service.series(name, this.query({ from }, [...groups]));
      if (round !== this.round) return;
      this.series.take(rows);
      this.later();
    } catch (error) {
      if (round === this.round) this.failed(error, () => round === this.round && this.reload());
    } finally {
      this.catching = null;
    }
  }

  /** Draw once for all that came since the last picture. */
  later() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      if (this.heard === null) this.all();
    });
  }

  /** The next release, by the clock; what the service says of the stream is asked now and then. */
  expect() {
    const { stream } = this;
    const next = Date.parse(stream.next_release) + 1000 * secondsOf(stream.every);
    stream.next_release = Number.isNaN(next) ? null : new Date(next).toISOString();
    if (this.refreshing) return;
    this.refreshing = setTimeout(async () => {
      this.refreshing = null;
      try {
        const told = await this.service.stream(stream.name);
        if (told.name !== this.stream.name) return;
        this.stream = told;
        showPromise(page, told);
        this.head();
      } catch (error) {
        if (error instanceof NeedsToken) this.failed(error, () => this.start());
      }
    }, REFRESH * (1 + Math.random()));
  }

  head() {
    const { stream, series, clock } = this;
    const names = this.preferred(series.ranked());
    const label = (name) => this.label(name);
    showHead(page, { stream, series, clock, names, label, measure: this.measure, lead: this.lead(), now: Date.now() });
  }

  lead() {
    const { what, unit, statistic } = this.stream;
    const words = what ?? (unit ? `${statistic} of ${unit}` : statistic);
    return words.charAt(0).toUpperCase() + words.slice(1).replace(/\.$/, "");
  }

  groups() {
    const { series, picked } = this;
    const names = this.measured(series.ranked());
    const label = (name) => this.label(name);
    const toggled = (name, on) => this.toggled(name, on);
    showGroups(page, { series, names, picked, most: COLOURS, toggled, label, bars: this.counts });
  }

  all() {
    const { series, clock, picked, stepped } = this;
    const spans = series.spans(this.most);
    // What is drawn now: for whoever waits for it, as programs that drive a browser do.
    Object.assign(find("#numbers").dataset, { stream: this.stream.name, step: spans.at(-1)?.step ?? 0 });
    const lines = [...picked].map(([name, colour]) => ({
      name: this.label(name), colour, rows: series.rows(name, spans),
    }));
    const empty = !spans.length;
    find("#nothing").hidden = !empty;
    find("#chart").hidden = empty;
    find("#chart-title").textContent = this.title();
    this.head();
    this.groups();
    showLegend(page, lines);
    const unit = this.unit();
    find("#axis").textContent = unit;
    showTable(page, { spans, lines, clock, stepped, unit });
    find("#table").closest(".card").hidden = empty;
    find("#download-card").hidden = empty || this.service.token !== null; // a link carries no token
    this.links();
    if (empty) {
      find("#nothing-words").textContent =
        `The first window is released when it has ended (${everyWords(this.stream.every)}). This page will show it by itself.`;
      find("#chart-note").textContent = "";
      return;
    }
    this.chart.draw({ clock, windows: spans, lines, stepped, fromZero: this.counts });
    this.note(lines.some(({ rows }) => rows.some(provisional)));
  }

  title() {
    if (!this.counts) {
      const of = this.measure === null ? "" : `${this.measure} up`;
      return of ? of.charAt(0).toUpperCase() + of.slice(1) + " to the end of each window" : "Up to the end of each window";
    }
    return this.stepped ? "In each window" : "Running totals";
  }

  /** What the numbers of the lines that are shown are of; "": they differ, or nobody says. */
  unit() {
    const units = new Set([...this.picked.keys()].map((name) => unitOf(this.stream.units, this.series.latest.get(name))));
    return units.size === 1 ? [...units][0] : "";
  }

  note(open) {
    const words = [`Bands hold the true number with probability ${percent(this.stream.level)}, each by itself.`];
    if (open) words.push("Windows with “provisional” still take late rows, and their numbers change.");
    find("#chart-note").textContent = words.join(" ");
  }

  /** All released windows of all groups, as files. */
  links() {
    for (const format of ["csv", "json"]) {
      const query = this.query({ format });
      find(`#download-${format}`).href = `${at(this.stream.name)}/series?${query}`;
    }
  }

  state(kind, words) {
    find("#state").dataset.state = kind;
    if (find("#state-words").textContent !== words) find("#state-words").textContent = words;
  }

  trouble(words) {
    find("#trouble").hidden = words === null;
    find("#trouble").textContent = words ?? "";
  }

  /** What all is drawn from was not answered: it is asked again where that can help. */
  unanswered(error, again) {
    this.failed(error, again);
    if (!(error instanceof Unreachable)) this.settle();
  }

  failed(error, again) {
    if (error instanceof NeedsToken) {
      this.live?.close();
      if (this.heard !== null) this.heard = [];
      this.state("waiting", "needs a token");
      if (this.service.token) find("#token-words").textContent = `${error.message}. Paste a token that may read.`;
      this.service.use(null);
      if (!find("#token").open) find("#token").showModal();
      return;
    }
    if (error instanceof Unreachable) {
      this.state("lost", "connection lost, trying again");
      setTimeout(again, 2000);
      return;
    }
    this.trouble(error.message);
  }
}

/** One of the measures of a stream. */
function choice(name, checked) {
  const input = element("input", { type: "radio", name: "measure", value: name, checked });
  const words = name.charAt(0).toUpperCase() + name.slice(1);
  return element("label", {}, input, element("span", { textContent: words }));
}

new App().start();
