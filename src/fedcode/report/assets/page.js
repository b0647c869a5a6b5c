"use strict";
// What a run says is somebody else's text: it goes into text nodes, attributes and the canvas, never into markup.
(() => {
  const { runs, mixes } = JSON.parse(document.getElementById("data").textContent);
  const MB = 1048576;
  const PARTS = { training: "Training", method: "Method (coding)", evaluation: "Evaluation", other: "Other" };
  // Okabe and Ito's colours, darkened or lightened for the paper; dashes and marks tell runs apart without them.
  const COLOURS = {
    light: ["#005f9e", "#b34700", "#00794f", "#a23a7c", "#8a6a00", "#5a4fcf", "#45505c", "#1c86c9"],
    dark: ["#6cb8ff", "#ff9a52", "#4fd3a0", "#f199cd", "#ecc94b", "#b3a9ff", "#c3ccd6", "#8fd8ff"],
  };
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const MARKS = ["circle", "rect", "triangle", "rectRot", "star"];
  const dashes = (index) => DASHES[(index + Math.floor(index / 4)) % 4];
  const night = matchMedia("(prefers-color-scheme: dark)");
  const printing = matchMedia("print");
  const figures = document.getElementById("figures");
  const hidden = new Set(); // runs that the legend has put aside, in every chart
  const made = {}; // chart by name, for tests and for the curious
  const restyle = [];
  window.fedcode = made;

  const dark = () => night.matches && !printing.matches;
  const colour = (index) => COLOURS[dark() ? "dark" : "light"][index % 8];
  const ink = () => (dark() ? "#c3ccd6" : "#3d4650");
  const grid = () => (dark() ? "#2f363f" : "#e4e8ec");
  const of = (values, size) => {
    const t = size > 1 ? values / (size - 1) : 0.5;
    return `hsl(${215 - 185 * t} ${dark() ? 62 : 68}% ${dark() ? 62 - 8 * t : 42 + 8 * t}%)`;
  };
  const number = (value, digits = 4) =>
    value === null || value === undefined ? "-" : value.toLocaleString("en", { maximumSignificantDigits: digits });
  const tick = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && size < 1e-4) return value.toExponential(0);
    return size >= 1e5 ? value.toLocaleString("en", { notation: "compact" }) : number(value, 3);
  };

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick" || key === "onchange") made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  // One figure: heading, words, tools, legend, canvas, what the keyboard points at, and the numbers as a table.
  function figure(name, title, words, wide) {
    const heading = element("h3", { id: `${name}-title` }, title);
    const tools = element("div", { class: "tools" });
    const legend = element("div", { class: "legend", role: "group", "aria-label": "Runs in the charts" });
    const canvas = element("canvas", {
      id: name, tabindex: "0", role: "img", "aria-labelledby": `${name}-title`, "aria-describedby": `${name}-words`,
    });
    const said = element("output", { "aria-live": "polite", for: name });
    const numbers = element("details", {}, element("summary", {}, "The numbers"));
    figures.append(
      element("figure", wide ? { class: "wide" } : {}, heading,
        element("figcaption", { id: `${name}-words` }, words), tools, legend,
        element("div", { class: "canvas" }, canvas), said, numbers));
    return { name, tools, legend, canvas, said, numbers };
  }

  function axis(title, more = {}) {
    return {
      title: { display: true, text: title, color: ink() },
      ticks: { color: ink(), maxRotation: 0, autoSkipPadding: 12, callback: tick },
      grid: { color: grid() }, border: { color: grid() }, ...more,
    };
  }

  function draw(place, type, data, scales, label, more = {}) {
    const chart = new Chart(place.canvas, {
      type, data,
      options: {
        animation: false, maintainAspectRatio: false, responsive: true, parsing: false, normalized: true,
        interaction: { mode: "nearest", intersect: false, axis: "xy" },
        plugins: {
          legend: { display: false },
          tooltip: { animation: false, callbacks: { title: () => "", label } },
        },
        scales, ...more,
      },
    });
    made[place.name] = chart;
    keyboard(place, chart, label);
    place.numbers.addEventListener("toggle", () => tabulate(place, chart));
    restyle.push(() => {
      for (const scale of Object.values(chart.options.scales)) {
        if (scale.title) scale.title.color = ink();
        if (scale.ticks) scale.ticks.color = ink();
        if (scale.grid) scale.grid.color = grid();
        if (scale.border) scale.border.color = grid();
      }
      chart.data.datasets.forEach((set) => set.paint && set.paint(set));
      chart.update("none");
    });
    return chart;
  }

  // Arrow keys walk over the points; the point is said and its tooltip shown.
  function keyboard(place, chart, label) {
    let set = -1;
    let index = 0;
    const usable = (n) => chart.isDatasetVisible(n) && chart.data.datasets[n].data.length > 0;
    const next = (step) => {
      const count = chart.data.datasets.length;
      for (let n = 0, at = set; n < count; n++) {
        at = (at + step + count) % count;
        if (usable(at)) return at;
      }
      return -1;
    };
    place.canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
      if (event.key === "Escape") set = -1;
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") set = next(event.key === "ArrowDown" ? 1 : -1);
      else if (!(event.key in steps)) return;
      event.preventDefault();
      if (event.key in steps && (set < 0 || !usable(set))) set = next(1);
      else if (event.key in steps) index += steps[event.key];
      if (set < 0) {
        chart.setActiveElements([]);
        chart.tooltip.setActiveElements([], { x: 0, y: 0 });
        place.said.textContent = "";
      } else {
        index = Math.max(0, Math.min(chart.data.datasets[set].data.length - 1, index));
        const active = [{ datasetIndex: set, index }];
        const { x, y } = chart.getDatasetMeta(set).data[index];
        chart.setActiveElements(active);
        chart.tooltip.setActiveElements(active, { x, y });
        const shown = chart.data.datasets[set];
        place.said.textContent = label({ dataset: shown, raw: shown.data[index], dataIndex: index });
      }
      chart.update("none");
    });
  }

  function tabulate(place, chart) {
    place.numbers.querySelector(".scroll")?.remove();
    if (!place.numbers.open) return;
    const heads = place.columns ?? ["run", "x", "y"];
    const body = element("tbody");
    for (const set of chart.data.datasets)
      for (const point of set.data)
        body.append(element("tr", {}, element("th", { scope: "row" }, set.label),
          ...(place.row ? place.row(point) : [point.x, point.y]).map((value) => element("td", {}, number(value, 6)))));
    const row = element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)));
    place.numbers.append(element("div", { class: "scroll", tabindex: "0" },
      element("table", {}, element("thead", {}, row), body)));
  }

  function scaleSwitch(place, chart, which, what) {
    const group = element("div", { class: "tools", role: "group", "aria-label": `Scale of ${what}` });
    const buttons = ["logarithmic", "linear"].map((kind) =>
      element("button", {
        type: "button", "aria-pressed": String(chart.options.scales[which].type === kind), "data-scale": kind,
        onclick: () => {
          chart.options.scales[which].type = kind;
          buttons.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.scale === kind)));
          chart.update("none");
        },
      }, kind === "linear" ? "Linear" : "Log"));
    group.append(...buttons);
    place.tools.append(group);
  }

  const byRun = []; // charts with a line a run, and their legends
  function swatch(index) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [key, value] of Object.entries({ width: 28, height: 10, "aria-hidden": "true" })) svg.setAttribute(key, value);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const said = { x1: 0, x2: 28, y1: 5, y2: 5, "stroke-width": 3, "stroke-dasharray": dashes(index).join(" ") };
    for (const [key, value] of Object.entries(said)) line.setAttribute(key, value);
    const paint = () => line.setAttribute("stroke", colour(index));
    paint();
    restyle.push(paint);
    svg.append(line);
    return svg;
  }
  function legend(place, chart) {
    runs.forEach((run, index) => {
      const button = element("button", {
        type: "button", "aria-pressed": "true",
        onclick: () => {
          if (!hidden.delete(index)) hidden.add(index);
          for (const one of byRun) {
            one.chart.data.datasets.forEach((set, n) => one.chart.setDatasetVisibility(n, !hidden.has(set.run)));
            [...one.legend.children].forEach((each, n) => each.setAttribute("aria-pressed", String(!hidden.has(n))));
            one.chart.update("none");
          }
        },
      }, swatch(index), run.label);
      place.legend.append(button);
    });
    byRun.push({ chart, legend: place.legend });
  }

  function line(run, index, points) {
    const set = {
      run: index, label: run.label, data: points, borderWidth: 2, borderDash: dashes(index), tension: 0,
      pointStyle: MARKS[index % 5], pointRadius: points.length > 60 ? 0 : 2.5, pointHoverRadius: 6, pointHitRadius: 8,
      paint: (it) => { it.borderColor = it.backgroundColor = it.pointBorderColor = it.pointBackgroundColor = colour(index); },
    };
    if (points.length === 1) set.pointRadius = 4;
    set.paint(set);
    return set;
  }

  // A chart with a line a run; x and y pick the columns.
  function lines(name, title, words, x, y, options) {
    const sets = runs.map((run, index) => line(run, index, run.round
      .map((round, n) => ({ x: x.of(run, n), y: y.of(run, n), round }))
      .filter((point) => point.x !== null && point.y !== null && (!x.log || point.x > 0) && (!y.log || point.y > 0))));
    if (!sets.some((set) => set.data.length)) return;
    const place = figure(name, title, words, options.wide);
    place.columns = ["run", "round", ...(x.title === "round" ? [] : [x.title]), y.title];
    place.row = (point) => [point.round, ...(x.title === "round" ? [] : [point.x]), point.y];
    const said = (context) => {
      const point = context.raw;
      const at = x.title === "round" ? "" : `, ${number(point.x)} ${x.unit}`;
      return `${context.dataset.label}: ${number(point.y)} ${y.unit}${at}, round ${point.round}`;
    };
    const chart = draw(place, "line", { datasets: sets }, {
      x: axis(x.title, { type: x.log ? "logarithmic" : "linear" }),
      y: axis(y.title, { type: y.log ? "logarithmic" : "linear" }),
    }, said);
    if (x.log) scaleSwitch(place, chart, "x", x.title);
    if (y.log) scaleSwitch(place, chart, "y", y.title);
    legend(place, chart);
  }

  // Bars that lie need a height of their own each.
  function tall(place, bars) {
    if (bars > 14) place.canvas.parentElement.style.height = `${Math.min(120, 4 + 1.25 * bars)}rem`;
  }

  // A select where several runs have such a chart.
  function choice(place, labels, words, show, usual = labels[labels.length - 1]) {
    if (labels.length > 1) {
      const options = labels.map((label, n) => element("option", { value: String(n) }, label));
      const box = element("select", { "aria-label": words, onchange: () => show(Number(box.value)) }, ...options);
      place.tools.append(box);
    }
    const first = Math.max(0, labels.indexOf(usual));
    show(first);
    if (labels.length > 1) place.tools.querySelector("select").value = String(first);
  }

  const round = { title: "round", unit: "", of: (run, n) => run.round[n] };
  const accuracy = { title: "accuracy, %", unit: "%", of: (run, n) => run.accuracy[n] };
  lines("volume", "Accuracy against megabytes",
    "What the model had reached when so much had been sent, both ways and by all clients. Further to the left is cheaper.",
    { title: "megabytes sent", unit: "MB", log: true, of: (run, n) => run.megabytes[n] }, accuracy, { wide: true });
  lines("accuracy", "Accuracy by round", "On the test set, after each round.", round, accuracy, {});
  const sent = (way) => ({ title: "megabytes a round", unit: "MB", log: true, of: (run, n) => run[way][n] / MB });
  lines("down", "Bytes a round, down", "What the server sent to all clients of a round.", round, sent("down"), {});
  lines("up", "Bytes a round, up", "What all clients of a round sent to the server.", round, sent("up"), {});
  lines("bits", "Bits a weight, by round", "The mean of all messages of a round. A model as it is has 32.", round,
    { title: "bits a weight", unit: "bits", log: true, of: (run, n) => run.bits[n] }, {});

  const moving = runs.filter((run) => run.centers);
  if (moving.length) {
    const place = figure("centers", "The codebook's centres over the rounds",
      "A line a centre of what the server sent. Runs whose messages hold no codebook are not here.");
    place.columns = ["centre", "round", "value"];
    let chart;
    const longest = moving.reduce((a, b) => (b.centers.round.length > a.centers.round.length ? b : a));
    choice(place, moving.map((run) => run.label), "Run", (which) => {
      const { round, lines, of: size } = moving[which].centers;
      const sets = lines.map((values, n) => {
        const set = {
          label: `centre ${Math.round((n * (size - 1)) / Math.max(1, lines.length - 1)) + 1} of ${size}`,
          data: values.map((y, i) => ({ x: round[i], y })), borderWidth: 1.2, pointRadius: values.length > 1 ? 0 : 3,
          pointHoverRadius: 4, paint: (it) => { it.borderColor = it.backgroundColor = of(n, lines.length); },
        };
        set.paint(set);
        return set;
      });
      if (chart) { chart.data.datasets = sets; chart.update("none"); if (place.numbers.open) tabulate(place, chart); }
      else chart = draw(place, "line", { datasets: sets }, {
        x: axis("round", { type: "linear" }), y: axis("value of the centre", { type: "linear" }),
      }, (context) => `${context.dataset.label}: ${number(context.raw.y)}, round ${context.raw.x}`);
    }, longest.label);
  }

  const weighed = runs.filter((run) => run.weights);
  if (weighed.length) {
    const place = figure("weights", "The final model's weights",
      "How many weights have which value. Marks below: the centres of the last codebook that the server sent.");
    place.columns = ["", "value", "weights"];
    place.row = (point) => [point.x, point.count ?? null];
    let chart;
    choice(place, weighed.map((run) => run.label), "Run", (which) => {
      const { value, count, centers } = weighed[which].weights;
      const bars = {
        label: "weights", type: "bar", data: value.map((x, n) => ({ x, y: count[n], count: count[n] })),
        barPercentage: 1, categoryPercentage: 1, paint: (it) => { it.backgroundColor = colour(0); },
      };
      const rug = {
        label: "centre", type: "scatter", yAxisID: "rug", data: centers.map((x) => ({ x, y: 0.04 })), pointStyle: "line",
        rotation: 90, pointRadius: 7, pointHoverRadius: 10, borderWidth: 2, order: -1,
        paint: (it) => { it.borderColor = it.backgroundColor = colour(1); },
      };
      const sets = [bars, rug];
      sets.forEach((set) => set.paint(set));
      const half = (value[1] - value[0]) / 2;
      const low = Math.min(value[0] - half, ...centers);
      const high = Math.max(value[value.length - 1] + half, ...centers);
      if (chart) {
        chart.data.datasets = sets;
        Object.assign(chart.options.scales.x, { min: low, max: high });
        chart.update("none");
        if (place.numbers.open) tabulate(place, chart);
        return;
      }
      chart = draw(place, "bar", { datasets: sets }, {
        x: axis("value", { type: "linear", min: low, max: high, offset: false, grid: { color: grid(), offset: false } }),
        y: axis("weights", { type: "linear", beginAtZero: true }),
        rug: { axis: "y", type: "linear", display: false, min: 0, max: 1 },
      }, (context) => context.raw.count === undefined ? `centre ${number(context.raw.x)}`
        : `${number(context.raw.x)}: ${number(context.raw.count, 9)} weights`,
      { interaction: { mode: "nearest", intersect: false, axis: "x" } });
      scaleSwitch(place, chart, "y", "weights");
    }, (weighed.find((run) => run.weights.centers.length && run.method === "fedcode")
      ?? weighed.find((run) => run.weights.centers.length) ?? weighed[0]).label);
  }

  if (mixes.length) {
    const place = figure("mix", "Who holds which classes",
      "Examples of each class at every client. Colours go from the first class to the last.");
    place.columns = ["class", "client", "examples"];
    place.row = (point) => [point.y, point.x];
    let chart;
    choice(place, mixes.map((mix) => mix.runs.length > 3 ? `${mix.runs.slice(0, 3).join(", ")}, ...` : mix.runs.join(", ")),
      "Partition", (which) => {
        const { classes, clients } = mixes[which];
        const size = classes[0].length;
        tall(place, classes.length);
        const sets = Array.from({ length: size }, (_, n) => {
          const set = {
            label: `class ${n}`, data: classes.map((row, y) => ({ x: row[n], y })), barPercentage: 0.95,
            categoryPercentage: 0.95, paint: (it) => { it.backgroundColor = of(n, size); },
          };
          set.paint(set);
          return set;
        });
        const labels = classes.map((_, n) => `${n}`);
        if (chart) { chart.data = { labels, datasets: sets }; chart.update("none"); if (place.numbers.open) tabulate(place, chart); }
        else chart = draw(place, "bar", { labels, datasets: sets }, {
          x: axis("examples", { stacked: true, type: "linear" }),
          y: axis("client", { stacked: true, type: "category", ticks: { color: ink(), autoSkip: true } }),
        }, (context) => `client ${context.raw.y}, ${context.dataset.label}: ${number(context.raw.x, 9)} examples`,
        { indexAxis: "y", interaction: { mode: "nearest", intersect: true } });
        place.said.textContent = clients > classes.length ? `The first ${classes.length} of ${clients} clients.` : "";
      });
  }

  if (runs.some((run) => Object.values(run.seconds).some((spent) => spent > 0))) {
    const place = figure("time", "Time by part", "Seconds on the machine that it ran on. Coding is the method's share.");
    place.columns = ["part", "run", "seconds"];
    place.row = (point) => [point.y + 1, point.x];
    tall(place, runs.length);
    const sets = Object.entries(PARTS).map(([part, label], index) => {
      const set = {
        label, data: runs.map((run, y) => ({ x: run.seconds[part], y })), barPercentage: 0.8,
        paint: (it) => { it.backgroundColor = colour(index); },
      };
      set.paint(set);
      return set;
    });
    const chart = draw(place, "bar", { labels: runs.map((run) => run.label), datasets: sets }, {
      x: axis("seconds", { stacked: true, type: "linear" }),
      y: axis("", { stacked: true, type: "category", title: { display: false }, ticks: { color: ink(), callback(value) {
        const label = this.getLabelForValue(value);
        return label.length > 22 ? `${label.slice(0, 10)}\u2026${label.slice(-10)}` : label;
      } } }),
    }, (context) => `${runs[context.raw.y].label}, ${context.dataset.label}: ${number(context.raw.x)} s`,
    { indexAxis: "y", interaction: { mode: "nearest", intersect: true } });
    Object.values(PARTS).forEach((label, index) => {
      const box = element("span", { "aria-hidden": "true", style: "width:1em;height:1em;display:inline-block" });
      const paint = () => { box.style.background = colour(index); };
      paint();
      restyle.push(paint);
      const button = element("button", {
        type: "button", "aria-pressed": "true",
        onclick: () => {
          chart.setDatasetVisibility(index, !chart.isDatasetVisible(index));
          button.setAttribute("aria-pressed", String(chart.isDatasetVisible(index)));
          chart.update("none");
        },
      }, box, label);
      place.legend.append(button);
    });
    place.legend.setAttribute("aria-label", "Parts in the chart");
  }

  for (const empty of document.querySelectorAll(".tools:empty, .legend:empty")) empty.remove();
  const paintAll = () => restyle.forEach((paint) => paint());
  night.addEventListener("change", paintAll);
  const sizeAll = () => { paintAll(); Object.values(made).forEach((chart) => chart.resize()); };
  addEventListener("beforeprint", sizeAll);
  addEventListener("afterprint", sizeAll);

  for (const button of document.querySelectorAll(".copy")) {
    button.onclick = async () => {
      const text = button.parentElement.querySelector("pre");
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch { // a page from a file may not: the text is marked, and one key copies it
        getSelection().selectAllChildren(text);
        button.textContent = "Marked";
      }
    };
  }
  document.documentElement.dataset.ready = "yes";
})();
