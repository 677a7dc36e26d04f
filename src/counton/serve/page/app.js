// The page: it asks the service for released numbers, shows them, and asks again when more are due.

import { Chart } from "./chart.js";
import {
  Clock, band, count, everyWords, nameOf, noteOf, number, percent, publishedSeries, sentence, seriesWords, shownName, unitOf,
} from "./format.js";

const find = (selector) => document.querySelector(selector);
/** Windows that are shown: noise hides single ones sooner than totals. */
const SPAN = { cumulative: 500, "per-window": 60, rolling: 500, decayed: 500 };
/** Rows of the two tables at most. */
const [LISTED, ROWS] = [500, 100];
/** Milliseconds: between two questions at least and at most, where a release is late, and after a failure. */
const [OFTEN, SELDOM, LATE, AGAIN] = [1000, 30_000, 15_000, 2000];

/** Read, keep or forget the token of this tab alone; a browser that blocks storage keeps none. */
function stored(verb, ...token) {
  try {
    return sessionStorage[verb]("counton-token", ...token);
  } catch {
    return null;
  }
}

function at(name) {
  return `v1/streams/${encodeURIComponent(name)}`;
}

function element(tag, options = {}, ...inside) {
  const made = Object.assign(document.createElement(tag), options);
  made.append(...inside);
  return made;
}

/** A number with what it may be off by, fainter. */
function figure(row, unit = "") {
  const off = [band(row), unit].filter(Boolean).join(" ");
  return [number(row), " ", element("span", { className: "give", textContent: off })];
}

function say(selector, words) {
  const place = find(selector);
  if (place.textContent !== words) place.textContent = words; // what stands is not read aloud again
}

