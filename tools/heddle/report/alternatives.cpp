// The measurements of each graph that computes a declaration.
#include <map>

#include "common/alternatives_table.h"
#include "heddle/dag/user_choice.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/sections.h"

namespace heddle::cli {
namespace {

std::vector<AlternativeRow> rows_of(const TaskLog& task) {
  std::vector<AlternativeRow> rows{{}};
  std::map<std::string, size_t> at{{"", 0}};
  for (const Alternative& a : task.alternatives) {
    at[a.name] = rows.size();
    rows.push_back({.name = a.name,
                    .numerics = a.numerics,
                    .error_growth = a.error_growth,
                    .why_not = a.why_not,
                    .note = a.reason});
  }
  for (const LogTrial& t : task.trials) {
    const Record& r = *t.record;
    if (!r.ok()) continue;
    const auto [found, added] = at.try_emplace(r.alternative, rows.size());
    if (added)
      rows.push_back(
          {.name = r.alternative,
           .numerics = is_user_choice(r.alternative) ? Numerics::Reassociated : Numerics::Exact});
    AlternativeRow& row = rows[found->second];
    row.why_not.clear();  // the options of the run allowed it
    ++row.trials;
    if (row.template_name.empty() || row.seconds <= 0 || r.median() < row.seconds) {
      row.template_name = r.template_name;
      row.seconds = r.median();
      row.config = r.config;
    }
  }
  if (task.best != nullptr) rows[at.at(task.best->alternative)].used = true;
  return rows;
}

}  // namespace

std::string alternatives_section(const LogData& data) {
  std::string body;
  for (size_t i = 0; i < data.tasks.size(); ++i) {
    const std::vector<AlternativeRow> rows = rows_of(data.tasks[i]);
    if (rows.size() < 2) continue;
    std::vector<std::vector<std::string>> cells = alternatives_cells(rows);
    const std::vector<std::string> header = cells[0];
    cells.erase(cells.begin());
    body += "<h3>" + escape_xml(numbered(data, i)) + "</h3>\n" + html_table(header, cells, 2);
  }
  if (body.empty()) return "";
  return html_section("Alternatives",
                      body + html_note("Each graph that computes the declaration: its fastest "
                                       "trial, as a share of the fastest of all. * is the best."));
}

}  // namespace heddle::cli
