"""How the report page looks: light or dark as its reader has it, one column on a phone, ink on paper when printed."""

STYLE = """
:root { color-scheme: light dark; --ink: #16202b; --soft: #5a6774; --paper: #f6f7f9; --card: #ffffff; --edge: #dde2e8;
  --with: #0b7a75; --without: #98a4b1; --read: #3f7fd9; --write: #e39a2d; --input: #c8475a; --output: #8a79c9;
  --good: #0b7a55; --bad: #b3372f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ecf2; --soft: #9aa7b4; --paper: #11161c; --card: #1a2129;
  --edge: #2c3641;
  --with: #35bdb4; --without: #6d7a88; --read: #6aa1ee; --write: #f0b04d; --input: #e87283; --output: #a999e6;
  --good: #4cc48f; --bad: #ef8379; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 .2rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .note { color: var(--soft); font-size: .9rem; }
header { margin-bottom: 1.5rem; }
.verdict { font-size: 1.15rem; margin-top: .8rem; max-width: 46rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.2rem, 1fr)); gap: .9rem; margin: 0 0 1.5rem;
  padding: 0; }
.tile, section { background: var(--card); border: 1px solid var(--edge); border-radius: 12px; }
.tile { padding: .9rem 1rem; } .tile dt { color: var(--soft); font-size: .85rem; }
.tile dd { margin: 0; }
.tile .figure { font-size: 1.4rem; font-weight: 650; white-space: nowrap; font-variant-numeric: tabular-nums;
  line-height: 1.25; }
section { padding: 1.1rem 1.2rem 1.2rem; margin-bottom: 1.1rem; }
svg { display: block; width: 100%; height: auto; margin-top: .6rem; overflow: visible; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--edge); stroke-width: 1; } .zero { stroke: var(--soft); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; } .tint { opacity: .16;
  stroke: none; }
.line.with { stroke: var(--with); } .tint.with { fill: var(--with); } .line.without { stroke: var(--without); }
.tint.without { fill: var(--without); } .line.window { stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 5 4; }
.line.expected { stroke: var(--without); stroke-dasharray: 6 4; } .line.billed { stroke: var(--with); }
.tint.billed { fill: var(--with); }
.tint.expected { fill: none; } .tint.window { fill: none; }
.bar.read { fill: var(--read); } .bar.write { fill: var(--write); } .bar.input { fill: var(--input); }
.bar.output { fill: var(--output); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .5rem 0 0; padding: 0; list-style: none;
  font-size: .88rem; color: var(--soft); }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; margin-right: .4rem;
  vertical-align: -.06rem; }
i.with, i.billed { background: var(--with); } i.without, i.expected { background: var(--without); }
i.window { background: var(--bad); }
i.read { background: var(--read); } i.write { background: var(--write); } i.input { background: var(--input); }
i.output { background: var(--output); }
.scroll { overflow-x: auto; margin: .6rem -.2rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .38rem .6rem; border-bottom: 1px solid var(--edge); vertical-align: top; }
th { color: var(--soft); font-weight: 550; white-space: nowrap; } .n { text-align: right; white-space: nowrap; }
td.kept { white-space: nowrap; }
td.words { min-width: 11rem; overflow-wrap: anywhere; } tr:last-child td { border-bottom: 0; }
.gone { text-decoration: line-through; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
dl.how { margin: .5rem 0 0; display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem;
  font-size: .92rem; }
dl.how dt { color: var(--soft); } dl.how dd { margin: 0; }
footer { color: var(--soft); font-size: .85rem; margin-top: 1.5rem; }
@media (max-width: 40rem) { main { padding: 1.2rem .8rem 3rem; } svg text { font-size: 21px; }
.line { stroke-width: 3; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .6rem; } .tile { padding: .7rem .8rem; }
  .tile .figure { font-size: 1.35rem; }
  section { padding: .9rem .8rem; border-radius: 10px; } h1 { font-size: 1.35rem; }
  dl.how { grid-template-columns: 1fr; gap: 0; }
  dl.how dd { margin-bottom: .5rem; } .thin { display: none; } }
@media print { body { background: #fff; } section, .tile { break-inside: avoid; } main { max-width: none;
  padding: 0; } }
"""
