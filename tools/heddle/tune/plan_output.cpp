#include "tune/plan_output.h"

#include <filesystem>

#include "common/model_plan.h"
#include "common/output_file.h"
#include "heddle/support/error.h"

namespace heddle::cli {

PlanOutput::PlanOutput(std::string file, std::string model, std::string dtype)
    : file_(std::move(file)), model_(std::move(model)), dtype_(std::move(dtype)) {
  if (!is_plan(file_))
    throw_user_error("the plan cannot be written to '" + file_ + "'", {},
                     "its name ends in .heddle: -o " + plan_beside(model_));
  check_writable(file_);
  if (std::error_code error; std::filesystem::exists(file_, error)) (void)load_plan(file_);
}

void PlanOutput::save(NetworkPlan plan) const {
  plan.model = model_beside(model_, file_);
  plan.dtype = dtype_;
  save_merged_plan(plan, file_);
}

}  // namespace heddle::cli
