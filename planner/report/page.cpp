#include "planner/report/page.h"

#include <cstdio>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"

namespace ucudnn::planner {
namespace {

// Colours k0 to k9 fill boxes; text on them has enough contrast. Lines have colours l0 to l9.
// Printed pages use the light theme.
constexpr const char* kStyle = R"css(
:root { --paper: #ffffff; --ink: #1b1f24; --faint: #5a6470; --line: #c8ced6; --band: #f3f5f8; --mark: #b3261e;
  --k0: #a6cee3; --k1: #fdbf6f; --k2: #b2df8a; --k3: #cab2d6; --k4: #fb9a99;
  --k5: #f2e394; --k6: #8dd3c7; --k7: #d9b38c; --k8: #c4c9cf; --k9: #eeb0d8;
  --l0: #1f6fb4; --l1: #c25e00; --l2: #2e8b2e; --l3: #6a3d9a; --l4: #c1272d;
  --l5: #8a7a00; --l6: #00796b; --l7: #7a4a1c; --l8: #5a6470; --l9: #b0237f; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #15181c; --ink: #e6e9ed; --faint: #a2abb6; --line: #3d454e; --band: #1f242a; --mark: #ff8a80;
    --k0: #2b5f80; --k1: #8a5a12; --k2: #3d6b22; --k3: #5d4480; --k4: #8c3434;
    --k5: #6e6415; --k6: #1f6b60; --k7: #6b4a2a; --k8: #555d66; --k9: #7a3565;
    --l0: #7ab8ea; --l1: #fdae61; --l2: #8fd67f; --l3: #c3a5e0; --l4: #ff8f8a;
    --l5: #e6d560; --l6: #74d2c2; --l7: #d9a877; --l8: #b9c1ca; --l9: #f09ad0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 90rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p { margin: .4rem 0; max-width: 60rem; } .faint, figcaption { color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding-bottom: .3rem; }
th, td { padding: .2rem .35rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; font-size: .75rem; }
tbody th { font-weight: 600; min-width: 9rem; } .sortable td:last-child:not(.number) { min-width: 10rem; } .number { text-align: right; } td.number { white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--band); }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px; }
th[aria-sort=ascending] button::after { content: " \25B2"; } th[aria-sort=descending] button::after { content: " \25BC"; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; margin: .4rem 0; }
dt { color: var(--faint); } dd { margin: 0; }
figure { margin: .8rem 0; } .points { display: inline-block; max-width: 100%; margin-right: 1.5rem; vertical-align: top; } svg { display: block; max-width: 100%; height: auto; }
svg text { font: 12px system-ui, "Liberation Sans", Arial, sans-serif; fill: var(--ink); }
svg .faint { fill: var(--faint); } svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg.natural { max-width: none; margin: 0 auto; } svg .moves { opacity: .7; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; margin: .4rem 0; }
.legend svg { display: inline; vertical-align: -2px; }
svg .value { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg .axis { stroke: var(--line); stroke-width: 1; fill: none; } svg .edge { stroke: var(--faint); fill: none; }
svg .step { stroke: var(--faint); fill: none; stroke-dasharray: 4 3; }
svg .limit { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 6 3; } svg .mark { fill: var(--mark); }
svg .chosen { fill: none; stroke: var(--mark); stroke-width: 2.5; }
svg .box { stroke: var(--ink); stroke-width: .7; } svg .again { stroke-dasharray: 4 2; stroke-width: 1.6; }
.k0 { fill: var(--k0); } .k1 { fill: var(--k1); } .k2 { fill: var(--k2); } .k3 { fill: var(--k3); }
.k4 { fill: var(--k4); } .k5 { fill: var(--k5); } .k6 { fill: var(--k6); } .k7 { fill: var(--k7); }
.k8 { fill: var(--k8); } .k9 { fill: var(--k9); }
.l0 { fill: var(--l0); stroke: var(--l0); } .l1 { fill: var(--l1); stroke: var(--l1); } .l2 { fill: var(--l2); stroke: var(--l2); }
.l3 { fill: var(--l3); stroke: var(--l3); } .l4 { fill: var(--l4); stroke: var(--l4); } .l5 { fill: var(--l5); stroke: var(--l5); }
.l6 { fill: var(--l6); stroke: var(--l6); } .l7 { fill: var(--l7); stroke: var(--l7); } .l8 { fill: var(--l8); stroke: var(--l8); }
.l9 { fill: var(--l9); stroke: var(--l9); } svg .line { fill: none; } svg .tall { stroke-width: 1.8; }
@media screen and (max-width: 45rem) { dl { grid-template-columns: auto; } dd { margin-bottom: .3rem; } .bars svg { min-width: 36rem; } }
@media print { @page { margin: 14mm; } body { padding: 0; max-width: none; font-size: 10pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .scroll { overflow: visible; } svg.natural { max-width: 100%; } table { font-size: 7.5pt; } th, td { padding: .1rem .3rem; } tbody th { min-width: 0; }
  tr, .bars, .points { break-inside: avoid; } h2, h3 { break-after: avoid; } thead { display: table-header-group; break-inside: avoid; } }
)css";

// Sorts a table's rows by the column whose heading is pressed; a second press reverses the order.
constexpr const char* kScript = R"js(
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const rows = [...table.tBodies[0].rows];
    const number = head.classList.contains("number");
    const key = row => { const value = row.cells[column].dataset.value;
      return number ? (value === undefined ? null : Number(value)) : row.cells[column].textContent; };
    rows.sort((a, b) => { const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = number ? x - y : x.localeCompare(y, "en", {numeric: true});
      return down ? -order : order; });
    table.tBodies[0].append(...rows);
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }));
}
)js";

