// The section on machines: what each measured, where a log contains several.
#include <map>

#include "common/figures.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {

std::string machines_section(const LogData& data) {
  struct Sums {
    int trials = 0, failed = 0;
    double seconds = 0;
  };
  std::map<std::string, Sums> machines;
  double all = 0;
  for (const Record& r : data.records) {
    Sums& s = machines[r.machine];
    ++s.trials;
    s.failed += r.error != MeasureError::None;
    s.seconds += r.measure_seconds;
    all += r.measure_seconds;
  }
  if (machines.size() < 2) return "";
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, s] : machines) {
    rows.push_back({name, std::to_string(s.trials), std::to_string(s.failed),
                    format_time(s.seconds),
                    data.seconds > 0 ? percent(s.seconds / data.seconds) : "-"});
  }
  return html_section(
      "Machines",
      html_table({"machine", "trials", "failed", "measuring", "of the time"}, rows, 1) +
          html_note("What is left of the time a device waited, or loaded code: `heddle tune` says "
                    "how long it waited for work. All of them measured for " +
                    format_time(all) + "."));
}

}  // namespace heddle::cli
