// Families of kernels: the kernel at each size, and its expected slowdown.
#include <algorithm>
#include <cmath>
#include <map>

#include "heddle/network/pass_records.h"
#include "heddle/network/size_kernels.h"
#include "heddle/support/error.h"
#include "report/html.h"
#include "report/sections.h"
#include "support/files/file.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr double kWidth = 900, kHeight = 320;
constexpr double kCell = 64;  // size of a cell in the map of two dimensions

struct Row {
  std::vector<double> sizes;
  std::string kernel, tip;
  double slowdown = 1, seconds = 0;
};

/// A family as `heddle explain --json` and `heddle tune --json` write it.
class FamilyData {
 public:
  explicit FamilyData(const Json& file) : title(file.at("subject").as_string()) {
    const Json& family = file.at("family");
    const std::string dtype = file.get_string("dtype", "");
    title += "  " + dtype + (dtype.empty() ? "" : ", ") + file.at("target").as_string();
    expected = family.at("expected_slowdown").as_double();
    const Json &all_dims = family.at("dims"), &variants = family.at("variants"),
               &all_rows = family.at("rows");
    for (size_t i = 0; i < all_dims.size(); ++i)
      dims.push_back(all_dims.at(i).at("name").as_string());
    for (size_t i = 0; i < variants.size(); ++i) {
      const std::string name = variants.at(i).at("name").as_string();
      number_[name] = kernels.size();
      kernels.push_back(name);
    }
    for (size_t i = 0; i < all_rows.size(); ++i) rows.push_back(row(all_rows.at(i)));
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.sizes < b.sizes; });
  }

  std::string css(const std::string& kernel) const {
    return "kind" + std::to_string(std::min<size_t>(number_.at(kernel) + 1, 7));
  }

  std::string title;
  std::vector<std::string> dims, kernels;
  std::vector<Row> rows;
  double expected = 1;

 private:
  Row row(const Json& j) const {
    Row r;
    std::string at;
    for (size_t d = 0; d < dims.size(); ++d) {
      r.sizes.push_back(j.at("sizes").at(d).as_double());
      at += (d ? ", " : "") + dims[d] + " = " + std::to_string(j.at("sizes").at(d).as_int());
    }
    r.kernel = j.at("kernel").as_string();
    r.seconds = j.at("seconds").at(number_.at(r.kernel)).as_double();
    r.slowdown = j.at("slowdown").as_double();
    r.tip = at + ": " + r.kernel + ", " + format_time(r.seconds) + ", slowdown " +
            format_fixed(r.slowdown, 2);
    return r;
  }
  std::map<std::string, size_t> number_;
};

std::string legend(const FamilyData& f) {
  std::vector<Key> keys;
  for (const std::string& k : f.kernels) keys.push_back({Key::Mark::Block, f.css(k), k});
  return html_legend(keys);
}

/// A bar for each size of the race, as wide as the range of sizes that it represents.
std::string chart(const FamilyData& f) {
  double worst = 1.2;
  for (const Row& r : f.rows) worst = std::max(worst, r.slowdown);
  const double low = f.rows.front().sizes[0], high = f.rows.back().sizes[0];
  Chart c({f.dims[0] + " (logarithmic)", low * 0.9, high * 1.1, true},
          {"slowdown expected", 0, worst * 1.1, false}, kWidth, kHeight, "slowdown by size");
  for (size_t i = 0; i < f.rows.size(); ++i) {
    const Row& r = f.rows[i];
    const auto middle = [&](size_t a, size_t b) {
      return std::sqrt(f.rows[a].sizes[0] * f.rows[b].sizes[0]);
    };
    const double from = c.x(i > 0 ? middle(i - 1, i) : low * 0.9),
                 to = c.x(i + 1 < f.rows.size() ? middle(i, i + 1) : high * 1.1),
                 top = c.y(r.slowdown);
    c.svg().rect(from + 0.5, top, std::max(to - from - 1, 1.0), c.bottom() - top, f.css(r.kernel),
                 r.tip);
  }
  c.svg().line(c.left(), c.y(1), c.right(), c.y(1), "static");
  return "<figure>" + c.finish() + "</figure>\n";
}

