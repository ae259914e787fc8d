#include "heddle/records/record.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "heddle/support/error.h"
#include "records/object_reader.h"
#include "support/edit_distance.h"
#include "support/hashing/hex.h"

namespace heddle {
namespace {

using Reader = records::ObjectReader;

constexpr std::pair<MeasureError, const char*> kErrors[] = {
    {MeasureError::None, "none"},
    {MeasureError::Invalid, "invalid"},
    {MeasureError::Compile, "compile"},
    {MeasureError::Crash, "crash"},
    {MeasureError::Timeout, "timeout"},
    {MeasureError::OutOfMemory, "out_of_memory"},
    {MeasureError::WrongAnswer, "wrong_answer"},
    {MeasureError::Rejected, "rejected"},
    {MeasureError::Cancelled, "cancelled"},
};

constexpr std::pair<Verdict, const char*> kVerdicts[] = {{Verdict::Screened, "screened"},
                                                         {Verdict::Raced, "raced"},
                                                         {Verdict::Chosen, "chosen"},
                                                         {Verdict::Won, "won"}};

Verdict read_verdict(const Json& json) {
  for (const auto& [verdict, name] : kVerdicts) {
    if (json.as_string() == name) return verdict;
  }
  throw_user_error("there is no verdict '" + json.as_string() + "'", {},
                   "one of: screened, raced, chosen, won");
}

/// Versions 0 and 1 had the verdict in the first words of the protocol. They are removed from it.
Verdict take_verdict(std::string& protocol) {
  constexpr std::pair<std::string_view, Verdict> kWords[] = {
      {"race won", Verdict::Won}, {"race", Verdict::Raced}, {"chosen", Verdict::Chosen}};
  for (const auto& [words, verdict] : kWords) {
    if (!protocol.starts_with(words)) continue;
    protocol.erase(0, words.size());
    if (protocol.starts_with(' ')) protocol.erase(0, 1);
    return verdict;
  }
  return Verdict::Screened;
}

std::vector<double> read_seconds(const Json& json) {
  std::vector<double> seconds;
  for (const Json& s : json.elements()) {
    const double value = s.as_double();
    if (!(value > 0) || !std::isfinite(value)) {
      throw_user_error("a time is " + s.dump() + "; it must be above 0");
    }
    seconds.push_back(value);
  }
  return seconds;
}

double read_calls(const Json& json) {
  const double calls = json.as_double();
  if (!(calls > 0) || !std::isfinite(calls)) {
    throw_user_error("it is " + json.dump() + "; it must be above 0");
  }
  return calls;
}

int read_version(const Reader& in) {
  const int64_t version = in.of("v", [](const Json& j) { return j.as_int(); });
  if (version >= 0 && version <= Record::kVersion) return static_cast<int>(version);
  throw_user_error("it is of version " + std::to_string(version) +
                       ", and this Heddle reads up to " + std::to_string(Record::kVersion),
                   {}, "read it with the Heddle that wrote it, or a newer one");
}

}  // namespace

const char* to_string(MeasureError e) {
  for (const auto& [error, name] : kErrors) {
    if (error == e) return name;
  }
  return "?";
}

MeasureError measure_error_from_string(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [error, known] : kErrors) {
    if (name == known) return error;
    names.emplace_back(known);
  }
  throw_user_error("there is no kind of error '" + std::string(name) + "'", {},
                   did_you_mean(std::string(name), names));
}

const char* to_string(Verdict v) {
  for (const auto& [verdict, name] : kVerdicts) {
    if (verdict == v) return name;
  }
  return "?";
}

