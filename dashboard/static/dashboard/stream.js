// One WebSocket to /ws/live/: reconnects with backoff, rests while the tab is hidden.
const FIRST_RETRY_S = 1, LAST_RETRY_S = 30, SILENCE_MS = 5000, LOGGED_OUT = 4401;

export class Stream extends EventTarget {
  #socket = null;
  #retryS = FIRST_RETRY_S;
  #timer = 0;
  #watchdog = 0;
  nextTryAt = 0;

  start() {
    document.addEventListener("visibilitychange", () => document.hidden ? this.#rest() : this.retry());
    if (!document.hidden) this.#open();
  }

  retry() {
    clearTimeout(this.#timer);
    if (!this.#socket) this.#open();
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
      const frame = JSON.parse(event.data);
      if (frame.type === "hello") this.#retryS = FIRST_RETRY_S;
      this.dispatchEvent(new CustomEvent(frame.type, { detail: frame }));
    };
    socket.onclose = (event) => {
      if (event.code === LOGGED_OUT) location.reload();
      else this.#lost();
    };
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
    this.dispatchEvent(new CustomEvent("lost"));
  }
}
