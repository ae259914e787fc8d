#include "network/cut/kernel_records.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>

#include "driver/records_may_answer.h"
#include "family/json.h"
#include "heddle/records/record_log.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "network/cut/task_schedules.h"
#include "runtime/pool/for_each_task.h"
#include "support/log.h"

namespace heddle {
namespace {

constexpr const char* kTemplate = "family";  // Record::template_name of such a record

/// The kernels of a task as a record has them: FamilyResult as JSON.
std::vector<const Record*> records_of(const RecordDatabase& known, const Network& network,
                                      size_t task) {
  const Template& t = network.tasks()[task].tmpl;
  std::vector<const Record*> found =
      known.ranked(network::declaration_hash(network, task), t.target());
  std::erase_if(found, [](const Record* r) { return kernels_in(*r) == nullptr; });
  return found;
}

/// The first record from which `read` makes something. Others are logged.
template <class Read>
auto first_that_applies(const Network& network, size_t task, const Read& read)
    -> std::optional<std::invoke_result_t<Read, const Json&, const ComputeDag&>> {
  const AutoSchedulerOptions& options = network.tasks()[task].tmpl.options();
  if (!driver::records_may_answer(options)) return std::nullopt;
  const std::shared_ptr<const RecordDatabase> known = tophub(options.record_log);
  const ComputeDag dag(network::families_of(network)[task].outputs);
  for (const Record* r : records_of(*known, network, task)) {
    try {
      return read(*kernels_in(*r), dag);
    } catch (const std::exception& e) {  // a log may contain anything
      log_line("records", 1, describe(*r) + " skipped: " + e.what());
    }
  }
  return std::nullopt;
}

bool is_family(const network::TaskFamily& f) { return !f.outputs.empty(); }

/// A tree on positions of `from`, on positions of `to`.
SizeTree moved(SizeTree tree, const std::vector<Dim>& from, const std::vector<Var>& to) {
  for (TreeNode& n : tree) {
    if (n.feature < 0) continue;
    const Var& size = from[static_cast<size_t>(n.feature)].variable();
    const auto at =
        std::find_if(to.begin(), to.end(), [&](const Var& v) { return v.same_as(size); });
    if (at == to.end())
      throw_user_error("the kernels are over '" + size->name +
                       "', which the network does not have");
    n.feature = static_cast<int>(at - to.begin());
  }
  return tree;
}

/// The time of a call at the largest of the sizes of the race.
double longest_call(const FamilyResult& kernels) {
  double longest = 0;
  for (const FamilyRow& row : kernels.rows)
    longest = std::max(longest, row.seconds[static_cast<size_t>(row.variant)]);
  return longest;
}

}  // namespace

namespace network {

std::string family_name(const Network& network, size_t task) {
  const TaskFamily& family = families_of(network)[task];
  return is_family(family) ? family.name : network.tasks()[task].name;
}

uint64_t declaration_hash(const Network& network, size_t task) {
  const TaskFamily& family = families_of(network)[task];
  return is_family(family) ? ComputeDag(family.outputs).structural_hash()
                           : network.tasks()[task].tmpl.dag().direct().structural_hash();
}

namespace {

/// The kernels of the plan, and for other tasks the choices of create_schedule.
std::vector<TaskVariants> planned_or_chosen(const Network& network) {
  const std::span<const TuneTask> tasks = network.tasks();
  std::vector<TaskVariants> variants(tasks.size());
  for_each_task(tasks.size(), [&](size_t t) {
    const TaskFamily& f = families_of(network)[t];
    if (f.planned) {
      variants[t] = *f.planned;
    } else if (is_family(f)) {
      const std::span<const TuneTask> own = tasks.subspan(t, f.count);
      variants[t] = variants_for_all_sizes(f, chosen_schedules(own), own);
    } else if (f.count > 0) {
      variants[t].schedules = chosen_schedules(tasks.subspan(t, 1));
    }
  });
  return variants;
}

}  // namespace

std::vector<TaskVariants> variants_of(const Network& network,
                                      const std::vector<TaskKernels>& kernels) {
  std::vector<TaskVariants> variants = planned_or_chosen(network);
  const std::vector<TaskFamily>& families = families_of(network);
  for (const TaskKernels& k : kernels) {
    const auto task = static_cast<size_t>(k.task);
    const bool known = task < families.size() && is_family(families[task]);
    if (!known || k.kernels.variants.empty() ||
        !k.kernels.variants[0].schedule.dag().outputs()[0].same_as(families[task].outputs[0]))
      throw_user_error("the kernels of '" + k.name + "' are not for task " +
                           std::to_string(k.task) + " of this network",
                       {}, "choose them for this network: choose_kernels");
    TaskVariants made{{}, moved(k.kernels.tree, k.kernels.dims, network.sizes())};
    for (const FamilyVariant& v : k.kernels.variants) made.schedules.push_back(v.schedule);
    variants[task] = std::move(made);
  }
  return variants;
}

std::vector<TaskVariants> usual_variants(const Network& network) {
  std::vector<TaskVariants> variants = planned_or_chosen(network);
  for (size_t t = 0; t < variants.size(); ++t) {
    const TaskFamily& f = families_of(network)[t];
    if (!is_family(f) || f.planned) continue;
    std::optional<TaskVariants> recorded =
        first_that_applies(network, t, [&](const Json& family, const ComputeDag& dag) {
          return TaskVariants{family::schedules_from_json(family, dag),
                              family::size_tree_from_json(family, network.sizes())};
        });
    if (recorded) variants[t] = *std::move(recorded);
  }
  return variants;
}

}  // namespace network

const Json* kernels_in(const Record& record) {
  return record.template_name == kTemplate ? record.steps.find("family") : nullptr;
}

void record_kernels(const Network& network, const std::vector<TaskKernels>& kernels,
                    const std::string& log) {
  RecordLog records(log);
  for (const TaskKernels& k : kernels) {
    const auto task = static_cast<size_t>(k.task);
    const TuneTask& first = network.tasks().at(task);
    Record r = make_record(first.name, first.tmpl, first.tmpl.default_config());
    r.subject = k.name + " by size";
    r.structural_hash = network::declaration_hash(network, task);
    // Such a record answers for its own declaration, and is no neighbour of other shapes.
    r.shape_class.clear();
    r.extents.clear();
    r.template_name = kTemplate;
    r.template_version = 0;
    r.config = Json::object();
    r.steps = Json::object({{"family", to_json(k.kernels)}});
    r.seconds = {longest_call(k.kernels)};
    r.flops = r.bytes = 0;  // which depend on the size
    r.verdict = Verdict::Chosen;
    r.protocol = "by size";
    records.append(r);
  }
}

std::vector<TaskKernels> recorded_kernels(const Network& network, const std::vector<Dim>& dims) {
  std::vector<TaskKernels> all;
  for (size_t t = 0; t < network.tasks().size(); ++t) {
    if (!is_family(network::families_of(network)[t])) continue;
    std::optional<FamilyResult> found =
        first_that_applies(network, t, [&](const Json& family, const ComputeDag& dag) {
          return family::result_from_json(family, dag, dims);
        });
    if (found)
      all.push_back({static_cast<int>(t), network::family_name(network, t), *std::move(found)});
  }
  return all;
}

}  // namespace heddle
