// Theme, sorting, filtering and charts of the page. Nothing is loaded from elsewhere.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const say = (text) => { document.getElementById("status").textContent = text; };

  // Theme: that of the system, unless the reader selects one.
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const showState = () => { theme.textContent = `Use ${isDark() ? "light" : "dark"} theme`; };
  try {
    const saved = localStorage.getItem("polars_rank-theme");
    if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  } catch { /* some browsers have no storage for local files */ }
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("polars_rank-theme", root.dataset.theme); } catch { /* as above */ }
    showState();
  });
  system.addEventListener("change", showState);
  theme.hidden = false;
  showState();

  // The rows of a table or of one of its metrics, without the row of the metric itself.
  const rowsOf = (part) => all("tbody tr:not(.metric)", part);

  // Sorting: a button in each heading; the sort key of a cell is data-sort or its text.
  const collator = new Intl.Collator(undefined, { numeric: true });
  const keyOf = (cell) => cell.dataset.sort ?? cell.textContent.trim();
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return collator.compare(a, b);
  };
  const numeric = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return Number(a) - Number(b);
  };
  const sort = (table, column, heading) => {
    const up = heading.getAttribute("aria-sort") === "descending"
      || (heading.getAttribute("aria-sort") === null && !heading.classList.contains("num"));
    const direction = up ? 1 : -1;
    for (const body of table.tBodies) {
      const rows = rowsOf(body).map((row) => [keyOf(row.cells[column]), row]);
      const byNumber = rows.every(([key]) => key === "" || !Number.isNaN(Number(key)));
      const order = byNumber ? numeric : compare;
      rows.sort(([a], [b]) => (a === "" || b === "" ? order(a, b) : direction * order(a, b)));
      rows.forEach(([, row]) => row.classList.remove("first"));
      body.append(...rows.map(([, row]) => row));
    }
    all("th[aria-sort]", table.tHead).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    say(`Sorted by ${heading.textContent}, ${up ? "ascending" : "descending"}`);
  };
  for (const table of all("table[data-sortable]")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (heading.classList.contains("picture") || rowsOf(table).length < 2) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => sort(table, column, heading));
    });
  }

  // A cue for tables that are wider than the screen.
  const mark = (region) => region.classList.toggle("more", region.scrollWidth > region.clientWidth + 1);
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  all(".scroll").forEach((region) => sizes.observe(region));

  // Filters: show rows with the selected metric, run and column that contain the text.
  for (const form of all("form[data-filter]")) {
    const table = document.getElementById(form.dataset.filter);
    const rows = rowsOf(table);
    const text = (row) => `${row.dataset.metric} ${row.textContent}`.toLowerCase();
    const texts = new Map(rows.map((row) => [row, text(row)]));
    const output = form.querySelector("output");
    const apply = () => {
      const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = all("select", form).filter((each) => each.value !== "");
      let count = 0;
      for (const row of rows) {
        const keep = chosen.every((each) => row.dataset[each.name] === each.value)
          && (!form.elements.significant?.checked || "significant" in row.dataset)
          && words.every((word) => texts.get(row).includes(word));
        row.hidden = !keep;
        count += keep;
      }
      for (const row of all(".metric", table)) {
        row.hidden = rowsOf(row.parentElement).every((each) => each.hidden);
      }
      if (output) output.textContent = `${count} of ${rows.length} rows`;
    };
    for (const event of ["input", "change"]) form.addEventListener(event, apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    apply();
  }

  // Charts of the selected metric and run. Their expressions are interpreted, not evaluated as code.
  const source = document.getElementById("charts-data");
  if (source) {
    const { config, kinds } = JSON.parse(source.textContent);
    const form = document.querySelector("form[data-for=charts]");
    const figures = all("figure[data-kind]");
    const options = {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, config,
      logLevel: 1,
      tooltip: { disableDefaultStyle: true },
      loader: { load: () => Promise.reject(new Error("loading is disabled")) },
    };
    const views = new Map();
    const draw = async (figure) => {
      const metric = form?.elements.metric.value ?? "";
      const run = form?.elements.run?.value ?? "";
      const charts = kinds[figure.dataset.kind];
      const specs = charts?.[metric] ?? charts?.[""];
      const chart = specs && (specs[run] ?? specs[""]);
      const place = figure.querySelector(".chart");
      views.get(figure)?.finalize();
      views.delete(figure);
      figure.hidden = !chart;
      if (!chart) return;
      const caption = figure.querySelector("figcaption");
      const title = document.createElement("strong");
      title.textContent = chart.title;
      caption.replaceChildren(title, chart.subtitle.join(" · "));
      const view = await window.vegaEmbed(place, chart.spec, options);
      views.set(figure, view);
      // For screen readers, one image with one label; the numbers are in the tables.
      place.setAttribute("role", "img");
      place.removeAttribute("aria-roledescription");
      place.setAttribute("aria-label", [chart.title, ...chart.subtitle].join(". "));
      place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      root.dataset.drawn = String(Number(root.dataset.drawn ?? 0) + 1);
    };
    const drawAll = () => Promise.all(figures.map(draw)).catch((error) => console.error(error));
    if (form) {
      form.addEventListener("change", drawAll);
      form.addEventListener("submit", (event) => event.preventDefault());
      form.hidden = all("select", form).every((each) => each.options.length < 2);
    }
    drawAll();
  }

  // Open all details in print.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
})();
