// Audits of networks: the time of each kernel, what of it is lost, and the change that would win.
#include <algorithm>

#include "common/figures.h"
#include "heddle/support/error.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/files/file.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr size_t kMostBars = 25;

/// A kernel as Audit::to_json writes it.
struct Kernel {
  explicit Kernel(const Json& j)
      : name(j.at("name").as_string()),
        seconds(j.at("seconds").as_double()),
        lost(j.at("lost_s").as_double()),
        template_name(j.at("template").as_string()),
        provenance(j.at("provenance").as_string()) {
    if (j.at("bounds").size() > 0) bound = j.at("bounds").at(0).at("bound").as_string();
    if (j.at("why").size() > 0) why = j.at("why").at(0).as_string();
    if (j.at("changes").size() == 0) return;
    const Json& best = j.at("changes").at(0);
    change = best.at("from").as_string() + ": " + best.at("text").as_string();
    gain = ratio(best.at("before").as_double() / best.at("after").as_double());
  }
  std::string name;
  double seconds = 0, lost = 0;
  std::string template_name, provenance, bound, why, change, gain;
};

std::string chart(const std::vector<Kernel>& kernels) {
  double most = 0;
  for (const Kernel& k : kernels) most = std::max(most, k.seconds);
  const Unit unit = time_unit(most);
  std::vector<BarRow> rows;
  for (size_t i = 0; i < std::min(kMostBars, kernels.size()); ++i) {
    const Kernel& k = kernels[i];
    const std::string bound = k.name + ", least bound: " + format_time(k.seconds - k.lost);
    const std::string lost = k.name + ", lost: " + format_time(k.lost) + ", " + k.bound;
    rows.push_back({k.name,
                    {{{{(k.seconds - k.lost) / unit.scale, "bar-best", bound},
                       {k.lost / unit.scale, "kind3", lost}},
                      format_time(k.lost) + " lost"}}});
  }
  return html_legend({{Key::Mark::Block, "bar-best", "least bound"},
                      {Key::Mark::Block, "kind3", "time above it"}}) +
         bar_chart(rows, "time in a call, " + unit.name, "time lost by kernel");
}

std::string section_of(const Json& file, const Json& audit) {
  std::vector<Kernel> kernels;
  for (const Json& j : audit.at("kernels").elements()) kernels.emplace_back(j);
  const std::string sizes = audit.get_string("sizes", "");
  std::string body =
      "<h3>" +
      escape_xml(file.at("subject").as_string() + (sizes.empty() ? "" : " at " + sizes) + "  " +
                 audit.at("target").as_string()) +
      "</h3>\n";
  body += html_note("A call takes " + format_time(audit.at("call_s").as_double()) + ", " +
                    format_time(audit.at("lost_s").as_double()) +
                    " of it above the least bound of each kernel: of the machine, of a kernel of "
                    "like shape, or of another schedule.");
  body += chart(kernels);
  std::vector<std::vector<std::string>> cells;
  for (const Kernel& k : kernels) {
    cells.push_back({k.name, k.template_name, k.provenance, k.why, k.change, k.gain,
                     format_time(k.seconds), format_time(k.lost)});
  }
  return body + html_table({"kernel", "template", "chosen by", "because", "what wins", "gain",
                            "time", "lost"},
                           cells, 5);
}

}  // namespace

Json read_audit(const std::string& path) {
  try {
    const Json file = Json::parse(read_file(path));
    for (const Json& audit : file.at("audits").elements()) (void)section_of(file, audit);
    return file;
  } catch (const Error& e) {
    throw_user_error("'" + path + "' cannot be read as an audit: " + e.message, {},
                     "write it with `heddle audit MODEL.onnx --json > FILE`");
  }
}

std::string audits_section(const LogData& data) {
  std::string body;
  for (const Json& file : data.audits) {
    for (const Json& audit : file.at("audits").elements()) body += section_of(file, audit);
  }
  return body.empty() ? "" : html_section("Where networks lose time", body);
}

}  // namespace heddle::cli
