// The file of a plan.
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "heddle/network/plan.h"
#include "heddle/support/error.h"
#include "records/object_reader.h"
#include "support/files/file.h"
#include "support/files/line_log.h"
#include "support/hashing/hex.h"

namespace heddle {
namespace {

using records::ObjectReader;

constexpr const char* kRule = "rule";
constexpr std::pair<PlanProof, const char*> kProofs[] = {
    {PlanProof::None, "none"}, {PlanProof::Trials, "trials"}, {PlanProof::Race, "race"}};
constexpr const char* kHelp =
    "`heddle tune MODEL.onnx -o FILE.heddle` writes a plan; docs/reference/plans.md describes it";

/// The lines of a text on which the members of its object begin, and the elements of its "nodes".
class Lines {
 public:
  explicit Lines(std::string_view text) {
    int line = 1, depth = 0;
    std::string key;
    bool after_key = false;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\n') ++line;
      if (c == '"') {
        const size_t end = end_of_string(text, i);
        if (depth == 1 && !after_key) {
          key = std::string(text.substr(i + 1, end - i - 1));
          keys_.emplace_back(key, line);
        }
        i = end;
      } else if (c == ':' && depth == 1) {
        after_key = true;
      } else if (c == ',' && depth == 1) {
        after_key = false;
      } else if (c == '{' || c == '[') {
        if (c == '{' && depth == 2 && key == "nodes") nodes_.push_back(line);
        ++depth;
      } else if (c == '}' || c == ']') {
        --depth;
      }
    }
  }

  int of_key(std::string_view key) const {
    const auto at = std::find_if(keys_.begin(), keys_.end(),
                                 [&](const auto& entry) { return entry.first == key; });
    return at == keys_.end() ? 1 : at->second;
  }
  int of_node(size_t node) const { return node < nodes_.size() ? nodes_[node] : of_key("nodes"); }

 private:
  static size_t end_of_string(std::string_view text, size_t at) {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return std::min(at, text.size() - 1);
  }

  std::vector<std::pair<std::string, int>> keys_;
  std::vector<int> nodes_;
};

[[noreturn]] void fail(const std::string& source, int line, const Error& e) {
  throw_user_error(source + ":" + std::to_string(line) + ": " + e.message, {},
                   e.help.empty() ? kHelp : e.help);
}

int count_of(const ObjectReader& in, const char* key) {
  return in.of(
      key,
      [](const Json& j) {
        const int64_t value = j.as_int();
        if (value < 0 || value > 1000000000) throw_user_error("it is " + j.dump());
        return static_cast<int>(value);
      },
      0);
}

/// "2026-03-31T08:15:00Z"
std::string read_date(const Json& json) {
  const std::string& text = json.as_string();
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  bool right = text.size() == kForm.size();
  for (size_t i = 0; right && i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    right = kForm[i] == '0' ? digit : text[i] == kForm[i];
  }
  if (!right && !text.empty())
    throw_user_error("'" + text + "' is no date", {}, "write it as 2026-03-31T08:15:00Z");
  return text;
}

PlanProof read_proof(const Json& json) {
  for (const auto& [proof, name] : kProofs) {
    if (json.as_string() == name) return proof;
  }
  throw_user_error("there is no proof '" + json.as_string() + "'", {},
                   "one of: none, trials, race");
}

Json steps_or_rule(const Json& json) {
  if (json.is_string() && json.as_string() == kRule) return {};
  if (!json.is_object() || !json.contains("steps"))
    throw_user_error("it is neither \"rule\" nor steps", {},
                     "write \"rule\", or steps as records hold them");
  return json;
}

std::vector<Json> read_runners_up(const Json& json) {
  const std::vector<Json>& all = json.elements();
  if (all.size() > PlannedNode::kRunnersUp)
    throw_user_error("there are " + std::to_string(all.size()) + ", and a node has at most " +
                     std::to_string(PlannedNode::kRunnersUp));
  for (const Json& steps : all) {
    if (steps_or_rule(steps).is_null())
      throw_user_error("the rule is no runner-up", {}, "it races anyway; leave it out");
  }
  return all;
}

PlannedNode read_node(const Json& json) {
  const ObjectReader in(json, "a node");
  in.only({"hash", "name", "calls", "schedule", "kernels", "runners_up", "seconds", "rule_seconds",
           "proof", "rounds", "trials", "date", "machine", "build"});
  PlannedNode node;
  node.hash = in.hex("hash");
  node.name = in.of("name", [](const Json& j) { return j.as_string(); });
  node.calls = in.amount("calls");
  if (in.find("kernels") != nullptr) {
    if (in.find("schedule") != nullptr)
      throw_user_error("it has both keys 'schedule' and 'kernels'", {}, "keep one of them");
    node.kernels = in.of("kernels", [](const Json& j) {
      j.members();  // throws where it is no object
      return j;
    });
  } else {
    node.schedule = in.of("schedule", steps_or_rule);
  }
  node.runners_up = in.of("runners_up", read_runners_up, std::vector<Json>());
  node.seconds = in.amount("seconds");
  node.rule_seconds = in.amount("rule_seconds");
  node.proof = in.of("proof", read_proof, PlanProof::None);
  node.rounds = count_of(in, "rounds");
  node.trials = count_of(in, "trials");
  node.date = in.of("date", read_date, std::string());
  node.machine = in.text("machine", "");
  node.build = in.text("build", "");
  return node;
}

Json node_json(const PlannedNode& node) {
  Json j = Json::object();
  j["hash"] = to_hex(node.hash);
  j["name"] = node.name;
  j["calls"] = node.calls;
  if (!node.kernels.is_null()) {
    j["kernels"] = node.kernels;
  } else {
    j["schedule"] = node.schedule.is_null() ? Json(kRule) : node.schedule;
  }
  if (!node.runners_up.empty()) j["runners_up"] = Json::array_of(node.runners_up);
  j["seconds"] = node.seconds;
  j["rule_seconds"] = node.rule_seconds;
  j["proof"] = to_string(node.proof);
  j["rounds"] = node.rounds;
  j["trials"] = node.trials;
  j["date"] = node.date;
  j["machine"] = node.machine;
  j["build"] = node.build;
  return j;
}

void check_version(const ObjectReader& in) {
  in.of("schema", [](const Json& j) {
    if (j.as_string() != NetworkPlan::kSchema)
      throw_user_error("it is '" + j.as_string() + "', and a plan has '" + NetworkPlan::kSchema +
                       "'");
    return 0;
  });
  in.of("version", [](const Json& j) {
    if (j.as_int() != NetworkPlan::kVersion)
      throw_user_error("the plan is of version " + std::to_string(j.as_int()) +
                           ", and this Heddle reads version " +
                           std::to_string(NetworkPlan::kVersion),
                       {}, "read it with the Heddle that wrote it, or tune anew");
    return 0;
  });
}

NetworkPlan read_head(const ObjectReader& in) {
  check_version(in);
  in.only({"schema", "version", "model", "dtype", "hash", "target", "passes", "passes_proof",
           "seconds", "rule_seconds", "rounds", "nodes"});
  NetworkPlan plan;
  plan.model = in.of("model", [](const Json& j) { return j.as_string(); });
  plan.dtype = in.of("dtype", [](const Json& j) { return j.as_string(); });
  plan.hash = in.hex("hash");
  plan.target = in.of("target", [](const Json& j) { return Target::parse(j.as_string()); });
  plan.passes = in.of("passes", [](const Json& j) {
    (void)parse_passes(
        j.as_string());  // names of passes; those of single choices depend on the model
    return j.as_string();
  });
  plan.passes_proof = in.of("passes_proof", read_proof, PlanProof::None);
  plan.seconds = in.amount("seconds");
  plan.rule_seconds = in.amount("rule_seconds");
  plan.rounds = count_of(in, "rounds");
  return plan;
}

}  // namespace

