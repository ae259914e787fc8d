// Plans (network/plan.h) of the models that commands take.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "heddle/dsl/tensor.h"
#include "heddle/network/plan.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// Whether a subject is a plan, by its name: "net.heddle".
bool is_plan(const std::string& subject);

/// The plan that commands look for beside a model: "net.heddle" for "net.onnx:batch=1".
std::string plan_beside(const std::string& model);

/// A subject that is a plan gives way to the model of the plan. Type, threads and GPU are those of
/// the plan where the options leave them open. A User error for a plan that cannot be read, and for
/// one that is named for a subject that is no model.
void open_plan(Request& options);

/// The network of a subject. That of a model has the choices of the plan that the options name, or
/// of the one beside the model, else of records and rules; what decides is said on standard error,
/// in one line, unless the options are quiet. A User error for a plan that is named and cannot be
/// read.
Network model_network(const Request& options, const std::vector<Tensor>& outputs,
                      const Target& target, const Updates& updates = {});

/// What NetworkPlan::model holds of a model whose plan is written to `plan_file`.
std::string model_beside(const std::string& model, const std::string& plan_file);

/// The model of a plan that was read from `plan_file`, as commands take it. A User error where it
/// has none.
std::string model_of(const NetworkPlan& plan, const std::string& plan_file);

}  // namespace heddle::cli
