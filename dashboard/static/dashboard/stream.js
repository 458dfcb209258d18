// One WebSocket to /ws/live/: reconnects with backoff, is closed while the tab is hidden, and can be frozen.
// Events: hello, tick (every sample), sample (what to show: held back while frozen), change, lost, freeze.
const FIRST_RETRY_S = 1, LAST_RETRY_S = 30, SILENCE_MS = 5000, LOGGED_OUT = 4401;

export class Stream extends EventTarget {
  #socket = null;
  #retryS = FIRST_RETRY_S;
  #timer = 0;
  #watchdog = 0;
  #held = null;
  nextTryAt = 0;
  frozen = false;

  start() {
    document.addEventListener("visibilitychange", () => document.hidden ? this.#rest() : this.retry());
    addEventListener("pagehide", () => this.#rest());
    addEventListener("pageshow", (event) => { if (event.persisted) this.retry(); });
    if (!document.hidden) this.#open();
  }

  retry() {
    clearTimeout(this.#timer);
    if (!this.#socket) this.#open();
  }

  freeze(frozen) {
    this.frozen = frozen;
    this.#say("freeze", frozen);
    if (!frozen && this.#held) this.#say("sample", this.#held);
    this.#held = null;
  }

  #say(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#drop();
  }

  #drop() {
    clearTimeout(this.#watchdog);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) { socket.onclose = socket.onmessage = null; socket.close(); }
  }

  #open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = this.#socket = new WebSocket(`${scheme}//${location.host}/ws/live/`);
    this.#listen();
    socket.onmessage = (event) => {
      this.#listen();
      this.#take(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (event.code === LOGGED_OUT) location.reload();
      else this.#lost();
    };
  }

  #take(frame) {
    if (frame.type === "hello") this.#retryS = FIRST_RETRY_S;
    if (frame.type !== "sample") { this.#say(frame.type, frame); return; }
    this.#say("tick", frame);
    if (this.frozen) this.#held = frame;
    else this.#say("sample", frame);
  }

  // A connection that is cut without a word looks open: five silent seconds count as lost.
  #listen() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lost(), SILENCE_MS);
  }

  #lost() {
    this.#drop();
    const waitS = this.#retryS * (0.75 + Math.random() / 2);
    this.#retryS = Math.min(LAST_RETRY_S, this.#retryS * 2);
    this.nextTryAt = Date.now() + waitS * 1000;
    this.#timer = setTimeout(() => this.#open(), waitS * 1000);
    this.#say("lost", null);
  }
}
