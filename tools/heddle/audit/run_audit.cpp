// heddle audit: shows where a network loses time, and the change that would win it back.
#include <iostream>
#include <string>
#include <vector>

#include "commands.h"
#include "common/network_here.h"
#include "common/run_sizes.h"
#include "heddle/network/audit.h"
#include "heddle/support/error.h"
#include "tune/budget.h"
#include "tune/choice_text.h"

namespace heddle::cli {
namespace {

void check(const Request& request, const Problem& problem) {
  if (!request.choices.empty() && !problem.dims.empty())
    throw_user_error("--choices tries the graph of a network of one size", {},
                     "give its dimensions one size each, or leave it out");
}

AuditOptions options_of(const Request& request) {
  AuditOptions options;
  options.profile_seconds = request.seconds;
  if (!request.tune_each.empty()) options.tune_seconds = parse_budget(request.tune_each);
  if (!request.choices.empty()) options.choice_seconds = parse_budget(request.choices);
  options.worst = request.worst;
  options.rules = request.rules;
  if (!request.quiet)
    options.progress = [](const std::string& line) { std::cerr << line << std::endl; };
  return options;
}

/// One audit, or one for each of the sizes.
std::vector<Audit> audits_of(const Network& network, const Problem& problem,
                             const Request& request) {
  AuditOptions options = options_of(request);
  if (problem.dims.empty()) return {audit(network, options)};
  std::vector<Audit> all;
  for (const std::vector<int64_t>& sizes : run_sizes(request.sizes, problem.dims)) {
    options.at.clear();
    for (size_t d = 0; d < sizes.size(); ++d) options.at.emplace_back(problem.dims[d], sizes[d]);
    all.push_back(audit(network, options));
  }
  return all;
}

Json json_of(const std::string& subject, const std::vector<Audit>& audits) {
  Json list = Json::array();
  for (const Audit& a : audits) {
    Json j = a.to_json();
    if (!a.choices.trials.empty()) j["choices"] = choices_json(a.choices);
    list.push_back(std::move(j));
  }
  return Json::object({{"subject", subject}, {"audits", std::move(list)}});
}

}  // namespace

int run_audit(const Request& request) {
  const NetworkHere here(request);
  check(request, here.problem);
  const std::vector<Audit> audits = audits_of(here.network(), here.problem, request);
  if (request.json) {
    std::cout << json_of(request.subject, audits).dump(1) << std::endl;
    return 0;
  }
  for (const Audit& a : audits) std::cout << a << choices_text(a.choices);
  return 0;
}

}  // namespace heddle::cli