Element Meta(const char* attribute, std::string_view name, std::string_view content) {
  return Element("meta").Set(attribute, name).Set("content", content);
}

std::string SortValue(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// Adds `text` to `cell`. A line may break within an engine's name, after the characters "_", ","
// and "[" that join its parts.
void AddBreakable(std::string_view text, Element& cell) {
  while (!text.empty()) {
    const size_t end = text.find_first_of("_,[");
    const size_t part = end < text.size() - 1 && text[end + 1] != ' ' ? end + 1 : text.size();
    cell.Text(text.substr(0, part));
    text.remove_prefix(part);
    if (!text.empty()) cell.Add(Element("wbr"));
  }
}

}  // namespace

std::string FormatPage(const std::string& title, std::vector<Element> content) {
  Element head("head");
  head.Add(Element("meta").Set("charset", "utf-8"));
  head.Add(Meta("http-equiv", "Content-Security-Policy",
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"));
  head.Add(Meta("name", "viewport", "width=device-width, initial-scale=1"));
  head.Add(Meta("name", "color-scheme", "light dark"));
  head.Add(Element("title", title));
  head.Add(Element("style").Add(Element::Literal(kStyle)));
  Element main("main");
  for (Element& element : content) main.Add(std::move(element));
  Element body("body");
  body.Add(std::move(main)).Add(Element("script").Add(Element::Literal(kScript)));
  std::string page = "<!DOCTYPE html>\n";
  Element("html").Set("lang", "en").Add(std::move(head)).Add(std::move(body)).AppendTo(page);
  return page + "\n";
}

Element Section(const char* id, const std::string& heading) {
  return Element("section").Set("id", id).Add(Element("h2", heading));
}

Element Paragraph(const std::string& text) { return Element("p", text); }

Cell TimeCell(double ms) { return {Milliseconds(ms), ms}; }

Cell TimeCell(const std::optional<double>& ms) { return ms ? TimeCell(*ms) : Cell("not known"); }

Cell BytesCell(int64_t bytes) {
  return {FormatByteSize(static_cast<size_t>(bytes)), static_cast<double>(bytes)};
}

Cell CountCell(int64_t count) { return {std::to_string(count), static_cast<double>(count)}; }

Table::Table(const char* id, const std::string& caption, const std::vector<Column>& columns,
             bool sortable)
    : columns_(columns), table_("table") {
  table_.Set("id", id);
  if (sortable) table_.Set("class", "sortable");
  table_.Add(Element("caption", caption));
  Element row("tr");
  for (const Column& column : columns) {
    Element head("th");
    head.Set("scope", "col");
    if (column.number) head.Set("class", "number");
    if (sortable) {
      head.Add(Element("button", column.title).Set("type", "button"));
    } else {
      head.Text(column.title);
    }
    row.Add(std::move(head));
  }
  table_.Add(Element("thead").Add(std::move(row)));
}

void Table::AddRow(const std::vector<Cell>& cells) {
  Element row("tr");
  for (size_t at = 0; at < cells.size(); ++at) {
    Element cell(at == 0 ? "th" : "td");
    AddBreakable(cells[at].text, cell);
    if (at == 0) cell.Set("scope", "row");
    if (columns_[at].number) cell.Set("class", "number");
    if (cells[at].value) cell.Set("data-value", SortValue(*cells[at].value));
    row.Add(std::move(cell));
  }
  body_.Add(std::move(row));
}

Element Table::Take() {
  table_.Add(std::move(body_));
  return Element("div").Set("class", "scroll").Add(std::move(table_));
}

}  // namespace ucudnn::planner
