#include "network/audit/audit_range.h"

#include <algorithm>
#include <map>

#include "driver/program_args.h"
#include "family/near.h"
#include "heddle/runtime/profile.h"
#include "network/audit/node_bounds.h"
#include "network/audit/task_schedule.h"
#include "network/cut/check_network.h"
#include "network/cut/kernel_records.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/race/call_timer.h"
#include "network/run/output_difference.h"
#include "runtime/program/selector.h"

namespace heddle::network {
namespace {

class RangeAudit {
 public:
  RangeAudit(const Network& network, const AuditOptions& options)
      : network_(separate_launches(network)),
        options_(options),
        values_(values_of(network_, options.at)),
        variants_(options.rules ? task_variants(network_, network_.static_schedules())
                                : usual_variants(network_)) {}

  Audit run(const Network& alone, const Audit& one_size) {
    Audit found;
    profile(found);
    for (size_t n = 0; n < network_.nodes().size(); ++n) add_node(found.rows, n);
    set_bounds(found.rows);
    std::map<uint64_t, const AuditRow*> of_hash;
    for (const AuditRow& row : one_size.rows)
      of_hash[alone.tasks()[static_cast<size_t>(row.task)].tmpl.dag().structural_hash()] = &row;
    for (AuditRow& row : found.rows) {
      const auto at = of_hash.find(dag_of(static_cast<size_t>(row.task)).structural_hash());
      if (at != of_hash.end()) compare(row, *at->second);
    }
    found.problems = one_size.problems;
    found.sizes = family::sizes_text(options_.at);
    return found;
  }

 private:
  /// Rows are of nodes, so that no two of them may share a launch.
  static Network separate_launches(const Network& network) {
    PassOptions passes = network.pass_options();
    if (!network.tasks()[0].tmpl.target().is_cuda() || !passes.horizontal) return network;
    passes.horizontal = false;
    return network.with_passes(passes);
  }

  /// The declaration of a task at the sizes.
  ComputeDag dag_of(size_t task) const {
    const TaskFamily& family = families_of(network_)[task];
    return family.outputs.empty() ? network_.tasks()[task].tmpl.dag()
                                  : ComputeDag(at_sizes(family.outputs, options_.at).outputs);
  }

  void profile(Audit& found) {
    const std::vector<Tensor> args = call_args(network_);
    std::vector<Schedule> schedules;
    if (options_.rules) schedules = network_.static_schedules();
    const NetworkKernel kernel = network_.build(args, schedules);
    const Target& target = network_.tasks()[0].tmpl.target();
    const std::vector<NDArray> arrays = random_arrays(kernel, values_, device_of(target));
    kernel.call(arrays);
    profile_ = kernel.profile(arrays, options_.profile_seconds);
    found.call_s = profile_.call_s;
  }

  void add_node(std::vector<AuditRow>& rows, size_t n) {
    const int task = network_.nodes()[n].task;
    auto at =
        std::find_if(rows.begin(), rows.end(), [&](const AuditRow& r) { return r.task == task; });
    if (at == rows.end()) {
      at = rows.insert(rows.end(), AuditRow());
      at->task = task;
      describe(*at, static_cast<size_t>(task));
    }
    at->nodes.push_back(static_cast<int>(n));
    at->seconds += profile_.rows[n].in_network_s;
    set_work(*at,
             driver::work_of(dag_of(static_cast<size_t>(task)), network_.tasks()[0].tmpl.target()));
  }

  /// The kernel of the task that runs at the sizes.
  void describe(AuditRow& row, size_t task) const {
    const TaskVariants& kernels = variants_[task];
    const size_t leaf = Selector(kernels.tree).at(values_);
    const Schedule& runs = kernels.schedules[leaf];
    const TaskFamily& family = families_of(network_)[task];
    const Template& tmpl = network_.tasks()[task + (leaf < family.count ? leaf : 0)].tmpl;
    row.name = family_name(network_, task);
    row.provenance = runs.provenance;
    row.alternative = runs.dag().alternative();
    const int branch = std::max(0, tmpl.find_branch(row.alternative));
    row.template_name = tmpl.branch(branch).name();
    row.why = reasons_of(tmpl.branch(branch), {});
  }

  static void compare(AuditRow& row, const AuditRow& alone) {
    const double more =
        static_cast<double>(row.nodes.size()) / static_cast<double>(alone.nodes.size());
    add_bound(row, {AuditBound::OneSize, more * alone.seconds, alone.provenance});
    if (more * alone.seconds < row.seconds)
      row.changes.push_back({AuditBound::OneSize,
                             "a kernel for this size alone",
                             {},
                             alone.provenance,
                             row.seconds,
                             more * alone.seconds});
    for (const AuditReference& b : alone.bounds) {
      if (b.bound != AuditBound::Roof && b.bound != AuditBound::Like)
        add_bound(row, {b.bound, more * b.seconds, b.source});
    }
    row.changes.insert(row.changes.end(), alone.changes.begin(), alone.changes.end());
  }

  const Network network_;
  const AuditOptions& options_;
  const std::vector<int64_t> values_;
  const std::vector<TaskVariants> variants_;
  Profile profile_;
};

}  // namespace

Audit audit_range(const Network& network, const AuditOptions& options, const Network& alone,
                  const Audit& one_size) {
  return RangeAudit(network, options).run(alone, one_size);
}

}  // namespace heddle::network
