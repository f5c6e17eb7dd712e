//! The page's style sheet, for screen, phone and print. All text has a contrast of at least 4.5.

pub(super) const STYLE: &str = r#"
:root { color-scheme: light; --ink: #1c1b18; --soft: #55524a; --rule: #d9d5c8; --ground: #fffdf7; --warn: #8c1d18; --link: #0b4f8a; }
* { box-sizing: border-box; }
html { background: var(--ground); -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 68rem; color: var(--ink); background: var(--ground);
  font: 1.0625rem/1.5 "Iowan Old Style", Palatino, "Palatino Linotype", "URW Palladio L", "Book Antiqua", Georgia, serif; overflow-wrap: break-word; }
h1, h2, h3, h4 { font-weight: 400; line-height: 1.2; margin: 0; }
h1 { font-size: 2.4rem; }
h2 { font-size: 1.65rem; font-style: italic; margin-top: 3.5rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.1rem; font-style: italic; }
h4 { font: 600 .85rem/1.3 system-ui, sans-serif; }
p { margin: .6rem 0; max-width: 44rem; }
a { color: var(--link); text-underline-offset: .15em; text-decoration-thickness: 1px; }
a:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code { font: .84em/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.lead { color: var(--soft); font-size: 1.15rem; }
.warning { color: var(--warn); font-weight: 600; }
nav ol { list-style: none; margin: .5rem 0; padding: 0; columns: 17rem auto; column-gap: 2rem; }
nav > ol > li { break-inside: avoid; margin-bottom: .6rem; }
nav ol ol { columns: auto; margin: 0; font-size: .92em; }
nav ol ol li { padding-left: 1rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem 1rem; margin: .8rem 0; font-size: .95rem; }
dt { color: var(--soft); } dd { margin: 0; } dd code { display: inline-block; max-width: 100%; }
header h3 { margin-top: 1rem; }
.figures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 2.2rem 2.5rem; align-items: start; }
figure { margin: 1.4rem 0 0; min-width: 0; }
figure.full, figure:has(.many) { grid-column: 1 / -1; }
.panels { display: grid; gap: 1rem 2.5rem; }
.panels.many { grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.panel { min-width: 0; max-width: 31rem; margin-top: .6rem; }
figcaption { font-size: .95rem; line-height: 1.42; max-width: 44rem; margin-top: .3rem; color: var(--ink); }
.paper { color: var(--soft); }
svg.plot { display: block; width: 100%; height: auto; font: 12.5px system-ui, sans-serif; fill: var(--soft); }
svg .tick { font-size: 12px; } svg .unit { fill: var(--ink); } svg .label { font-weight: 600; }
svg .grid { stroke: #ebe7dc; stroke-width: 1; fill: none; } svg .axis { stroke: #8b877b; stroke-width: 1; fill: none; }
svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } svg .interval { stroke-width: 1.4; stroke-opacity: .55; fill: none; }
svg .row { stroke: #d9d5c8; stroke-width: 1; fill: none; } svg .wide-interval { stroke-width: 4; stroke-opacity: .35; }
svg .value { fill: var(--ink); paint-order: stroke; stroke: var(--ground); stroke-width: 4px; }
svg .dot { stroke-width: 1.3; }
.legend { list-style: none; margin: .3rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font: .82rem/1.5 system-ui, sans-serif; }
.swatch { vertical-align: -1px; }
.invalid { margin: .4rem 0; padding-left: 0; list-style: none; color: var(--warn); font-size: .88rem; line-height: 1.4; max-width: 44rem; }
.note { font-size: .88rem; margin: .15rem 0; }
details { margin: .4rem 0; min-width: 0; } summary { cursor: pointer; color: var(--link); font-size: .92rem; }
details.all { margin-top: 1.4rem; } .all h4 { margin-top: 1.3rem; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font: .8rem/1.35 system-ui, sans-serif; font-variant-numeric: tabular-nums lining-nums; margin: .5rem 0; }
caption { text-align: left; color: var(--soft); padding-bottom: .2rem; }
th, td { padding: .16rem .7rem .16rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); vertical-align: baseline; }
th { font-weight: 600; } thead th { border-bottom: 1px solid #8b877b; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; } tbody th { font-weight: 400; }
td.words { text-align: left; white-space: normal; min-width: 12rem; }
td b { color: var(--warn); } .range { display: inline-block; text-align: left; color: var(--soft); font-size: .92em; padding-left: .35em; }
footer { margin-top: 4rem; color: var(--soft); font-size: .9rem; border-top: 1px solid var(--rule); padding-top: .8rem; }
@media (max-width: 52rem) { .figures { grid-template-columns: minmax(0, 1fr); } body { padding-top: 1.5rem; } h1 { font-size: 1.9rem; } .panel { max-width: 36rem; } }
@media (max-width: 26rem) { body { padding-left: .85rem; padding-right: .85rem; } dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: .4rem; } }
@page { margin: 15mm 14mm; }
@media print {
  html, body { background: #fff; } html { font-size: 12px; } body { max-width: none; padding: 0; }
  a { color: inherit; text-decoration: none; } h2 { margin-top: 1.6rem; } h2, h3, h4, thead, section > p { break-after: avoid; } section > p { break-inside: avoid; } .figures { break-before: avoid; }
  .figures { display: block; } figure { margin-top: 1rem; } .panels, figcaption, tr { break-inside: avoid; }
  .panels.many { grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .4rem 1rem; }
  figure:not(:has(.many)) { display: grid; grid-template-columns: 46% minmax(0, 1fr); grid-template-rows: repeat(3, auto) 1fr auto; column-gap: 1.2rem; break-inside: avoid; }
  figure:not(:has(.many)) > * { grid-column: 2; } figure:not(:has(.many)) > h3, figure:not(:has(.many)) > details { grid-column: 1 / -1; }
  figure:not(:has(.many)) > details { grid-row: 5; }
  figure:not(:has(.many)) > .panels { grid-column: 1; grid-row: 2 / 5; align-self: start; }
  details:not([open]) summary { display: none; }
  figure details::details-content { content-visibility: visible; display: block; block-size: auto; opacity: 1; }
  .wide { overflow: visible; } table { font-size: 6.4pt; } th, td { padding: .1rem .5rem .1rem 0; line-height: 1.2; } th { white-space: normal; } table:has(thead th:nth-child(6)) .range { display: block; min-width: 0 !important; text-align: right; } table:has(thead th:nth-child(8)) { font-size: 5.2pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"#;
