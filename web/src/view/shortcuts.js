// Keys that do something outside fields, their list, and the switch that turns them off.

import { $, element } from "./dom.js";

export class Shortcuts {
  /** `keys`: from a key to [what it does, how]. */
  constructor(keys, escape) {
    this.keys = keys;
    for (const [key, [what]] of Object.entries(keys)) {
      $("shortcut-list").append(element("div", {}, element("dt", {}, element("kbd", { text: key })), element("dd", { text: what })));
    }
    $("help").addEventListener("click", () => this.show());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) escape();
      const there = event.target;
      const typing = there.matches?.("input:not([type=radio], [type=checkbox]), select, textarea");
      if (typing || event.ctrlKey || event.altKey || event.metaKey || event.repeat || !$("keys-on").checked) return;
      if (document.querySelector("dialog[open]")) return;
      const known = this.keys[event.key];
      if (!known) return;
      event.preventDefault();
      known[1]();
    });
  }

  show() {
    $("shortcuts").showModal();
  }
}

const THEMES = ["system", "dark", "light"];

/** The switch between dark, light and what the system says; only this choice is kept in the browser. */
export class Theme {
  constructor(changed) {
    this.changed = changed;
    let kept = null;
    try {
      kept = localStorage.getItem("theme");
    } catch {
      // Storage is not allowed: the system's.
    }
    this.set(THEMES.includes(kept) ? kept : "system");
    $("theme").addEventListener("click", () => this.next());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  }

  next() {
    this.set(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]);
    try {
      localStorage.setItem("theme", this.theme);
    } catch {
      // As above.
    }
  }

  set(theme) {
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    $("theme").textContent = `Theme: ${theme}`;
    this.changed();
  }
}
