#include "tune/plan_output.h"

#include <algorithm>
#include <filesystem>

#include "common/model_plan.h"
#include "common/output_file.h"
#include "heddle/records/record_log.h"
#include "heddle/support/error.h"

namespace heddle::cli {

PlanOutput::PlanOutput(std::string file, std::string model, std::string dtype)
    : file_(std::move(file)), model_(std::move(model)), dtype_(std::move(dtype)) {
  if (!is_plan(file_))
    throw_user_error("the plan cannot be written to '" + file_ + "'", {},
                     "its name ends in .heddle: -o " + plan_beside(model_));
  check_writable(file_);
  std::error_code error;
  if (std::filesystem::exists(file_, error)) earlier_ = load_plan(file_);
}

void PlanOutput::resume(TaskList* list, const std::string& log, bool of_others) const {
  if (!earlier_) return;
  const Network& network = *list->network;
  const Target& target = network.tasks().at(0).tmpl.target();
  const bool here = earlier_->target == target;
  if (!here || (!of_others && earlier_->hash != ComputeDag(network.outputs()).structural_hash()))
    throw_user_error("'" + file_ + "' is the plan of another " +
                         (here ? "network" : "target: '" + to_string(earlier_->target) + "'"),
                     {}, "name another file with -o, or remove this one");
  const Network planned = network.with_plan(*earlier_);
  std::vector<Dim> dims = std::move(list->dims);
  *list = tasks_of(planned, list->dtypes.at(0));
  list->dims = std::move(dims);
  record_plan(planned, *earlier_, log);
}

bool PlanOutput::tried_choices(const Network& network) const {
  return earlier_ && earlier_->passes_proof == PlanProof::Race &&
         earlier_->passes == to_string(network.pass_options()) &&
         earlier_->hash == ComputeDag(network.outputs()).structural_hash();
}

void PlanOutput::save(const Network& network, const TuneOutcome& outcome) const {
  NetworkPlan plan = plan_of(network, outcome.report, outcome.kernels);
  plan.model = model_beside(model_, file_);
  plan.dtype = dtype_;
  const std::vector<ChoiceTrial>& trials = outcome.choices.trials;
  const bool all = !trials.empty() && std::none_of(trials.begin(), trials.end(), [](const auto& t) {
    return t.verdict == TrialResult::NoTime;
  });
  if (all || tried_choices(network)) plan.passes_proof = PlanProof::Race;
  std::error_code error;
  if (std::filesystem::is_regular_file(outcome.report.log, error))
    add_runners_up(plan, read_records(outcome.report.log).records);
  save_merged_plan(plan, file_);
}

}  // namespace heddle::cli
