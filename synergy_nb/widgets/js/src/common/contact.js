// Whether the kernel still answers. The page asks it every few seconds, and any message of it is an answer. A kernel that ended
// or was restarted never answers, one that is busy later; so the page says how long there has been no news.
const ASK = 3000; // milliseconds between two questions
const PATIENCE = 6000; // milliseconds that an answer may take before the page says that there is none
const TICK = 1000;

export class Contact {
  // `ask` sends a question, and throws where there is no kernel; `show` gets words, or an empty text when there is news again.
  constructor(ask, show) {
    this.ask = ask;
    this.show = show;
    this.heard = this.ticked = Date.now();
    this.asked = null; // when the first question was asked that has no answer
    this.sent = 0; // when the last question was asked
    this.silent = false;
    this.timer = setInterval(() => this.tick(), TICK);
  }

  news() {
    this.heard = Date.now();
    this.asked = null;
    if (!this.silent) return;
    this.silent = false;
    this.show("");
  }

  tick() {
    const now = Date.now();
    // browsers stop the timers of pages out of sight: what was asked before such a time is asked anew
    if (now - this.ticked > ASK) this.asked = null;
    this.ticked = now;
    if (document.hidden) return;
    if (now - this.sent >= ASK) {
      this.sent = now;
      try {
        this.ask();
        this.asked ??= now;
      } catch {
        this.asked = -Infinity;
      }
    }
    if (this.asked === null || now - this.asked < PATIENCE) return;
    this.silent = true;
    this.show(silence(now - this.heard, this.asked === -Infinity));
  }

  close() {
    clearInterval(this.timer);
  }
}

function silence(milliseconds, gone) {
  const seconds = Math.round(milliseconds / 1000);
  const time = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
  if (gone) return `No news for ${time}: the kernel is gone. What you see is its last news. Run the cell again.`;
  return `No news for ${time}: the kernel is gone, was restarted, or is busy. What you see is its last news. After a restart, run the cell again.`;
}
