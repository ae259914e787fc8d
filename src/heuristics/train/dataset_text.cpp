// A heuristic's log as lines of JSON.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "heddle/heuristics/dataset.h"
#include "heddle/support/error.h"
#include "heuristics/names.h"
#include "support/files/file.h"

namespace heddle {

using namespace learning;
namespace {

constexpr const char* kMark = "heddle_heuristic_log";
constexpr int kFormat = 1;

/// A line of the log, before the choices of all lines are known.
struct Row {
  HeuristicProblem problem;  ///< without its times
  std::map<std::string, double> seconds;
  std::string fallback;
};

HeuristicFeature read_feature(const Json& json) {
  HeuristicFeature f;
  f.name = json.at("name").as_string();
  f.kind = feature_kind(json.at("kind").as_string());
  if (f.name.empty()) throw_user_error("a feature has no name");
  if (f.kind != FeatureKind::Categorical) return f;
  for (const Json& value : json.at("values").elements()) f.values.push_back(value.as_string());
  const std::set<std::string> distinct(f.values.begin(), f.values.end());
  if (f.values.empty() || f.values.size() > kMostCategories || distinct.size() < f.values.size()) {
    throw_user_error(
        "feature '" + f.name + "' has " + std::to_string(f.values.size()) + " values, of which " +
            std::to_string(distinct.size()) + " differ",
        {},
        "a categorical feature has 1 to " + std::to_string(kMostCategories) + " different values");
  }
  return f;
}

void read_header(const Json& json, HeuristicData& data) {
  if (!json.contains(kMark)) throw_user_error(std::string("there is no key '") + kMark + "'");
  if (json.at(kMark).as_int() != kFormat) {
    throw_user_error("format " + std::to_string(json.at(kMark).as_int()) +
                     " is not known: this version reads " + std::to_string(kFormat));
  }
  data.heuristic = json.at("heuristic").as_string();
  const Json& version = json.at("version");
  data.version = version.is_string() ? version.as_string() : std::to_string(version.as_int());
  data.machine = json.get_string("machine", "");
  data.target = json.get_string("target", "");
  data.seed = static_cast<std::uint64_t>(json.get_int("seed", 0));
  std::set<std::string> names;
  for (const Json& feature : json.at("features").elements()) {
    data.features.push_back(read_feature(feature));
    if (!names.insert(data.features.back().name).second) {
      throw_user_error("feature '" + data.features.back().name + "' is declared twice");
    }
  }
  if (data.features.empty()) throw_user_error("no features are declared");
}

double read_value(const HeuristicFeature& feature, const Json& json) {
  if (json.is_null()) return kNotMeasured;
  const double value = json.is_bool() ? (json.as_bool() ? 1 : 0) : json.as_double();
  const bool fits =
      feature.kind == FeatureKind::Numeric ||
      (feature.kind == FeatureKind::Boolean && (value == 0 || value == 1)) ||
      (feature.kind == FeatureKind::Categorical && value >= 0 && value == std::floor(value) &&
       value < static_cast<double>(feature.values.size()));
  if (!fits) {
    throw_user_error("feature '" + feature.name + "' is " + to_string(feature.kind) +
                     ", which has no value " + json.dump());
  }
  return value;
}

double read_seconds(const std::string& choice, const Json& json) {
  const double seconds = json.as_double();
  if (!(seconds > 0)) {
    throw_user_error("choice '" + choice + "' takes " + json.dump() +
                     " s, which is no positive time");
  }
  return seconds;
}

Row read_row(const Json& json, const HeuristicData& data) {
  Row row;
  row.problem.id = json.at("problem").as_string();
  const std::vector<Json>& values = json.at("features").elements();
  if (values.size() != data.features.size()) {
    throw_user_error("there are " + std::to_string(values.size()) + " features in place of " +
                     std::to_string(data.features.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    row.problem.features.push_back(read_value(data.features[i], values[i]));
  }
  for (const auto& [choice, seconds] : json.at("choices").members()) {
    row.seconds[choice] = read_seconds(choice, seconds);
  }
  row.fallback = json.at("fallback").as_string();
  if (!row.seconds.contains(row.fallback)) {
    throw_user_error("the fallback '" + row.fallback + "' has no time");
  }
  if (const Json* others = json.find("of_constants")) {
    for (const auto& [steps, seconds] : others->members())
      row.problem.of_constants[steps] = read_seconds(steps, seconds);
  }
  row.problem.noise = json.get_double("noise", 0);
  if (!(row.problem.noise >= 0)) throw_user_error("the noise is negative");
  return row;
}

void take_rows(const std::map<std::string, Row>& rows, HeuristicData& data) {
  std::map<std::string, std::int32_t> index;
  for (const auto& [id, row] : rows) {
    for (const auto& [choice, seconds] : row.seconds) index.emplace(choice, 0);
  }
  for (auto& [choice, number] : index) {
    number = static_cast<std::int32_t>(data.choices.size());
    data.choices.push_back(choice);
  }
  for (const auto& [id, row] : rows) {
    HeuristicProblem problem = row.problem;
    problem.seconds.assign(data.choices.size(), kNotMeasured);
    for (const auto& [choice, seconds] : row.seconds) {
      problem.seconds[static_cast<std::size_t>(index.at(choice))] = seconds;
    }
    problem.fallback = index.at(row.fallback);
    data.problems.push_back(std::move(problem));
  }
}

/// Shortens a message, which may quote the input.
std::string cut(const std::string& message) {
  constexpr std::size_t kMost = 200;
  return message.size() <= kMost ? message : message.substr(0, kMost) + "...";
}

[[noreturn]] void refuse_header(const std::string& source, const Error& e) {
  throw_user_error(source + ":1: this is no header of a heuristic's log: " + cut(e.message), {},
                   e.help.empty() ? "give a log that 'heddle heuristic collect' wrote" : e.help);
}

}  // namespace

HeuristicData parse_heuristic_log(std::string_view text, std::string_view source_name) {
  const std::string source(source_name);
  HeuristicData data;
  std::map<std::string, Row> rows;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, newline - begin);
    const bool torn = newline == text.size();
    begin = newline + 1;
    ++number;
    if (number > 1 && line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Json json;
    try {
      json = Json::parse(line, "line");
      if (number == 1) {
        read_header(json, data);
        continue;
      }
      Row row = read_row(json, data);
      rows.insert_or_assign(row.problem.id, std::move(row));
    } catch (const Error& e) {
      if (number == 1) refuse_header(source, e);
      const std::string why = torn && !json.is_object() ? "torn last line skipped" : cut(e.message);
      data.skipped.push_back(source + ":" + std::to_string(number) + ": " + why);
    }
  }
  if (number == 0) {
    throw_user_error(source + ": the log is empty", {},
                     "give a log that 'heddle heuristic collect' wrote");
  }
  take_rows(rows, data);
  return data;
}

HeuristicData read_heuristic_log(const std::string& path) {
  return parse_heuristic_log(read_file(path), path);
}

Json heuristic_log_header(const HeuristicData& data) {
  Json features = Json::array();
  for (const HeuristicFeature& f : data.features) {
    Json feature = Json::object({{"name", f.name}, {"kind", to_string(f.kind)}});
    if (f.kind == FeatureKind::Categorical) feature["values"] = Json::array_of(f.values);
    features.push_back(std::move(feature));
  }
  return Json::object({{kMark, kFormat},
                       {"heuristic", data.heuristic},
                       {"version", data.version},
                       {"features", std::move(features)},
                       {"machine", data.machine},
                       {"target", data.target},
                       {"seed", static_cast<std::int64_t>(data.seed)}});
}

Json heuristic_log_line(const HeuristicData& data, const HeuristicProblem& problem) {
  Json features = Json::array();
  for (const double value : problem.features) {
    // Whole numbers are printed without a point.
    const bool whole = std::abs(value) < 0x1p53 && value == std::floor(value);
    features.push_back(std::isnan(value) ? Json()
                       : whole           ? Json(static_cast<std::int64_t>(value))
                                         : Json(value));
  }
  Json choices = Json::object();
  for (std::size_t c = 0; c < problem.seconds.size(); ++c) {
    if (problem.has(static_cast<std::int32_t>(c))) choices[data.choices[c]] = problem.seconds[c];
  }
  Json line = Json::object({{"problem", problem.id},
                            {"features", std::move(features)},
                            {"choices", std::move(choices)},
                            {"fallback", data.choices[static_cast<std::size_t>(problem.fallback)]},
                            {"noise", problem.noise}});
  if (!problem.of_constants.empty()) line["of_constants"] = Json::object();
  for (const auto& [steps, seconds] : problem.of_constants) line["of_constants"][steps] = seconds;
  return line;
}

}  // namespace heddle
