// How well certificates hold: what was said beside what was true.
#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "report/sections.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr double kWidth = 560, kHeight = 420;

/// The shares of chance around what was said, as a vertical line of two standard deviations.
void draw_bin(Chart& chart, const CertificateBin& bin) {
  const double x = chart.x(bin.said), truth = bin.truth();
  const double sigma = std::sqrt(truth * (1 - truth) / bin.problems);
  chart.svg().line(x, chart.y(std::max(0.0, truth - 2 * sigma)), x,
                   chart.y(std::min(1.0, truth + 2 * sigma)), "gain");
  chart.svg().circle(x, chart.y(truth), 3 + std::sqrt(bin.problems) / 4, "point-best",
                     std::to_string(bin.problems) + " problems: said " + format_fixed(bin.said, 2) +
                         ", true " + format_fixed(truth, 2));
}

}  // namespace

std::string certificates_section(const LogData& data) {
  const CertificateCalibration& c = data.certificates;
  if (c.all.empty()) return "";
  Chart chart({"probability that was said", 0, 1}, {"share within 5 % of the best", 0, 1}, kWidth,
              kHeight, "calibration of certificates");
  chart.svg().line(chart.x(0), chart.y(0), chart.x(1), chart.y(1), "static");
  for (const CertificateBin& bin : c.all) draw_bin(chart, bin);
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const std::vector<CertificateBin>& bins) {
    for (const CertificateBin& b : bins)
      rows.push_back(
          {name, std::to_string(b.problems), format_fixed(b.said, 2), format_fixed(b.truth(), 2)});
  };
  add("all", c.all);
  for (const CertificateCalibration::Class& h : c.classes) add(h.heuristic, h.bins);
  return html_section(
      "Certificates",
      html_legend({{Key::Mark::Dot, "point-best", "problems of a tenth, two standard deviations"},
                   {Key::Mark::Line, "static", "as it should be"}}) +
          "<figure>" + chart.finish() + "</figure>\n" +
          html_table({"heuristic", "problems", "said", "true"}, rows, 1) +
          html_note("Said by trees that had not seen the problems; " + format_fixed(c.error(), 3) +
                    " off on average."));
}

}  // namespace heddle::cli
