#include "common/network_here.h"

#include "common/model_plan.h"
#include "heddle/support/error.h"
#include "network/race/call_timer.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

Target target_here(const Request& options) {
  Target target = target_of(options.target, options.threads);
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  return target;
}

Problem problem_of(const Request& options) {
  const DataType dtype = dtype_of(options.dtype);
  return is_model(options.subject) ? model_problem(options.subject, dtype)
                                   : make_problem(options.subject, dtype);
}

}  // namespace

NetworkHere::NetworkHere(const Request& options)
    : target(target_here(options)),
      problem(problem_of(options)),
      options_(options),
      threads_(network::race_threads(target)) {
  if (!options.sizes.empty() && problem.dims.empty())
    throw_user_error("--sizes is for a network with a range, and no dimension has one", {},
                     "give one a range, such as --dims batch=1..8");
}

Network NetworkHere::network() const {
  return model_network(options_, problem.outputs, target, problem.updates);
}

}  // namespace heddle::cli
