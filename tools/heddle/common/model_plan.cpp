#include "common/model_plan.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "common/tolerance.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/cut/kernel_records.h"
#include "network/cut/sizes/family_tasks.h"
#include "options/parse_line.h"
#include "subjects/input_file.h"
#include "subjects/model_subject.h"

namespace heddle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".heddle";
constexpr const char* kNone = "none";  // what --plan takes for no plan at all

/// The folder of a file, from the root.
fs::path folder_of(const std::string& file) {
  return fs::absolute(file).lexically_normal().parent_path();
}

NetworkPlan read_named(const std::string& path) {
  check_file(path);
  return load_plan(path);
}

struct UsualPlace {
  std::string file, name;
};

/// Where there are plans that no option names: beside the model, then files of that name in the
/// user's folder and in tophub.
std::vector<UsualPlace> usual_places(const std::string& beside) {
  std::vector<UsualPlace> places = {{beside, "the plan beside the model"}};
  for (const std::string& folder : tophub_folders()) {
    places.push_back({(fs::path(folder) / fs::path(beside).filename()).string(),
                      "the plan of the model's name"});
  }
  std::erase_if(places, [](const UsualPlace& place) {
    std::error_code error;
    return !fs::is_regular_file(place.file, error);
  });
  return places;
}

/// What decides without a plan: "records answer for 2 of 5 nodes, rules for the others".
std::string records_text(const Network& network) {
  const std::shared_ptr<const RecordDatabase> known = tophub();
  int nodes = 0, recorded = 0;
  for (size_t t = 0; t < network.tasks().size(); ++t) {
    if (network::families_of(network)[t].count == 0) continue;
    ++nodes;
    const Target& target = network.tasks()[t].tmpl.target();
    if (known->best(network::declaration_hash(network, t), target)) ++recorded;
  }
  if (recorded == 0) return "rules decide";
  return "records answer for " + std::to_string(recorded) + " of " + std::to_string(nodes) +
         " nodes" + (recorded < nodes ? ", rules for the others" : "");
}

}  // namespace

bool is_plan(const std::string& subject) { return subject.ends_with(kSuffix); }

std::string plan_beside(const std::string& model) {
  return fs::path(model_path(model)).replace_extension(kSuffix).string();
}

std::string model_beside(const std::string& model, const std::string& plan_file) {
  const std::string path = model_path(model);
  const fs::path from = fs::absolute(path).lexically_normal();
  return from.lexically_proximate(folder_of(plan_file)).string() + model.substr(path.size());
}

std::string model_of(const NetworkPlan& plan, const std::string& plan_file) {
  if (!is_model(plan.model))
    throw_user_error("the plan '" + plan_file + "' names no ONNX file", {},
                     "name the model, with --plan " + plan_file);
  const fs::path beside = fs::path(plan_file).parent_path();
  return plan.model.starts_with('/') ? plan.model : (beside / plan.model).string();
}

void open_plan(Request& o) {
  if (!is_plan(o.subject)) {
    if (!o.plan.empty() && !is_model(o.subject))
      throw_user_error("--plan is for an ONNX file, and '" + o.subject + "' is none", {},
                       "leave it out; records answer for other subjects (`heddle records why`)");
    return;
  }
  if (!o.plan.empty())
    throw_user_error("two plans are named: '" + o.subject + "' and '" + o.plan + "'", {},
                     "name the model and one plan");
  o.plan = o.subject;
  const NetworkPlan plan = read_named(o.plan);
  o.subject = model_of(plan, o.plan);
  const Request usual = request_for("run");
  if (o.dtype == usual.dtype) o.dtype = plan.dtype;
  if (o.target != usual.target) return;
  if (plan.target.is_cuda()) {
    o.target = cuda::unavailable_reason().empty() ? "cuda" : to_string(plan.target);
  } else if (o.threads == 0) {
    o.threads = std::min(plan.target.cores, default_num_threads());
  }
}

Network model_network(const Request& o, const std::vector<Tensor>& outputs, const Target& target,
                      const Updates& updates) {
  const auto say = [&](const std::string& text) {
    if (!o.quiet) std::cerr << text << "\n";
  };
  const AutoSchedulerOptions options = current_auto_scheduler_options();
  const std::string passes =
      o.memory.empty() ? o.passes : o.passes + (o.passes.empty() ? "" : ",") + "memory=" + o.memory;
  if (!is_model(o.subject)) return Network(outputs, target, options, parse_passes(passes), updates);
  const auto planned = [&](const std::string& path) {
    NetworkPlan plan = read_named(path);
    if (!passes.empty()) plan.passes = to_string(parse_passes(passes, parse_passes(plan.passes)));
    return Network::planned(outputs, plan, target, options, updates);
  };
  const auto taken = [&](const std::string& path, const Network& network) {
    say("plan " + path + ": " + to_string(*network.plan_use()));
    return within_tolerance(o, network);
  };
  std::string why = "no plan";
  if (o.plan.empty()) {
    const std::string beside = plan_beside(o.subject);
    why += " " + beside;
    for (const UsualPlace& place : usual_places(beside)) {
      try {
        const Network network = planned(place.file);
        const bool changes_numbers = !network.pass_options().types.empty();
        if (place.file == beside || (network.plan_use()->planned() > 0 && !changes_numbers))
          return taken(place.file, network);
        why = place.name +
              (changes_numbers ? " has types that were chosen for one network; "
                                 "name it with --plan: "
                               : " is of another network: ") +
              place.file;
      } catch (const Error& e) {
        if (e.kind == ErrorKind::Internal) throw;
        why = place.name + " is not used: " + e.message;
      }
    }
  } else if (o.plan != kNone) {
    return taken(o.plan, planned(o.plan));
  }
  const Network network(outputs, target, options, parse_passes(passes), updates);
  say(why + ": " + records_text(network));
  return within_tolerance(o, network);
}

}  // namespace heddle::cli
