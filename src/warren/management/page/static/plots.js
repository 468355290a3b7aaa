// Plots: the data come as columns; colours come from the style sheet, so that both themes have theirs.
"use strict";

(() => {
  const HEIGHT = 190;
  // Of the axis: with less, few samples would all stand at the same minute.
  const SPAN_S_MIN = 60;
  const FORMATS = { rate: (v) => v == null ? "–" : short(v) + "/s", count: short, size };
  const plots = new Map();

  function short(value) {
    if (value == null) return "–";
    if (Math.abs(value) >= 1e6) return (value / 1e6).toFixed(1) + " M";
    if (Math.abs(value) >= 1e4) return (value / 1e3).toFixed(1) + " k";
    return Math.abs(value) < 10 && value % 1 !== 0 ? value.toFixed(1) : Math.round(value).toString();
  }

  function size(value) {
    if (value == null) return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return value.toFixed(value >= 100 || unit === 0 ? 0 : 1) + " " + units[unit];
  }

  // The colour that a custom property has now, whichever theme that is.
  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  // Where the pointer is, or the newest.
  function shown(format) {
    return (plot, value, line) => format(plot.cursor.idx == null ? plot.data[line].at(-1) : value);
  }

  function time(seconds, isShort) {
    return new Date(1000 * seconds).toLocaleTimeString("en-GB", isShort ? { hour: "2-digit", minute: "2-digit" } : {});
  }

  // Seconds only where there is no room for anything else.
  function times(plot, splits) {
    const isShort = splits.length > 1 && splits[1] - splits[0] >= 60;
    return splits.map((split) => time(split, isShort));
  }

  function span(plot, low, high) {
    return low == null ? [null, null] : [Math.min(low, high - SPAN_S_MIN), high];
  }

  // Steps of a size are steps of powers of two.
  function increments() {
    const found = [];
    for (let power = 0; power < 50; power += 1) found.push(2 ** power);
    return found;
  }

  function options(place, plot) {
    const format = FORMATS[place.dataset.unit];
    const line = colour("--line");
    const axis = { stroke: colour("--soft"), grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui, sans-serif" };
    const last = plot.titles.length - 1;
    const isLimited = place.dataset.unit === "size";
    return {
      width: place.clientWidth,
      height: HEIGHT,
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
      scales: { x: { range: span }, nodes: { range: [0, 1] }, y: { range: (_, low, high) => [0, Math.max(high * 1.08, 1)] } },
      axes: [{ ...axis, size: 34, space: 80, values: times }, { ...axis, size: 66, ...(isLimited ? { incrs: increments() } : {}), values: (_, splits) => splits.map(format) }],
      series: [
        { label: "At", value: shown((t) => t == null ? "–" : time(t)) },
        // How many nodes a total is of stands in the legend only.
        ...plot.titles.map((label, index) => plot.has_nodes && index === last
          ? { label, scale: "nodes", points: { show: false }, value: shown(short) }
          : isLimited && index === last && last > 0
          ? { label, stroke: colour("--bad"), width: 1.5, dash: [6, 4], points: { show: false }, value: shown(format) }
          : { label, stroke: colour(`--line-${index % 8 + 1}`), width: 1.75, points: { show: false }, value: shown(format) }),
      ],
    };
  }

  function draw(place, plot) {
    const known = plots.get(place);
    const key = plot.titles.join("\n");
    if (known !== undefined && known.key === key) {
      known.drawing.setData(plot.data);
      return;
    }
    known?.drawing.destroy();
    plots.set(place, { key, plot, drawing: new uPlot(options(place, plot), plot.data, place) });
  }

  function redraw() {
    for (const [place, known] of [...plots]) {
      const data = known.drawing.data;
      known.drawing.destroy();
      plots.delete(place);
      draw(place, { ...known.plot, data });
    }
  }

  async function load(section) {
    try {
      const answer = await fetch(section.dataset.plots);
      if (!answer.ok) return;
      const found = await answer.json();
      for (const place of section.querySelectorAll("[data-plot]")) {
        if (found[place.dataset.plot]) draw(place, found[place.dataset.plot]);
      }
      section.dataset.drawn = "true";
    } catch {
      // The page says itself that the broker does not answer.
    }
  }

  const sections = document.querySelectorAll("[data-plots]");
  if (sections.length === 0) return;
  sections.forEach(load);
  document.addEventListener("warren:refreshed", () => sections.forEach(load));
  document.addEventListener("warren:theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => {
    for (const [place, known] of plots) {
      if (place.clientWidth !== known.drawing.width) known.drawing.setSize({ width: place.clientWidth, height: HEIGHT });
    }
  }).observe(sections[0]);
})();