double Record::median() const {
  if (!ok()) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 != 0 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

Json Record::to_json() const {
  Json j = Json::object();
  j["v"] = kVersion;
  j["hash"] = to_hex(structural_hash);
  j["subject"] = subject;
  j["shape_class"] = shape_class;
  j["extents"] = Json::array_of(extents);
  j["target"] = to_string(target);
  if (!alternative.empty()) j["alternative"] = alternative;
  j["template"] = template_name;
  j["template_version"] = to_hex(template_version);
  j["config"] = config;
  j["steps"] = steps;
  j["seconds"] = Json::array_of(seconds);
  j["error"] = to_string(error);
  if (!message.empty()) j["message"] = message;
  j["verdict"] = to_string(verdict);
  j["protocol"] = protocol;
  j["compile_seconds"] = compile_seconds;
  j["measure_seconds"] = measure_seconds;
  j["flops"] = flops;
  if (bytes > 0) j["bytes"] = bytes;
  if (calls != 1) j["calls"] = calls;
  if (base_seconds > 0) j["base_seconds"] = base_seconds;
  if (std::isfinite(predicted)) j["predicted"] = predicted;
  j["machine"] = machine;
  j["build"] = build;
  j["seed"] = to_hex(seed);
  j["time"] = unix_time;
  if (!declaration.is_null()) j["declaration"] = declaration;
  return j;
}

Record Record::from_json(const Json& json) {
  const Reader in(json, "a record");
  const int version = read_version(in);
  Record r;
  r.structural_hash = in.hex("hash");
  r.subject = in.text("subject", "");
  // Version 0 had neither member. They follow from the declaration only, so such a record answers
  // for its own shape and is never a neighbour of others. `heddle records upgrade` finds the
  // declaration where the subject names it.
  if (version >= 1) {
    r.shape_class = in.of("shape_class", [](const Json& j) { return j.as_string(); });
    r.extents = in.of("extents", [](const Json& j) {
      std::vector<int64_t> extents;
      for (const Json& e : j.elements()) extents.push_back(e.as_int());
      return extents;
    });
  }
  r.target = in.of("target", [](const Json& j) { return Target::parse(j.as_string()); });
  r.alternative = in.text("alternative", "");
  r.template_name = in.text("template", "");
  r.template_version = in.hex("template_version");
  const auto object = [](const Json& j) {
    j.members();  // throws where `j` is not an object
    return j;
  };
  r.config = in.of("config", object);
  r.steps = in.of("steps", object);
  r.seconds = in.of("seconds", read_seconds);
  r.error = in.of("error", [](const Json& j) { return measure_error_from_string(j.as_string()); });
  if (r.error == MeasureError::None && r.seconds.empty()) {
    throw_user_error("key 'seconds': there is no time, and no error says why");
  }
  r.message = in.text("message", "");
  r.protocol = in.text("protocol", "");
  r.verdict = version >= 2 ? in.of("verdict", read_verdict) : take_verdict(r.protocol);
  r.compile_seconds = in.number("compile_seconds");
  r.measure_seconds = in.number("measure_seconds");
  r.flops = in.number("flops");
  r.bytes = in.number("bytes");
  r.calls = in.of("calls", read_calls, 1.0);
  if (in.find("base_seconds") != nullptr) r.base_seconds = in.number("base_seconds");
  if (in.find("predicted") != nullptr) r.predicted = in.number("predicted");
  r.machine = in.text("machine", "");
  r.build = in.text("build", "");
  if (in.find("seed") != nullptr) r.seed = in.hex("seed");
  if (in.find("declaration") != nullptr) r.declaration = in.of("declaration", object);
  r.unix_time = in.of("time", [](const Json& j) { return j.as_int(); }, int64_t{0});
  return r;
}

std::string internal::shape_class_of(const ComputeDag& dag) { return to_hex(dag.shape_class()); }

Json steps_of(const Schedule& schedule) {
  const Json whole = schedule.to_json();
  Json out = Json::object();
  for (const auto& [key, value] : whole.members()) {
    if (key != "target") out[key] = value;
  }
  return out;
}

Record make_record(const std::string& subject, const Template& t, const Config& config) {
  Record r;
  const ComputeDag& declared = t.dag().direct();
  r.structural_hash = declared.structural_hash();
  r.subject = subject;
  r.shape_class = internal::shape_class_of(declared);
  r.extents = declared.extents();
  r.target = t.target();
  // A config of another template, or one that is too short, is taken to belong to the direct form.
  const bool whole = config.values.size() == t.knobs().size();
  const Template& branch = t.branch(whole ? t.branch_of(config) : 0);
  r.alternative = branch.dag().alternative();
  r.template_name = branch.name();
  r.template_version = branch.fingerprint();
  r.config = branch.config_to_json(whole ? t.config_in_branch(config) : config);
  r.flops = declared.total_flops();
  r.bytes = static_cast<double>(declared.compulsory_bytes());
  r.machine = internal::machine_fingerprint();
  r.build = internal::build_fingerprint();
  r.unix_time = std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  // An illegal config has no steps. It may still be recorded, as Invalid.
  r.steps = t.why_invalid(config).empty() ? steps_of(t.instantiate(config)) : Json::object();
  return r;
}

}  // namespace heddle