/// A cell for each pair of sizes of the race.
std::string map_of_two(const FamilyData& f) {
  std::map<double, size_t> columns, lines;
  for (const Row& r : f.rows) columns[r.sizes[1]], lines[r.sizes[0]];
  size_t n = 0;
  for (auto& [size, at] : columns) at = n++;
  n = lines.size();
  for (auto& [size, at] : lines) at = --n;
  const double left = 80, height = 30, bottom = height * static_cast<double>(lines.size());
  // Pages stretch a picture to their width. A narrow one would have large letters.
  const double width = std::max(kWidth, left + kCell * static_cast<double>(columns.size()) + 20);
  Svg svg(width, bottom + 44, "kernel by sizes");
  for (const auto& [size, at] : columns)
    svg.text(left + kCell * (static_cast<double>(at) + 0.5), bottom + 16, format_fixed(size, 0),
             "tick", Anchor::Middle);
  for (const auto& [size, at] : lines)
    svg.text(left - 8, height * (static_cast<double>(at) + 0.5) + 4, format_fixed(size, 0), "tick",
             Anchor::End);
  svg.text(left + kCell * static_cast<double>(columns.size()) / 2, bottom + 36, f.dims[1], "tick",
           Anchor::Middle);
  svg.text(6, bottom / 2 + 4, f.dims[0], "tick");
  for (const Row& r : f.rows) {
    const double x = left + kCell * static_cast<double>(columns.at(r.sizes[1])),
                 y = height * static_cast<double>(lines.at(r.sizes[0]));
    // A stripe in the kernel's colour, and the number beside it, which is readable on light and
    // dark pages.
    svg.rect(x + 2, y + 2, 14, height - 4, f.css(r.kernel), r.tip);
    svg.text(x + 20, y + height / 2 + 4, format_fixed(r.slowdown, 2), "number");
  }
  return "<figure>" + svg.finish() + "</figure>\n";
}

std::string table(const FamilyData& f) {
  std::string sizes;
  for (const std::string& d : f.dims) sizes += (sizes.empty() ? "" : " x ") + d;
  std::vector<std::vector<std::string>> cells;
  for (const Row& r : f.rows) {
    std::string at;
    for (const double s : r.sizes) at += (at.empty() ? "" : " x ") + format_fixed(s, 0);
    cells.push_back({r.kernel, at, format_time(r.seconds), format_fixed(r.slowdown, 2)});
  }
  return html_table({"kernel", sizes, "time", "slowdown"}, cells, 1);
}

std::string section_of(const FamilyData& f) {
  std::string body = "<h3>" + escape_xml(f.title) + "</h3>\n";
  body += html_note(
      "The kernels were raced at these sizes. The slowdown is the time of the kernel "
      "that runs there over the time of the fastest of all that were raced; " +
      format_fixed(f.expected, 3) + " is expected over all sizes.");
  body += legend(f);
  if (f.dims.size() == 1) body += chart(f);
  if (f.dims.size() == 2) body += map_of_two(f);
  return body + table(f);
}

/// A task of a network in the form of a family alone.
Json family_of_task(const std::string& name, const std::string& target, const Json& family) {
  return Json::object({{"subject", name}, {"target", target}, {"family", family}});
}

}  // namespace

std::vector<Json> read_families(const std::string& path) {
  std::vector<Json> families;
  try {
    const Json file = Json::parse(read_file(path));
    if (const Json* tasks = file.find("families")) {
      for (const Json& task : tasks->elements())
        families.push_back(family_of_task(task.at("name").as_string(),
                                          file.at("target").as_string(), task.at("family")));
    } else {
      families.push_back(file);
    }
    for (const Json& family : families) {
      if (FamilyData(family).rows.empty()) throw_user_error("it has no sizes");
    }
    if (families.empty()) throw_user_error("it has no kernels");
  } catch (const Error& e) {
    throw_user_error("'" + path + "' cannot be read as a family of kernels: " + e.message, {},
                     "write it with `heddle tune matmul:1..2048x768x768 --json FILE`, or with "
                     "`heddle explain` and --json");
  }
  return families;
}

std::vector<Json> take_families(std::vector<Record>& records) {
  std::map<std::pair<uint64_t, std::string>, Json> last;
  for (const Record& r : records) {
    if (const Json* kernels = kernels_in(r))
      last[{r.structural_hash, to_string(r.target)}] =
          family_of_task(r.subject, to_string(r.target), *kernels);
  }
  std::erase_if(records, [](const Record& r) { return kernels_in(r) || passes_in(r); });
  std::vector<Json> families;
  for (auto& [task, family] : last) families.push_back(std::move(family));
  return families;
}

std::string families_section(const LogData& data) {
  if (data.families.empty()) return "";
  std::string body;
  for (const Json& file : data.families) body += section_of(FamilyData(file));
  return html_section("Families of kernels", body);
}

}  // namespace heddle::cli