class App {
  constructor() {
    this.chart = new Chart(find("#chart"));
    this.token = stored("getItem");
    this.turn = 0;
    const stated = new URLSearchParams(location.hash.slice(1));
    this.name = stated.get("stream");
    this.line = stated.get("line");
    for (const choice of document.querySelectorAll("#series input")) choice.checked = choice.value === stated.get("series");
    find("#streams").addEventListener("change", (event) => {
      [this.name, this.line] = [event.target.value, null];
      this.show();
    });
    find("#series").addEventListener("change", () => this.show());
    find("#newest").addEventListener("change", (event) => {
      this.line = event.target.value;
      this.show();
    });
    find("#token-form").addEventListener("submit", () => {
      this.token = find("#token-field").value.trim();
      stored("setItem", this.token);
      find("#token-field").value = "";
      this.show();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.round());
    this.show();
  }

  async ask(path) {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    const answer = await fetch(path, { headers, cache: "no-store" });
    if (answer.ok) return answer.json();
    const told = await answer.json().catch(() => ({}));
    throw Object.assign(new Error(told.detail ?? `the service answers ${answer.status}`), { status: answer.status });
  }

  /** Somebody asks for something else: until it is drawn, the page is busy. */
  show() {
    find("#numbers").setAttribute("aria-busy", "true");
    this.listed = 0;
    this.round();
  }

  /** Ask for all that is shown, draw it, and ask again later. An answer to an older question is dropped. */
  async round() {
    clearTimeout(this.timer);
    const turn = (this.turn += 1);
    const before = this.steps;
    let wait = AGAIN;
    try {
      const drawn = await this.asked();
      if (turn !== this.turn) return;
      drawn();
      this.state("live", "live");
      say("#trouble", "");
      find("#numbers").setAttribute("aria-busy", "false");
      const due = Date.parse(this.stream.next_release ?? "") - Date.now();
      this.late = due <= 0 && this.steps === before ? Math.min(LATE, 2 * (this.late || OFTEN)) : 0; // longer each time
      wait = (this.late || Math.max(OFTEN, Math.min(SELDOM, due || SELDOM))) + 500 * Math.random(); // not all pages at once
    } catch (error) {
      if (turn !== this.turn) return;
      this.listed = 0; // the stream may be gone
      if ([401, 403].includes(error.status)) return this.askForToken(error);
      if (error.status === undefined || error.status >= 500) this.state("lost", "connection lost, trying again");
      else say("#trouble", error.message);
    }
    find("#trouble").hidden = !find("#trouble").textContent;
    if (!document.hidden) this.timer = setTimeout(() => this.round(), wait);
  }

  /** Ask the service; return what draws its answers. */
  async asked() {
    const now = Date.now();
    const kept = now - this.listed < SELDOM; // streams, notes, provisional numbers change between releases, too
    const names = kept ? this.names : (await this.ask("v1/streams")).streams.map(({ name }) => name);
    const name = names.includes(this.name) ? this.name : names[0];
    if (name === undefined) throw Object.assign(new Error("This service has no streams yet."), { status: 404 });
    const stream = await this.ask(at(name));
    if (kept && this.steps === stream.steps) return () => this.head(stream);
    const counts = ["count", "sum"].includes(stream.statistic);
    const published = publishedSeries(stream);
    const chosen = find("#series :checked")?.value;
    const series = published.includes(chosen) ? chosen : published[0];
    const rowsOf = async (last, ...more) => {
      const query = new URLSearchParams([...(counts ? [["series", series]] : []), ["last", last], ...more]);
      const found = [];
      for (let next = `series?${query}`; next;) {
        const page = await this.ask(`${at(name)}/${next}`);
        found.push(...page.rows.map(named));
        next = page.next;
      }
      return found;
    };
    const groupOf = ({ group }) => (stream.statistic === "top-k" ? "" : group); // the largest are others each time
    const groups = stream.groups ?? [];
    const many = groups.length > 1;
    let rows = await rowsOf(many ? 1 : SPAN[series]);
    const there = new Set(rows.map(([, row]) => groupOf(row)));
    // A number that was withdrawn has no row: the one before it is shown.
    if (many && !groups.every((group) => there.has(groupOf({ group })))) rows = await rowsOf(SPAN["per-window"]);
    const until = new Map(rows.map(([, row]) => [groupOf(row), row.window_index]));
    const newest = new Map([...new Map(rows)].filter(([, row]) => row.window_index === until.get(groupOf(row))));
    const line = newest.has(this.line) ? this.line : newest.keys().next().value;
    const group = newest.get(line)?.group;
    if (many && group !== undefined) rows = await rowsOf(SPAN[series], ["group", group]);
    const history = rows.filter(([one]) => one === line).map(([, row]) => row);
    return () => {
      Object.assign(this, { names, stream, name, line, counts, published, series, newest, history, steps: stream.steps });
      if (!kept) this.listed = now;
      this.draw();
    };
  }

  draw() {
    const { stream, names, name, line, series, published, counts, history } = this;
    const clock = (this.clock = new Clock(stream.timezone, stream.every));
    const stepped = counts && series === "per-window";
    const several = counts && published.length > 1;
    const address = new URLSearchParams({ stream: name, ...(several && { series }), ...(line && { line }) });
    window.history.replaceState(null, "", `#${address}`); // a view can be sent to others
    document.title = `${name} · counton`;
    if ([...find("#streams")].map((one) => one.value).join("\n") !== names.join("\n")) {
      find("#streams").replaceChildren(...names.map((one) => new Option(one, one)));
    }
    find("#streams").value = name;
    find("#streams-label").hidden = names.length < 2;
    find("#content").hidden = false;
    find("#series").hidden = !several;
    for (const choice of document.querySelectorAll("#series input")) {
      choice.parentElement.hidden = !published.includes(choice.value);
      choice.checked = choice.value === series;
    }
    const empty = !history.length;
    find("#nothing").hidden = !empty;
    find("#nothing").textContent = stream.steps ? "No number of the windows that are released is shown."
      : `Nothing has been released yet. The first window is released when it has ended (${everyWords(stream.every)}).`;
    for (const part of ["#chart", "#history-card", "#chart-note"]) find(part).hidden = empty;
    find("#downloads").hidden = empty || this.token !== null; // a link carries no token
    this.head(stream);
    this.list();
    const what = counts ? seriesWords(stream, series) : "Up to the end of each window";
    find("#chart-title").textContent = this.newest.size > 1 ? `${what}: ${shownName(line)}` : what;
    if (!empty) this.figures(clock, stepped);
    find("#download-csv").href = `${at(name)}/series?${new URLSearchParams({ format: "csv", ...(counts && { series }) })}`;
    find("#download-json").href = `${at(name)}/release`; // a series has pages
    // What is drawn now: for whoever waits for it, as programs that drive a browser do.
    Object.assign(find("#numbers").dataset, { stream: name, step: history.at(-1)?.window_index ?? 0 });
  }

  /** What the stream is, its newest number, and what it protects. */
  head(stream) {
    const { clock, history, line, newest } = this;
    this.stream = stream;
    say("#title", stream.name);
    const what = stream.what ?? `${stream.statistic} of ${stream.unit}`;
    say("#lead", [sentence(what).slice(0, -1), everyWords(stream.every), `times in ${stream.timezone}`].join(" · "));
    const row = history.at(-1);
    const facts = [["Windows released", `${count(stream.steps)}${stream.horizon ? ` of ${count(stream.horizon)}` : ""}`]];
    if (stream.planned_error) facts.push(["Planned error at the end", stream.planned_error]);
    if (stream.next_release) facts.push(["Next release", clock.full(Date.parse(stream.next_release))]);
    if (row) {
      facts.unshift(["Counted until", clock.end(Date.parse(row.window_end))]);
      facts.unshift([newest.size > 1 ? shownName(line) : "Newest number", ...figure(row, unitOf(stream.units, row))]);
    }
    const made = facts.map(([term, ...inside]) =>
      element("div", {}, element("dt", { textContent: term }), element("dd", {}, ...inside)));
    find("#facts").replaceChildren(...made);
    const [scoped = stream.guarantee, meaning = ""] = stream.description ?? [];
    say("#protected", stream.protects ?? "");
    say("#people", stream.people ? sentence(stream.people) : "");
    say("#guarantee", [`${stream.protected}: ${scoped}`, meaning].filter(Boolean).map(sentence).join(" "));
    const besides = (stream.systematic_errors ?? []).map((one) => element("li", { textContent: sentence(one) }));
    find("#besides").replaceChildren(...besides);
    const { spent, budget, left } = stream.budget;
    const words = `Spent by all series together: ${spent ?? (budget === null ? "no one sum" : "nothing yet")}. `;
    say("#budget", words + (budget === null ? "No budget was set." : `Budget: ${budget}. Left: ${left ?? "nothing"}.`));
  }

  /** The newest number of each line, to choose the one that is shown. Rows stay: none moves under a finger. */
  list() {
    const lines = [...this.newest].slice(0, LISTED);
    const body = find("#newest tbody");
    if ([...body.rows].map((row) => row.dataset.line).join("\n") !== lines.map(([line]) => line).join("\n")) {
      body.replaceChildren(...lines.map(([line]) => {
        const box = element("input", { type: "radio", name: "line", value: line });
        const made = element("tr", {}, element("th", { scope: "row" }, element("label", {}, box, shownName(line))), element("td"));
        made.dataset.line = line;
        return made;
      }));
    }
    lines.forEach(([line, row], place) => {
      body.rows[place].querySelector("input").checked = line === this.line;
      body.rows[place].lastChild.replaceChildren(...figure(row), noteOf(row) ? ` (${noteOf(row)})` : "");
    });
    find("#newest-card").hidden = this.newest.size < 2;
    const more = this.newest.size - lines.length;
    find("#newest-note").textContent = more ? `and ${count(more)} more, in the files` : "";
  }

  /** The line that is shown: chart, and the same numbers as text, newest first. */
  figures(clock, stepped) {
    const { history, stream } = this;
    this.chart.draw(history, clock, { stepped, fromZero: this.counts });
    const notes = [`The interval holds the number without noise with probability ${percent(stream.confidence_level)}.`];
    if (history.some(noteOf)) notes.push("Hollow: a window with a note.");
    if (history.some(({ is_final }) => is_final === false)) {
      notes.push("Windows with “provisional” still take late rows, and their numbers change.");
    }
    if (history.some(({ is_complete }) => is_complete === false)) {
      notes.push("Numbers with “incomplete” count fewer windows: all since the start.");
    }
    find("#chart-note").textContent = notes.join(" ");
    find("#when").textContent = stepped ? "Window" : "Until";
    const unit = unitOf(stream.units, history.at(-1));
    find("#what").textContent = unit ? `Number (${unit})` : "Number";
    const noted = history.some((row) => noteOf(row) || row.is_final === false || row.is_complete === false);
    find("#history").classList.toggle("plain", !noted);
    const rows = history.slice(-ROWS).reverse().map((row) => {
      const [start, end] = [row.window_start, row.window_end].map(Date.parse);
      const states = [row.is_final === false && "provisional", row.is_complete === false && "incomplete"];
      const note = [...states, noteOf(row)].filter(Boolean).join("; ");
      return element("tr", {}, element("th", { scope: "row", textContent: stepped ? clock.window(start, end) : clock.end(end) }),
        element("td", {}, ...figure(row)), element("td", { textContent: note }));
    });
    find("#history tbody").replaceChildren(...rows);
    const told = history.length > ROWS ? `The last ${ROWS} of ${count(history.length)} windows in the chart.` : "";
    find("#history-note").textContent = told;
  }

  state(kind, words) {
    find("#state").dataset.state = kind;
    say("#state", words);
  }

  askForToken(error) {
    this.state("waiting", "needs a token");
    if (this.token) say("#token-words", `${sentence(error.message)} Paste a token that may read.`);
    this.token = null;
    stored("removeItem");
    if (!find("#token").open) find("#token").showModal();
  }
}

/** The name of a row's line, and the row. */
function named(row) {
  return [nameOf(row), row];
}

new App();
