// What pages do by themselves: refresh what lives, ask before what cannot be undone, remember a theme.
"use strict";

(() => {
  const REFRESH_KEY = "warren.refresh";
  const select = document.getElementById("refresh");
  const staleness = document.getElementById("staleness");
  let timer = 0;

  // Bookmarks of RabbitMQ's page: what stood behind the # is a path here.
  function followBookmark() {
    if (/^#\/[a-z]/.test(location.hash)) location.replace(location.hash.slice(1));
  }
  followBookmark();
  addEventListener("hashchange", followBookmark);

  async function refresh() {
    const living = document.querySelectorAll("[data-live]");
    if (living.length === 0) return;
    const asked = location.href;
    let answer;
    try {
      answer = await fetch(asked, { headers: { accept: "text/html" } });
    } catch {
      return say("The broker does not answer.");
    }
    if (answer.redirected && new URL(answer.url).pathname === "/login") return location.reload();
    if (answer.status === 404) return say("This is not there any more.");
    if (!answer.ok) return say(`The broker answered with status ${answer.status}.`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (location.href !== asked) return;
    for (const old of living) {
      const young = fresh.getElementById(old.id);
      if (young === null || !old.isConnected) continue;
      Idiomorph.morph(old, young, { callbacks: { beforeAttributeUpdated: keepsOpen } });
      htmx.process(document.getElementById(young.id));
    }
    say("");
    document.dispatchEvent(new CustomEvent("warren:refreshed"));
  }

  // What somebody has opened stays open.
  function keepsOpen(attribute, element) {
    return !(attribute === "open" && element.tagName === "DETAILS");
  }

  function say(text) {
    if (staleness !== null && staleness.textContent !== text) staleness.textContent = text;
  }

  async function tick() {
    const interval_s = Number(select.value);
    if (interval_s > 0 && document.visibilityState === "visible") await refresh();
    schedule();
  }

  function schedule() {
    clearTimeout(timer);
    const interval_s = Number(select.value);
    if (interval_s > 0) timer = setTimeout(tick, 1000 * interval_s);
  }

  if (select !== null) {
    const kept = localStorage.getItem(REFRESH_KEY);
    if (kept !== null && select.querySelector(`option[value="${CSS.escape(kept)}"]`)) select.value = kept;
    select.addEventListener("change", () => {
      localStorage.setItem(REFRESH_KEY, select.value);
      tick();
    });
    schedule();
  }

  // Light or dark: the server writes it into the page, so that nothing flashes.
  const theme = document.getElementById("theme");
  if (theme !== null) {
    theme.addEventListener("click", () => {
      const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
      const shown = document.documentElement.dataset.theme || system;
      const wanted = shown === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = wanted;
      document.cookie = `warren_theme=${wanted}; path=/; max-age=31536000; samesite=lax`;
      document.dispatchEvent(new CustomEvent("warren:theme"));
    });
  }

  // A question of our own in place of the browser's.
  const dialog = document.getElementById("confirm");
  document.addEventListener("htmx:confirm", (event) => {
    if (!event.detail.question) return;
    event.preventDefault();
    document.getElementById("confirm-question").textContent = event.detail.question;
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      if (dialog.returnValue === "yes") event.detail.issueRequest(true);
    }, { once: true });
    dialog.showModal();
  });

  // A form that shows what came of it moves the reader's eye there.
  document.addEventListener("htmx:afterSwap", (event) => {
    const alert = event.detail.target.querySelector?.("[role=alert]");
    if (alert) alert.scrollIntoView({ block: "nearest" });
  });
})();
