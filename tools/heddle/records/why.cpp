#include "records/why.h"

#include <algorithm>
#include <iostream>

#include "common/model_plan.h"
#include "driver/constant_schedule.h"
#include "heddle/network/plan.h"
#include "heddle/records/database.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "network/cut/kernel_records.h"
#include "network/cut/sizes/family_tasks.h"
#include "records/records_table.h"
#include "subjects/model_subject.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

void print_places() {
  const std::vector<std::string> files = tophub_files();
  std::cout << "looked in:\n";
  for (const std::string& file : files) std::cout << "  " << file << "\n";
  if (files.empty()) std::cout << "  no file (HEDDLE_TOPHUB, HEDDLE_LOG_FILE)\n";
}

/// What a record says of a kernel. As in create_schedule, the best record that applies is taken.
/// Returns whether there is one.
bool print_record(const std::string& what, const RecordDatabase& db, const ComputeDag& dag,
                  const Target& target) {
  for (const Record* r : db.ranked(dag.structural_hash(), target)) {
    try {
      const Schedule schedule = schedule_of(*r, dag, target);
      std::cout << what << ": hit, " << schedule.provenance << "\n" << records_table({*r});
      return true;
    } catch (const Error& e) {
      std::cout << describe(*r) << " is skipped: " << e.message << "\n";
    }
  }
  const bool skipped = db.best(dag.structural_hash(), target) != nullptr;
  std::cout << what << ": no hit, "
            << (skipped ? "no record of it applies" : db.why_no_hit(dag, target)) << "\n";
  return false;
}

int why_kernel(const Request& o, std::vector<Record> records) {
  const DataType dtype = dtype_of(o.dtype);
  const Target target = target_of(o.target, o.threads);
  const ComputeDag dag(make_problem(o.subject, dtype).outputs);
  const std::string what = o.subject + " " + to_string(dtype) + " for '" + to_string(target) + "'";
  if (!o.logs.empty()) {
    RecordDatabase named;
    for (Record& r : records) named.add(std::move(r));
    print_record(what, named, dag, target);
    return 0;
  }
  print_places();
  if (print_record(what, *tophub(), dag, target)) return 0;
  std::cout << "the other sources, in the order in which they are asked:\n";
  for (const driver::SourceAnswer& a :
       driver::source_answers(dag, target, current_auto_scheduler_options())) {
    if (a.source != "record")
      std::cout << "  " << a.source << ": " << (a.answers ? "" : "no, ") << a.text << "\n";
  }
  return 0;
}

/// What answered for a node, and why not those that are asked before.
struct NodeAnswer {
  std::string name, by, text, why_not;
};

/// `plan` says whether a plan decides for the node; null: there is no plan.
NodeAnswer answer_for(const Network& network, size_t t, const PlanUse::Node* plan,
                      const std::vector<TaskKernels>& recorded) {
  const network::TaskFamily& family = network::families_of(network)[t];
  NodeAnswer node{.name = network::family_name(network, t), .by = "", .text = "", .why_not = ""};
  if (plan && plan->planned) {
    node.by = "plan";
    node.text = plan->rule ? "the rule's choice" : family.planned->schedules[0].provenance;
    return node;
  }
  if (plan) node.why_not = "plan: " + plan->why_not;
  const bool by_size = std::any_of(recorded.begin(), recorded.end(), [&](const TaskKernels& k) {
    return static_cast<size_t>(k.task) == t;
  });
  if (by_size) {
    node.by = "record";
    node.text = "kernels by size";
    return node;
  }
  // A node over dimensions asks at each of its sizes; the first is shown.
  const Template& tmpl = network.tasks()[t].tmpl;
  for (const driver::SourceAnswer& a :
       driver::source_answers(tmpl.dag(), tmpl.target(), tmpl.options())) {
    if (a.answers) {
      node.by = a.source;
      node.text = a.text;
      break;
    }
    node.why_not += (node.why_not.empty() ? "" : "; ") + a.source + ": " + a.text;
  }
  return node;
}

int why_model(const Request& o) {
  if (!o.logs.empty())
    throw_user_error("logs are named for a model", {},
                     "name the user's log with HEDDLE_LOG_FILE=" + o.logs[0] + ", or a subject");
  const Problem problem = model_problem(o.subject, dtype_of(o.dtype));
  const Target target = target_of(o.target, o.threads);
  AutoSchedulerOptions options = current_auto_scheduler_options();
  if (!target.is_cuda()) options.threads = target.cores;
  const AutoSchedulerOptionsScope scope(options);
  if (!o.json) print_places();
  const Network network = model_network(o, problem.outputs, target, problem.updates);
  const std::vector<TaskKernels> recorded = recorded_kernels(network, problem.dims);
  Table table({"node", "answered by", "", "why not the others"});
  for (const size_t column : {1, 2, 3}) table.align_left(column);
  Json all = Json::array();
  size_t number = 0;
  for (size_t t = 0; t < network.tasks().size(); ++t) {
    if (network::families_of(network)[t].count == 0) continue;
    const PlanUse* use = network.plan_use();
    const NodeAnswer n = answer_for(network, t, use ? &use->nodes[number] : nullptr, recorded);
    ++number;
    table.add_row({n.name, n.by, n.text, n.why_not});
    all.push_back(
        Json::object({{"node", n.name}, {"by", n.by}, {"text", n.text}, {"why_not", n.why_not}}));
  }
  std::cout << (o.json ? all.dump(1) + "\n" : table.to_string());
  return 0;
}

}  // namespace

int run_why(const Request& o, std::vector<Record> records) {
  return is_model(o.subject) ? why_model(o) : why_kernel(o, std::move(records));
}

}  // namespace heddle::cli
