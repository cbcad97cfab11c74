#include "report/page_style.h"

#include <fmt/format.h>

#include "report/leak_svg.h"
#include "report/report_charts.h"

namespace lucid {
namespace {

constexpr std::string_view kLightVariables =
    "--page:#f4f6f8;--card:#ffffff;--line:#dfe4ea;--text:#1c2430;--quiet:#566170;--loud:#b3145e;"
    "--good:#1a7f4b;--note:#fff8e6;--note-line:#e2b34a";
constexpr std::string_view kDarkVariables =
    "--page:#0d1117;--card:#161b22;--line:#2d3643;--text:#e8ecf1;--quiet:#9aa7b6;--loud:#ff79b4;"
    "--good:#4cc38a;--note:#2a2412;--note-line:#8a6a1c";

constexpr std::string_view kRules = R"(
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.6 system-ui,-apple-system,
"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
main{max-width:1040px;margin:0 auto;padding:44px 24px 64px}
h1{font-size:32px;line-height:1.2;margin:0 0 12px;letter-spacing:-0.01em;overflow-wrap:anywhere}
h2{font-size:22px;line-height:1.3;margin:56px 0 10px;letter-spacing:-0.005em}
.secret{display:inline-block;padding:1px 8px;border-radius:5px;font-size:12.5px;line-height:1.5;
font-weight:600;letter-spacing:0;white-space:nowrap;vertical-align:2px;color:var(--loud);
border:1px solid var(--loud)}
h3{font-size:16px;margin:28px 0 8px}
p{margin:0 0 12px;max-width:78ch}
sup{line-height:0}
summary{cursor:pointer;margin:16px 0 0;color:var(--quiet)}
.lede{font-size:18px;max-width:74ch}
.quiet,figcaption{color:var(--quiet);font-size:15px;max-width:100ch}
.missing{color:var(--quiet)}
figure{margin:18px 0 0;min-width:0}
figure svg{display:block;width:100%;height:auto}
figcaption,.scroll+.quiet,.card+.quiet{margin-top:12px}
.card,.scroll{background:var(--card);border:1px solid var(--line);border-radius:10px}
.card{padding:14px 12px 10px;margin-top:18px}
.scroll{overflow-x:auto;margin-top:18px}
.wide{overflow-x:auto}.wide svg{display:block;width:100%;min-width:560px;height:auto}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:12px}
.trio{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(240px,100%),1fr));gap:20px}
.trio figure{margin-top:4px}
.pair svg{display:block;width:100%;height:auto}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(215px,100%),1fr));gap:14px;
margin:26px 0 0}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:14px 18px}
.figures b{display:block;font-size:28px;line-height:1.25;font-weight:650;letter-spacing:-0.01em;
font-variant-numeric:tabular-nums}
.figures span{color:var(--quiet);font-size:14px;line-height:1.45;display:block}
.figures b.good{color:var(--good)}.figures b.loud{color:var(--loud)}
.legend{margin:6px 4px 4px;max-width:none;font-size:14px;color:var(--quiet)}
.key{display:inline-block;margin-right:18px;white-space:nowrap}
.key i{display:inline-block;width:11px;height:11px;border-radius:50%;margin-right:7px;
vertical-align:-1px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:15px}
th,td{padding:8px 14px;text-align:right;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--quiet);font-weight:600;vertical-align:bottom;line-height:1.35}
.l{text-align:left}
tbody th{font-weight:600;white-space:nowrap}
td{white-space:nowrap}td.l:last-child{white-space:normal}
td.loud{color:var(--loud);font-weight:650}
table.facts td{text-align:left;white-space:normal;overflow-wrap:anywhere}
table.facts th{width:230px;font-weight:500;color:var(--quiet);text-align:left}
table.facts tr:first-child>*{border-top:0}
code{font:13.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
overflow-wrap:anywhere}
.note{background:var(--note);border-left:4px solid var(--note-line);border-radius:6px;
padding:14px 18px;margin:18px 0}
.note :last-child{margin-bottom:0}
.game{display:grid;grid-template-columns:minmax(150px,26%) 1fr;gap:6px 14px;align-items:center;
margin:10px 6px}
.game>span{font-size:14px;line-height:1.35}
.game .bar{position:relative;background:var(--line);border-radius:6px;height:26px}
.game .bar i{position:absolute;left:0;top:0;bottom:0;border-radius:6px;background:var(--good)}
.game .bar i.loud{background:var(--loud)}
.game .bar u{position:absolute;top:-3px;bottom:-3px;width:0;border-left:2px dashed var(--text)}
.game .bar b{position:absolute;right:4px;top:3px;padding:0 6px;border-radius:5px;line-height:20px;
font-size:14px;color:var(--text);background:var(--card)}
footer{margin-top:56px;color:var(--quiet);font-size:14px}
@media (max-width:600px){
main{padding:28px 16px 48px}h1{font-size:26px}.lede{font-size:17px}
th,td{padding:7px 10px}table.facts th{width:110px}
}
@media print{
body{background:#fff;font-size:10.5pt}
main{max-width:none;padding:0}
h1{font-size:22pt}h2{font-size:14pt;margin-top:22pt}.lede{font-size:12pt}
figure,tr,.note,.figures div,.card{break-inside:avoid}h2,h3{break-after:avoid}
.wide svg{min-width:0}.scroll{overflow:visible}
table,code{font-size:8.5pt}th,td{padding:4pt 6pt}td{white-space:normal}
}
)";

}  // namespace

std::string PageStyle() {
  return fmt::format(
      ":root{{{};{}}}\n{}@media screen and (prefers-color-scheme:dark){{\n:root{{{};{}}}\n{}}}{}{}",
      kLightVariables, ChartColours(false), LeakSvgStyle(Shade::kLight), kDarkVariables,
      ChartColours(true), LeakSvgStyle(Shade::kDark), kRules, ChartRules());
}

}  // namespace lucid