const char* to_string(PlanProof proof) {
  for (const auto& [p, name] : kProofs) {
    if (p == proof) return name;
  }
  return "none";
}

std::string to_text(const NetworkPlan& plan) {
  const Json head = Json::object({{"schema", NetworkPlan::kSchema},
                                  {"version", NetworkPlan::kVersion},
                                  {"model", plan.model},
                                  {"dtype", plan.dtype},
                                  {"hash", to_hex(plan.hash)},
                                  {"target", to_string(plan.target)},
                                  {"passes", plan.passes},
                                  {"passes_proof", to_string(plan.passes_proof)},
                                  {"seconds", plan.seconds},
                                  {"rule_seconds", plan.rule_seconds},
                                  {"rounds", plan.rounds}});
  std::string text = "{\n";
  for (const auto& [key, value] : head.members())
    text += Json(key).dump() + ": " + value.dump() + ",\n";
  text += "\"nodes\": [\n";
  for (size_t n = 0; n < plan.nodes.size(); ++n)
    text += node_json(plan.nodes[n]).dump() + (n + 1 < plan.nodes.size() ? ",\n" : "\n");
  return text + "]\n}\n";
}

NetworkPlan parse_plan(std::string_view text, const std::string& source) {
  Json json;
  try {
    json = Json::parse(text, source);
    if (!json.is_object()) throw_user_error(source + ":1: a plan is a JSON object");
  } catch (const Error& e) {  // it names the line and the column
    throw_user_error(e.message, {}, kHelp);
  }
  const Lines lines(text);
  NetworkPlan plan;
  const ObjectReader in(json, "a plan");
  try {
    plan = read_head(in);
    (void)in.of("nodes", [](const Json& j) { return j.elements().size(); });
  } catch (const Error& e) {
    fail(source, lines.of_key(in.key()), e);
  }
  std::set<uint64_t> known;
  const std::vector<Json>& nodes = json.at("nodes").elements();
  for (size_t n = 0; n < nodes.size(); ++n) {
    try {
      plan.nodes.push_back(read_node(nodes[n]));
      if (!known.insert(plan.nodes[n].hash).second)
        throw_user_error("key 'hash': this node is there twice");
    } catch (const Error& e) {
      fail(source, lines.of_node(n), e);
    }
  }
  return plan;
}

NetworkPlan load_plan(const std::string& path) { return parse_plan(read_file(path), path); }

void save_plan(const NetworkPlan& plan, const std::string& path) {
  write_file_atomic(path, to_text(plan));
}

void save_merged_plan(const NetworkPlan& plan, const std::string& path) {
  namespace fs = std::filesystem;
  // The file may not be there yet, and is replaced as a whole, so its folder is locked.
  const LineLogLock lock(fs::absolute(path).parent_path().string());
  std::error_code error;
  save_plan(fs::exists(path, error) ? merged(load_plan(path), plan) : plan, path);
}

}  // namespace heddle
