// Shows the values of a plot's curves where the pointer is, and zooms in on what is dragged over; a double click shows all
// again. The page is complete without it.
const coordinates = /([ML])(-?[\d.]+) (-?[\d.]+)/g;
for (const svg of document.querySelectorAll("svg.plot[data-x]")) {
  const axis = name => svg.dataset[name].split(" ").map(Number);
  const value = (at, [from, to, low, high, log]) => {
    const share = (at - from) / (to - from);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  const points = path => [...path.getAttribute("d").matchAll(coordinates)].map(m => [+m[2], +m[3]]);
  const curves = [...svg.querySelectorAll("path[data-curve][d]")];
  const entries = svg.parentElement.querySelectorAll(".legend li");
  const outputs = [...entries].map(li => li.appendChild(document.createElement("output")));
  const draw = name => svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
  const cross = draw("path"), selection = draw("rect");
  cross.setAttribute("class", "cross");
  selection.setAttribute("class", "selection");
  const at = svg.parentElement.querySelector("figcaption").appendChild(document.createElement("span"));
  const text = v => Number.isFinite(v) ? String(+v.toPrecision(4)) : "";
  const hide = () => { cross.setAttribute("d", ""); at.textContent = ""; outputs.forEach(o => o.textContent = ""); };
  const place = event => {
    const box = svg.getBoundingClientRect();
    return (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  };
  // The horizontal axis is drawn again: positions of all paths, and five labels in place of the round ones.
  const whole = svg.dataset.x, labels = svg.querySelector(".xlab"), first = labels.innerHTML;
  const drawn = [...svg.querySelectorAll("g[clip-path] path[d]")].map(path => [path, path.getAttribute("d")]);
  const ticks = [...svg.querySelectorAll(".grid path")].filter(path => path.getAttribute("d").includes("v"));
  const zoom = (begin, end) => {
    const [left, right, , , log] = axis("x"), to = x => left + (x - begin) / (end - begin) * (right - left);
    const low = value(begin, axis("x")), high = value(end, axis("x"));
    for (const [path] of drawn)
      path.setAttribute("d", path.getAttribute("d").replace(coordinates, (_, c, x, y) => `${c}${to(+x).toFixed(1)} ${y}`));
    svg.dataset.x = [left, right, low, high, log].join(" ");
    ticks.forEach(tick => tick.style.display = "none");
    const y = labels.querySelector("text")?.getAttribute("y") ?? 0;
    labels.innerHTML = [0, .25, .5, .75, 1].map(share => {
      const x = left + share * (right - left);
      return `<text x="${x.toFixed(1)}" y="${y}">${text(value(x, axis("x")))}</text>`;
    }).join("");
  };
  const reset = () => {
    drawn.forEach(([path, d]) => path.setAttribute("d", d));
    ticks.forEach(tick => tick.style.display = "");
    [svg.dataset.x, labels.innerHTML] = [whole, first];
  };
  let from = null;
  svg.addEventListener("pointerdown", event => { from = place(event); event.preventDefault(); });
  svg.addEventListener("dblclick", reset);
  addEventListener("pointerup", event => {
    if (from === null) return;
    const [left, right] = axis("x"), clamp = x => Math.min(right, Math.max(left, x));
    const [begin, end] = [clamp(from), clamp(place(event))].sort((a, b) => a - b);
    from = null;
    selection.setAttribute("width", 0);
    if (end - begin > 8) zoom(begin, end);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const x = place(event), [left, right] = axis("x"), [bottom, top] = axis("y");
    if (x < left || x > right) return hide();
    if (from !== null) {
      const bounds = { x: Math.min(from, x), y: top, width: Math.abs(x - from), height: bottom - top };
      Object.entries(bounds).forEach(([name, size]) => selection.setAttribute(name, size));
    }
    cross.setAttribute("d", `M${x.toFixed(1)} ${top}V${bottom}`);
    at.textContent = ` ${svg.dataset.xname}: ${text(value(x, axis("x")))}`;
    curves.forEach(curve => {
      let best = null;
      const output = outputs[curve.dataset.curve];
      for (const p of points(curve)) if (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p;
      if (best && output) output.textContent = text(value(best[1], axis("y")));
    });
  });
}

// Offers each plot as a file: the drawing as SVG, and its values as CSV; where the page does not have them, the points that are
// drawn, to four digits.
const save = (name, type, text) => {
  const link = document.createElement("a");
  link.setAttribute("download", name);
  link.setAttribute("href", URL.createObjectURL(new Blob([text], { type })));
  link.click();
  URL.revokeObjectURL(link.getAttribute("href"));
};
const button = (text, act) => {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
};
const fileOf = title => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "table";
for (const svg of document.querySelectorAll("svg.plot[data-x]")) {
  const figure = svg.parentElement, title = svg.querySelector("title").textContent;
  const file = fileOf(title);
  const numbers = name => svg.dataset[name].split(" ").map(Number);
  const scaled = (at, [from, to, low, high, log]) => {
    const share = (at - from) / (to - from);
    return +(log ? low * (high / low) ** share : low + share * (high - low)).toPrecision(4);
  };
  const exact = [...svg.querySelectorAll("path[data-values]")];
  const rows = () => exact.length
    ? exact.flatMap(path => path.dataset.values.split("\n").filter(row => row).map(row => `${path.dataset.name},${row}`))
    : [...svg.querySelectorAll("path[data-curve][d]")].flatMap(path => {
      const entry = figure.querySelectorAll(".legend li")[path.dataset.curve];
      const output = entry?.querySelector("output")?.textContent ?? "";
      const name = (entry?.textContent ?? "").slice(0, -output.length || undefined);
      return [...path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)]
        .map(m => `"${name.replaceAll('"', '""')}",${scaled(+m[1], numbers("x"))},${scaled(+m[2], numbers("y"))}`);
    });
  const head = exact.length ? svg.dataset.head : "curve,x,y";
  const drawing = () => {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    style.textContent = plotStyle;
    copy.prepend(style);
    return new XMLSerializer().serializeToString(copy);
  };
  const buttons = figure.appendChild(document.createElement("div"));
  buttons.setAttribute("class", "save");
  buttons.append(
    button("SVG", () => save(`${file}.svg`, "image/svg+xml", drawing())),
    button("CSV", () => save(`${file}.csv`, "text/csv", [head, ...rows()].join("\n") + "\n")),
  );
}

// Offers each table as CSV, and as LaTeX, in the form of `bentpipe results tables --format latex`.
for (const table of document.querySelectorAll("table")) {
  const rows = [...table.rows].map(row => [...row.cells].map(cell => cell.textContent.trim()));
  const section = table.caption?.textContent || table.closest("details")?.querySelector("summary")?.textContent;
  const file = fileOf((section || rows[0]?.[0] || "table").slice(0, 60));
  const quoted = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const marks = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$", "µ": "$\\mu$",
    "−": "$-$", "–": "--", "\u202f": "\\,", "\u00a0": "~",
  };
  const escaped = text => text.replace(/[\\~^±µ−–\u202f\u00a0&%$#_{}]/g, c => marks[c] ?? "\\" + c);
  const latex = () => {
    const [head, ...rest] = rows.map(row => row.map(escaped).join(" & ") + " \\\\");
    const columns = "l".repeat(rows[0].length);
    return [`\\begin{tabular}{${columns}}`, head, "\\hline", ...rest, "\\end{tabular}", ""].join("\n");
  };
  const buttons = document.createElement("div");
  buttons.setAttribute("class", "save");
  buttons.append(
    button("CSV", () => save(`${file}.csv`, "text/csv", rows.map(row => row.map(quoted).join(",")).join("\n") + "\n")),
    button("LaTeX", () => save(`${file}.tex`, "text/plain", latex())),
  );
  table.parentElement.appendChild(buttons);
}
