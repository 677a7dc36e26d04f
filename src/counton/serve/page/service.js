// What the page asks of the service: released numbers only, there is nothing else to be had here.

const TOKEN = "counton-token";

export class NeedsToken extends Error {}

/** No answer at all: the service or the way to it is down. */
export class Unreachable extends Error {}

/** An answer other than success, in the words of the service. */
export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

function kept() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

export class Service {
  constructor() {
    this.token = kept();
  }

  /** A token for this tab alone: it is gone when the tab closes. */
  use(token) {
    this.token = token;
    try {
      if (token) sessionStorage.setItem(TOKEN, token);
      else sessionStorage.removeItem(TOKEN);
    } catch {
      // Without storage the token lasts until the page is loaded again.
    }
  }

  async ask(path, options = {}) {
    const headers = { ...options.headers };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    let answer;
    try {
      answer = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      throw new Unreachable(error.message);
    }
    if (answer.status === 401 || answer.status === 403) throw new NeedsToken(await words(answer));
    if (!answer.ok) throw new Refused(answer.status, await words(answer));
    return answer;
  }

  async json(path, options) {
    return (await this.ask(path, options)).json();
  }

  streams() {
    return this.json("v1/streams");
  }

  stream(name) {
    return this.json(at(name));
  }

  series(name, query, options) {
    return this.json(`${at(name)}/series?${query}`, options);
  }
}

export function at(name) {
  return `v1/streams/${encodeURIComponent(name)}`;
}

async function words(answer) {
  try {
    const told = await answer.json();
    const said = told.detail ?? told.error ?? told.message;
    return typeof said === "string" ? said : JSON.stringify(said);
  } catch {
    return `the service answered ${answer.status}`;
  }
}

/**
 * Server-sent events by `fetch`, because an EventSource cannot send a token. It reconnects by
 * itself, says where it stood, and reports what became of the connection.
 */
export class Live {
  /** `after` is the last window that is known: what came since is told first. */
  constructor(service, name, after, { released, connected, lost, refused }) {
    Object.assign(this, { service, name, released, connected, lost, refused });
    this.ended = new AbortController();
    this.last = String(after);
    this.run();
  }

  close() {
    this.ended.abort();
  }

  async run() {
    let wait = 500;
    const { signal } = this.ended;
    while (!signal.aborted) {
      const attempt = new AbortController();
      const stop = () => attempt.abort();
      signal.addEventListener("abort", stop);
      try {
        const headers = { Accept: "text/event-stream", "Last-Event-ID": this.last };
        const path = `${at(this.name)}/live`;
        const answer = await this.service.ask(path, { headers, signal: attempt.signal });
        wait = 500;
        this.connected();
        await this.read(answer.body, attempt);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof NeedsToken || (error instanceof Refused && error.status < 500)) {
          this.refused(error);
          return;
        }
      } finally {
        signal.removeEventListener("abort", stop);
        attempt.abort();
      }
      if (signal.aborted) return;
      this.lost(wait);
      await Promise.race([
        new Promise((done) => setTimeout(done, wait)),
        new Promise((done) => addEventListener("online", done, { once: true })),
      ]);
      wait = Math.min(2 * wait, 10_000);
    }
  }

  async read(body, attempt) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    // A connection that fell silent without closing is lost as well: the service sends something
    // at least every 15 seconds.
    let silent = setTimeout(() => attempt.abort(), SILENCE);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silent);
        silent = setTimeout(() => attempt.abort(), SILENCE);
        text = (text + value).replaceAll("\r\n", "\n");
        const events = text.split("\n\n");
        text = events.pop();
        events.forEach((event) => this.take(event));
      }
    } finally {
      clearTimeout(silent);
    }
  }

  take(event) {
    let [kind, id, data] = ["message", null, []];
    for (const line of event.split("\n")) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "event") kind = value;
      if (name === "id") id = value;
      if (name === "data") data.push(value);
    }
    if (id !== null) this.last = id;
    if (kind === "release" && data.length) this.released(JSON.parse(data.join("\n")));
  }
}

const SILENCE = 60_000;
