// The page: style, head, and the sections in order.
#include <algorithm>
#include <ctime>
#include <set>

#include "common/figures.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

// Colours of Okabe and Ito, which people with any colour vision can distinguish. Everything that is
// shown by colour is also shown by shape or position.
constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --text: #1b1f24; --muted: #57606a;
  --grid: #e3e7eb; --rule: #c4cad1; --best: #0072b2; --trial: #7b9cba; --race: #00805c;
  --static: #57606a; --pale: #b9c2cc; --compile: #56b4e9; --failed: #d55e00; --k1: #8c8c8c;
  --k2: #b4558c; --k3: #d55e00; --k4: #c98a00; --k5: #3b9bd6; --k6: #000000; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --text: #e6e9ed; --muted: #9aa4af;
  --grid: #2a3138; --rule: #4a535d; --best: #5ab4f0; --trial: #8ba6bf; --race: #2ec99a;
  --static: #aab3bd; --pale: #55606b; --compile: #2f7fb0; --failed: #f08040; --k1: #a0a0a0;
  --k2: #dd8fba; --k3: #f08040; --k4: #e6b030; --k5: #7cc7f5; --k6: #ffffff; } }
@media print { :root { --page: #ffffff; --text: #000000; --muted: #444444; --grid: #dddddd; }
  figure, tr, .pair { break-inside: avoid; } h2, h3, .legend { break-after: avoid; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 3rem; max-width: 1160px; background: var(--page);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem;
  padding-top: .6rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; } .note { color: var(--muted); font-size: .9rem; max-width: 52rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .8rem 0; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: .92rem; } th, td { text-align: left; padding: .22rem .7rem .22rem 0; vertical-align: top;
  border-bottom: 1px solid var(--grid); overflow-wrap: break-word; } th { border-bottom-color: var(--rule); }
th.num, td.num { text-align: right; padding: .22rem 0 .22rem 1.1rem; white-space: nowrap; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .9rem; }
.legend svg { width: 16px; height: 12px; margin-right: .35rem; }
figure { margin: .3rem 0; overflow-x: auto; }
figure svg { width: 100%; min-width: 26rem; height: auto; display: block; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: .5rem 1.5rem; }
@media print { .pair { grid-template-columns: 1fr 1fr; } figure svg { min-width: 0; }
  table { font-size: .8rem; } }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); } svg .tick { fill: var(--muted); }
svg .number { font-weight: 600; }
.grid { stroke: var(--grid); } .axis { stroke: var(--rule); } polyline, svg path { fill: none; }
.best { fill: none; stroke: var(--best); stroke-width: 2.2; }
.static { stroke: var(--static); stroke-width: 1.5; stroke-dasharray: 6 4; }
.resumed { stroke: var(--muted); stroke-dasharray: 1 4; }
.trial { fill: var(--trial); fill-opacity: .75; }
svg .race { fill: var(--race); stroke: var(--page); stroke-width: .8; }
.failed { stroke-width: 1.6; } .failed.kind1 { stroke: var(--k1); } .failed.kind2 { stroke: var(--k2); }
.failed.kind3 { stroke: var(--k3); } .failed.kind4 { stroke: var(--k4); }
.failed.kind5 { stroke: var(--k5); } .failed.kind6 { stroke: var(--k6); }
.failed.kind7 { stroke: var(--muted); } rect.kind7 { fill: var(--muted); }
rect.kind1 { fill: var(--k1); } rect.kind2 { fill: var(--k2); } rect.kind3 { fill: var(--k3); }
rect.kind4 { fill: var(--k4); } rect.kind5 { fill: var(--k5); } rect.kind6 { fill: var(--k6); }
.bar-best, .point-best { fill: var(--best); } .bar-static { fill: var(--pale); }
.bar-compile { fill: var(--compile); } .bar-failed { fill: var(--failed); }
.point-static { fill: var(--page); stroke: var(--static); stroke-width: 1.8; }
.gain { stroke: var(--best); } .leader { stroke: var(--rule); }
.roof { fill: none; stroke: var(--text); stroke-width: 1.6; }
)css";

std::string utc_text(int64_t unix_time) {
  const auto when = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::string joined(const std::set<std::string>& texts) {
  std::string out;
  for (const std::string& t : texts) out += (out.empty() ? "" : "; ") + t;
  return out;
}

std::string head(const LogData& data) {
  std::string out = "<h1>Tuning report</h1>\n<dl>\n";
  auto fact = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += std::string("<dt>") + name + "</dt><dd>" + escape_xml(value) + "</dd>\n";
  };
  std::set<std::string> machines, targets, builds, protocols;
  int failed = 0;
  for (const Record& r : data.records) {
    machines.insert(r.machine);
    targets.insert(to_string(r.target));
    builds.insert(r.build);
    protocols.insert(r.protocol);
    if (r.error != MeasureError::None) ++failed;
  }
  protocols.erase("");
  fact("log", joined({data.files.begin(), data.files.end()}));
  std::string records = count_text(static_cast<int64_t>(data.records.size()), "record") + " of " +
                        count_text(static_cast<int64_t>(data.tasks.size()), "task");
  if (failed > 0) records += ", " + std::to_string(failed) + " failed";
  if (data.seconds > 0 && !data.records.empty()) {
    records += ", in " + clock_text(data.seconds) + " of tuning (" +
               format_fixed(static_cast<double>(data.records.size()) / data.seconds, 1) +
               " trials/s)";
  }
  if (!data.records.empty() || (data.picks.empty() && data.families.empty() &&
                                data.audits.empty() && data.certificates.all.empty()))
    fact("records", records);
  if (data.tasks.size() > 1 && data.best_total > 0) {
    fact("overall", format_time(data.static_total) + " static, " + format_time(data.best_total) +
                        " best, " + ratio(data.static_total / data.best_total));
  }
  const auto [first, last] = std::minmax_element(
      data.records.begin(), data.records.end(),
      [](const Record& a, const Record& b) { return a.unix_time < b.unix_time; });
  if (first != data.records.end() && first->unix_time > 0) {
    const std::string from = utc_text(first->unix_time), to = utc_text(last->unix_time);
    fact("when", from == to ? from : from + " to " + to);
  }
  fact("machine", joined(machines));
  fact("target", joined(targets));
  fact("timed", joined(protocols));
  fact("Heddle", joined(builds));
  return out + "</dl>\n";
}

std::string problems_section(const LogData& data) {
  if (data.problems.empty()) return "";
  std::string body = "<ul>\n";
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(kShown, data.problems.size()); ++i) {
    body += "<li>" + escape_xml(data.problems[i]) + "</li>\n";
  }
  body += "</ul>\n";
  if (data.problems.size() > kShown) {
    body += html_note("and " + std::to_string(data.problems.size() - kShown) + " more");
  }
  return html_section("What could not be read", body);
}

}  // namespace

std::string report_page(const LogData& data, const std::vector<Roof>& roofs) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>Tuning report</title>\n<style>" +
         std::string(kStyle) + "</style>\n</head>\n<body>\n" + head(data) + problems_section(data) +
         tasks_section(data) + network_section(data) + curves_section(data) +
         roofline_section(data, roofs) + failures_section(data) + model_section(data) +
         alternatives_section(data) + configs_section(data) + time_section(data) +
         machines_section(data) + picks_section(data) + families_section(data) +
         audits_section(data) + certificates_section(data) + "</body>\n</html>\n";
}

}  // namespace heddle::cli
