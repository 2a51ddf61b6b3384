// Shows the values of a plot's curves where the pointer is. The page is complete without it.
for (const svg of document.querySelectorAll("svg.plot[data-x]")) {
  const axis = name => svg.dataset[name].split(" ").map(Number);
  const [left, right, xLow, xHigh, xLog] = axis("x"), [bottom, top, yLow, yHigh, yLog] = axis("y");
  const value = (at, from, to, low, high, log) => {
    const share = (at - from) / (to - from);
    return log ? low * (high / low) ** share : low + share * (high - low);
  };
  const points = path => [...path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)].map(m => [+m[1], +m[2]]);
  const curves = [...svg.querySelectorAll("path[data-curve]")].map(points);
  const entries = svg.parentElement.querySelectorAll(".legend li");
  const outputs = [...entries].map(li => li.appendChild(document.createElement("output")));
  const cross = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
  cross.setAttribute("class", "cross");
  const at = svg.parentElement.querySelector("figcaption").appendChild(document.createElement("span"));
  const text = v => Number.isFinite(v) ? String(+v.toPrecision(4)) : "";
  const hide = () => { cross.setAttribute("d", ""); at.textContent = ""; outputs.forEach(o => o.textContent = ""); };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    if (x < left || x > right) return hide();
    cross.setAttribute("d", `M${x.toFixed(1)} ${top}V${bottom}`);
    at.textContent = ` ${svg.dataset.xname}: ${text(value(x, left, right, xLow, xHigh, xLog))}`;
    curves.forEach((curve, i) => {
      let best = null;
      for (const p of curve) if (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x)) best = p;
      if (best && outputs[i]) outputs[i].textContent = text(value(best[1], bottom, top, yLow, yHigh, yLog));
    });
  });
}

// Offers each plot as a file: the drawing as SVG, and the points that are drawn as CSV.
const save = (name, type, text) => {
  const link = document.createElement("a");
  link.setAttribute("download", name);
  link.setAttribute("href", URL.createObjectURL(new Blob([text], { type })));
  link.click();
  URL.revokeObjectURL(link.getAttribute("href"));
};
for (const svg of document.querySelectorAll("svg.plot[data-x]")) {
  const figure = svg.parentElement, title = svg.querySelector("title").textContent;
  const file = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const numbers = name => svg.dataset[name].split(" ").map(Number);
  const scaled = (at, [from, to, low, high, log]) => {
    const share = (at - from) / (to - from);
    return +(log ? low * (high / low) ** share : low + share * (high - low)).toPrecision(6);
  };
  const rows = () => [...svg.querySelectorAll("path[data-curve]")].flatMap((path, i) => {
    const entry = figure.querySelectorAll(".legend li")[i], output = entry?.querySelector("output")?.textContent ?? "";
    const name = (entry?.textContent ?? "").slice(0, -output.length || undefined);
    return [...path.getAttribute("d").matchAll(/[ML](-?[\d.]+) (-?[\d.]+)/g)]
      .map(m => `"${name.replaceAll('"', '""')}",${scaled(+m[1], numbers("x"))},${scaled(+m[2], numbers("y"))}`);
  });
  const drawing = () => {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
    style.textContent = plotStyle;
    copy.prepend(style);
    return new XMLSerializer().serializeToString(copy);
  };
  const button = (text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };
  const buttons = figure.appendChild(document.createElement("div"));
  buttons.setAttribute("class", "save");
  buttons.append(
    button("SVG", () => save(`${file}.svg`, "image/svg+xml", drawing())),
    button("CSV", () => save(`${file}.csv`, "text/csv", ["curve,x,y", ...rows()].join("\n") + "\n")),
  );
}
