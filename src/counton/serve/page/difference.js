// What was added between two moments, or how much more than elsewhere, with its interval.

import { band, ends, number, percent } from "./format.js";

/** Ends of windows that are offered to choose from. */
const OFFERED = 40;
/** What stands before the name of a group that is compared with. */
const GROUP = "group ";

export class Difference {
  /** `asked({group, from, to, level, against})` answers with a row of estimate, std, lower, upper. */
  constructor(page, asked) {
    this.page = page;
    this.asked = asked;
    this.form = page.querySelector("#difference-form");
    this.group = page.querySelector("#difference-group");
    this.from = page.querySelector("#from");
    this.to = page.querySelector("#to");
    this.against = page.querySelector("#against");
    this.its = ["#against-from", "#against-to"].map((field) => page.querySelector(field));
    this.answer = page.querySelector("#difference-answer");
    this.following = null;
    this.round = 0;
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.group.addEventListener("change", () => this.ask());
    this.against.addEventListener("change", () => this.compare());
    this.its.forEach((field) => field.addEventListener("change", () => this.ask()));
    for (const field of [this.from, this.to]) {
      field.addEventListener("change", () => {
        this.following = null;
        this.press();
        this.ask();
      });
    }
  }

  /** Another stream, or more windows of this one. */
  show({ clock, spans, groups, first, level, unit }) {
    Object.assign(this, { clock, spans, level, unit });
    const chosen = groups.includes(this.group.value) ? this.group.value : first;
    if ([...this.group.options].map((one) => one.value).join("\n") !== groups.join("\n")) {
      this.group.replaceChildren(...groups.map((name) => new Option(name, name)));
      const { value } = this.against;
      const others = this.page.querySelector("#against-groups");
      others.replaceChildren(...groups.map((name) => new Option(name, GROUP + name)));
      others.hidden = others.disabled = groups.length < 2;
      this.against.value = value;
      if (this.against.selectedIndex < 0) this.against.value = "";
    }
    this.group.value = chosen;
    this.form.querySelector("#difference-group-label").hidden = groups.length < 2;
    this.moments();
    this.buttons();
    if (this.following !== null || !this.from.value) this.follow(this.following ?? this.offers[0]);
    else this.ask();
  }

  /** Forget the moments, as when another stream is opened. */
  reset() {
    this.following = null;
    this.round += 1; // an answer that is under way is of the stream before
    this.from.value = this.to.value = this.against.value = "";
    this.its.forEach((field) => {
      field.value = "";
      field.closest("label").hidden = true;
    });
    this.answer.replaceChildren();
  }

  /** Ends of the last windows, to choose from. */
  moments() {
    const texts = this.spans.slice(-OFFERED).map(({ end }) => this.clock.full(end)).reverse();
    const list = this.page.querySelector("#moments");
    if (list.dataset.key === texts.join()) return;
    list.dataset.key = texts.join();
    list.replaceChildren(...texts.map((text) => new Option(text, text)));
  }

  get offers() {
    return [10, 100, 1, 1000].filter((count) => count < this.spans.length).slice(0, 3);
  }

  buttons() {
    const offers = [...this.offers].sort((one, other) => one - other);
    const key = offers.join();
    const quick = this.page.querySelector("#quick");
    if (quick.dataset.key !== key) {
      quick.dataset.key = key;
      quick.replaceChildren(
        ...offers.map((count) => {
          const button = document.createElement("button");
          button.type = "button";
          button.dataset.count = String(count);
          button.textContent = count === 1 ? "Last window" : `Last ${count} windows`;
          button.addEventListener("click", () => this.follow(count));
          return button;
        }),
      );
    }
    this.press();
  }

  press() {
    for (const button of this.page.querySelectorAll("#quick button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.count) === this.following));
    }
  }

  /** The last windows, also when more come. */
  follow(count) {
    const { spans } = this;
    if (count === undefined || spans.length < 2) return;
    this.following = count;
    this.press();
    const last = spans.length - 1;
    this.set(spans[Math.max(0, last - count)].end, spans[last].end);
  }

  /** The ends of two windows, as marked in the chart. */
  mark(from, to) {
    this.following = null;
    this.press();
    this.set(from, to);
  }

  /** What it is compared with was chosen; another time begins as the time before. */
  compare() {
    const another = this.against.value === "time";
    this.its.forEach((field) => (field.closest("label").hidden = !another));
    const [from, to] = [this.from, this.to].map((field) => this.clock.read(field.value));
    if (another && to > from) {
      const before = this.before(from, to) ?? [from, to];
      this.its.forEach((field, place) => (field.value = this.clock.full(before[place])));
    }
    this.ask();
  }

  /** As many windows as lie between two moments, before them; null where there are fewer. */
  before(from, to) {
    const ends = this.spans.map(({ end }) => end);
    const [first, last] = [from, to].map((at) => ends.findLastIndex((end) => end <= at));
    const begin = 2 * first - last;
    return begin < 0 ? null : [ends[begin], ends[first]];
  }

  /** What is compared with, as the service is asked; null: nothing. */
  other(from, to) {
    const { value } = this.against;
    if (value.startsWith(GROUP)) return { group: value.slice(GROUP.length) };
    if (value === "before") return { span: this.before(from, to) };
    if (value === "time") return { span: this.its.map((field) => this.clock.read(field.value)) };
    return null;
  }

  set(from, to) {
    this.from.value = this.clock.full(from);
    this.to.value = this.clock.full(to);
    this.ask();
  }

  async ask() {
    const [from, to] = [this.from, this.to].map((field) => this.clock?.read(field.value));
    const round = (this.round += 1);
    if (from === undefined) return;
    if (Number.isNaN(from) || Number.isNaN(to)) {
      this.say(`Write a moment as ${this.clock.full(this.spans.at(-1).end)}.`);
      return;
    }
    if (from >= to) {
      this.say(`The first moment must lie before the second.`);
      return;
    }
    const against = this.other(from, to);
    if (against?.span === null) {
      this.say("Fewer windows are shown before than between the moments: choose a shorter time, or show more.");
      return;
    }
    if (against?.span?.some(Number.isNaN)) {
      this.say(`Write a moment as ${this.clock.full(this.spans.at(-1).end)}.`);
      return;
    }
    if (against?.span && against.span[0] >= against.span[1]) {
      this.say("No window lies in the time that is compared with.");
      return;
    }
    const { level } = this;
    const group = this.group.value;
    try {
      const row = await this.asked({ group, from, to, level, against });
      if (round === this.round) this.tell(row, group, level);
    } catch (error) {
      if (round === this.round) this.say(error.message);
    }
  }

  say(words) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = words;
    this.answer.replaceChildren(note);
  }

  tell(row, asked, level) {
    const figure = document.createElement("p");
    figure.className = "figure";
    const give = document.createElement("span");
    give.className = "give";
    give.textContent = ` ${[band(row), this.unit].filter(Boolean).join(" ")}`;
    figure.append(number(row), give);
    const words = document.createElement("p");
    words.className = "note";
    const time = (one) => `from ${this.clock.full(Date.parse(one.from))} to ${this.clock.full(Date.parse(one.to))}`;
    const named = (name, one) => (this.group.options.length > 1 ? `${name}, ${time(one)}` : time(one));
    const what = named(asked, row);
    const minus = row.against ? `, minus ${named(row.against.group, row.against)}` : "";
    words.textContent = `${what}${minus}: ${ends(row)} with probability ${percent(level)}.`;
    this.answer.replaceChildren(figure, words);
  }
}
