// Certificates as text and as JSON.
#include <cmath>
#include <utility>

#include "heddle/heuristics/certificate.h"
#include "support/table.h"

namespace heddle {
namespace {

std::string percent(double share) { return format_fixed(100 * share, 0) + " %"; }

Json known(double seconds) { return seconds > 0 ? Json(seconds) : Json(); }

Json bins_json(const std::vector<CertificateBin>& bins) {
  Json all = Json::array();
  for (const CertificateBin& b : bins)
    all.push_back(Json::object({{"said", b.said}, {"problems", b.problems}, {"true", b.truth()}}));
  return all;
}

}  // namespace

Json Certificate::to_json() const {
  Json parts = Json::array();
  for (const CertifiedChoice& c : choices) {
    Json j = Json::object({{"heuristic", c.heuristic},
                           {"probability", c.probability ? Json(*c.probability) : Json()},
                           {"problems", c.problems},
                           {"within", c.within}});
    if (!c.why_not.empty()) j["why_not"] = c.why_not;
    parts.push_back(std::move(j));
  }
  Json j = Json::object({{"least_s", known(least_seconds)},
                         {"expected_s", known(expected_seconds)},
                         {"within", kCertifiedShare},
                         {"probability", probability ? Json(*probability) : Json()},
                         {"choices", std::move(parts)},
                         {"source", source}});
  if (!why_not.empty()) j["why_not"] = why_not;
  return j;
}

std::string Certificate::to_string() const {
  std::string text = "a call takes ";
  text +=
      least_seconds > 0 ? format_time(least_seconds) + " at least" : "a time with no known bound";
  if (expected_seconds > 0)
    text += ", about " + format_time(expected_seconds) + " on problems like it";
  text += "\nwithin " + percent(kCertifiedShare) + " of the best with probability ";
  text += probability ? format_fixed(*probability, 2) : "that is not known: " + why_not;
  for (const CertifiedChoice& c : choices) {
    text += "\n  " + c.heuristic + ": ";
    text += c.probability ? format_fixed(*c.probability, 2) + ", " + std::to_string(c.within) +
                                " of " + std::to_string(c.problems) + " problems like it were"
                          : c.why_not;
  }
  return text + (source.empty() ? "\n" : "\nby " + source + "\n");
}

double CertificateCalibration::error() const {
  double sum = 0;
  int problems = 0;
  for (const CertificateBin& b : all) {
    sum += b.problems * std::fabs(b.said - b.truth());
    problems += b.problems;
  }
  return problems > 0 ? sum / problems : 0;
}

Json CertificateCalibration::to_json() const {
  Json parts = Json::array();
  for (const Class& c : classes)
    parts.push_back(Json::object({{"heuristic", c.heuristic},
                                  {"problems", c.problems},
                                  {"within", c.within},
                                  {"bins", bins_json(c.bins)}}));
  return Json::object(
      {{"file", file}, {"error", error()}, {"bins", bins_json(all)}, {"heuristics", parts}});
}

std::string CertificateCalibration::to_string() const {
  if (file.empty()) return "there are no certificates for this machine (heddle learn)\n";
  Table table({"heuristic", "problems", "said", "true", "+-"});
  const auto add = [&](const std::string& name, const std::vector<CertificateBin>& bins) {
    for (const CertificateBin& b : bins) {
      const double sigma = std::sqrt(b.said * (1 - b.said) / b.problems);
      table.add_row({name, std::to_string(b.problems), format_fixed(b.said, 2),
                     format_fixed(b.truth(), 2), format_fixed(sigma, 2)});
    }
  };
  add("all", all);
  for (const Class& c : classes) add(c.heuristic, c.bins);
  return table.to_string() + "Said by trees that had not seen the problems; on average " +
         format_fixed(error(), 3) + " off. +- is what chance makes of the true share.\n" + file +
         "\n";
}

}  // namespace heddle
