#include "common/alternatives_table.h"

#include <algorithm>

#include "common/figures.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

double best_of(const std::vector<AlternativeRow>& rows) {
  double best = 0;
  for (const AlternativeRow& r : rows) {
    if (r.seconds > 0 && (best <= 0 || r.seconds < best)) best = r.seconds;
  }
  return best;
}

std::string tried(const AlternativeRow& r) {
  if (!r.why_not.empty()) return "no";
  return r.trials > 0 ? count_text(r.trials, "trial") : "not yet";
}

/// The remark of a row: why it was not tried, the note of its rule, or the knobs of its best
/// schedule.
std::string remark(const AlternativeRow& r) {
  if (!r.why_not.empty()) return r.why_not;
  std::string knobs;
  if (r.config.is_object()) {
    for (const auto& [name, value] : r.config.members()) {
      if (name != "alternative") knobs += (knobs.empty() ? "" : ", ") + name + "=" + value.dump();
    }
  }
  return knobs.empty() ? r.note : knobs;
}

}  // namespace

std::vector<std::vector<std::string>> alternatives_cells(const std::vector<AlternativeRow>& rows) {
  std::vector<std::vector<std::string>> out{{"alternative", "template", "time", "of best",
                                             "numerics", "errors", "tried",
                                             "parameters, or why not"}};
  const double best = best_of(rows);
  for (const AlternativeRow& r : rows) {
    out.push_back({(r.name.empty() ? "as declared" : r.name) + (r.used ? " *" : ""),
                   r.template_name.empty() ? "-" : r.template_name,
                   r.seconds > 0 ? format_time(r.seconds) : "-",
                   r.seconds > 0 ? percent(best / r.seconds) : "-", to_string(r.numerics),
                   "x" + format_fixed(r.error_growth, 1), tried(r), remark(r)});
  }
  return out;
}

std::string alternatives_text(const std::vector<AlternativeRow>& rows, int columns) {
  std::vector<std::vector<std::string>> cells = alternatives_cells(rows);
  constexpr size_t kLeast = 32, kMost = 90;  // characters of the last column
  size_t before = 0;
  for (size_t c = 0; c + 1 < cells[0].size(); ++c) {
    size_t width = 0;
    for (const auto& row : cells) width = std::max(width, row[c].size());
    before += width + 2;
  }
  const auto all = static_cast<size_t>(std::max(0, columns));
  const size_t last = std::clamp(all > before ? all - before : 0, kLeast, kMost);
  Table table(cells[0]);
  for (const size_t c : {size_t{1}, size_t{4}, size_t{7}}) table.align_left(c);
  for (size_t i = 1; i < cells.size(); ++i) {
    // A list of knobs is cut at its end, because its beginning is the most useful part.
    std::string& text = cells[i].back();
    if (rows[i - 1].config.is_object() && rows[i - 1].why_not.empty() && text.size() > last)
      text = text.substr(0, last - 2) + "..";
    table.add_row(std::move(cells[i]));
  }
  return table.to_string();
}

Json alternatives_json(const std::vector<AlternativeRow>& rows) {
  const double best = best_of(rows);
  Json out = Json::array();
  for (const AlternativeRow& r : rows) {
    Json j = Json::object({{"name", r.name},
                           {"template", r.template_name},
                           {"numerics", to_string(r.numerics)},
                           {"error_growth", r.error_growth},
                           {"used", r.used},
                           {"tried", r.trials > 0},
                           {"trials", r.trials}});
    j["seconds"] = r.seconds > 0 ? Json(r.seconds) : Json();
    j["share_of_best"] = r.seconds > 0 ? Json(best / r.seconds) : Json();
    j["why_not"] = r.why_not;
    j["note"] = r.note;
    j["config"] = r.config;
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace heddle::cli
