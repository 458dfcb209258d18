// Says whether the numbers are live: a clock in the bar, and a banner since when they are not.
const root = document.documentElement;
const mark = document.querySelector("[data-stream]");
const banner = document.querySelector("[data-banner]");
const clock = new Intl.DateTimeFormat(root.lang, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };

export function watchBanner(stream) {
  let last = Date.now(), timer = 0;

  function count() {
    put(banner.querySelector("[data-lost-for]"), String(Math.round((Date.now() - last) / 1000)));
    put(banner.querySelector("[data-next]"), String(Math.max(0, Math.ceil((stream.nextTryAt - Date.now()) / 1000))));
  }

  stream.addEventListener("sample", ({ detail: frame }) => {
    last = Date.parse(frame.at);
    clearInterval(timer);
    timer = 0;
    mark.hidden = false;
    banner.hidden = true;
    root.classList.remove("is-stale");
    put(mark.querySelector("b"), mark.dataset.liveWord);
    const time = mark.querySelector("time");
    put(time, clock.format(last));
    time.title = frame.at;
  });

  stream.addEventListener("lost", () => {
    mark.hidden = false;
    put(mark.querySelector("b"), mark.dataset.lost);
    root.classList.add("is-stale");
    put(banner.querySelector("[data-since]"), clock.format(last));
    count();
    banner.hidden = false;
    timer ||= setInterval(count, 1000);
  });

  banner.querySelector("[data-retry]").addEventListener("click", () => stream.retry());
}
