#include "bench/bench_ranges.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "bench/bench_models.h"
#include "bench/in_turns.h"
#include "common/figures.h"
#include "common/model_plan.h"
#include "common/run_sizes.h"
#include "heddle/dag/instance.h"
#include "heddle/family/choose.h"
#include "heddle/family/generic.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/cut/check_network.h"
#include "network/cut/step_plan.h"
#include "network/cut/updates.h"
#include "network/race/call_timer.h"
#include "network/run/output_difference.h"
#include "subjects/family_subject.h"
#include "subjects/model_subject.h"
#include "subjects/target_text.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

constexpr int kDrawnSizes = 16;

using Arrays = std::vector<NDArray>;
using Call = std::function<void(const Arrays&)>;

/// What is built once for all sizes.
struct Form {
  std::string name;
  Call call;
  std::function<std::string(const Arrays&)> picked = {};  ///< which of its kernels; may be empty
};

/// A declaration over ranges, and the ways to compute it.
struct Ranged {
  std::string subject;
  std::vector<Dim> dims;
  std::vector<Tensor> inputs = {}, outputs = {};
  std::vector<Tensor> next = {};     ///< of the states of a model
  std::vector<size_t> updated = {};  ///< positions of inputs that calls update
  std::vector<Form> forms = {};
  /// What is built for one size.
  std::function<Call(const Instance& at)> alone = {};

  std::vector<Tensor> args() const {
    std::vector<Tensor> all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  }
};

Form form_of(const std::string& name, const FamilyKernel& kernel) {
  return {name, [kernel](const Arrays& arrays) { kernel.call(arrays); },
          [kernel](const Arrays& arrays) { return kernel.picked(arrays); }};
}

Ranged ranged_kernels(const std::string& subject, DataType dtype, const Target& target) {
  const FamilySubject f = family_subject(subject, dtype);
  FamilyOptions options;
  options.target = target;
  Ranged out{.subject = subject, .dims = f.dims};
  for (const Tensor& t : f.args) (t.op()->is_placeholder() ? out.inputs : out.outputs).push_back(t);
  out.forms = {form_of("raced", choose_family(f.dims, f.args, options).kernel),
               form_of("by rule", generic_family(f.args, target))};
  out.alone = [target, args = out.args(), outputs = out.outputs](const Instance& at) {
    const Kernel one = build(create_schedule(at.of(outputs), target), at.of(args));
    return [one](const Arrays& arrays) { one.call(arrays); };
  };
  return out;
}

Ranged ranged_model(const Request& o, DataType dtype, const Target& target) {
  const OnnxModel model = import_subject(o.subject, dtype);
  const Network network = model_network(o, model.outputs, target, model.updates);
  const NetworkKernel kernel = network.build(model.args());
  Ranged out{.subject = o.subject,
             .dims = model.dims,
             .inputs = model.inputs,
             .outputs = model.outputs,
             .updated = kernel.updated(),
             .forms = {{"range", [kernel](const Arrays& arrays) { kernel.call(arrays); }}}};
  for (const StateUpdate& u : model.updates) out.next.push_back(u.next);
  out.alone = [target, model](const Instance& at) {
    const Network one(at.of(model.outputs), target, current_auto_scheduler_options(), {},
                      network::updates_at(at, model.updates));
    // What only gives a size is no argument there.
    const std::vector<Tensor> needed = network::all_args(one, ComputeDag(one.outputs())),
                              given = at.of(model.args());
    std::vector<Tensor> args;
    std::vector<size_t> taken;
    for (size_t i = 0; i < given.size(); ++i) {
      if (network::position_of(needed, given[i]) < 0) continue;
      args.push_back(given[i]);
      taken.push_back(i);
    }
    return [taken, kernel = one.build(args)](const Arrays& arrays) {
      Arrays own;
      for (const size_t i : taken) own.push_back(arrays[i]);
      kernel.call(own);
    };
  };
  return out;
}

/// All of them at one size.
struct Row {
  std::vector<int64_t> sizes;
  std::vector<double> seconds = {};  ///< of a call: of the kernel for the size, then of the forms
  std::vector<std::string> kernels = {}, differences = {};  ///< of the forms
};

Row compare(const Ranged& of, const std::vector<int64_t>& sizes, double seconds,
            const Target& target) {
  std::vector<SizeValue> values;
  for (size_t i = 0; i < sizes.size(); ++i) values.emplace_back(of.dims[i], sizes[i]);
  std::vector<Tensor> all = of.args();
  all.insert(all.end(), of.next.begin(), of.next.end());
  const Instance at = at_sizes(all, values);
  const Device device = target.is_cuda() ? Device::cuda() : Device::cpu();
  const Arrays arrays = network::random_arrays(at.of(of.args()), device);
  const network::StateCopies states(of.updated, arrays);
  const auto results_of = [&](const Call& call) {
    states.restore();
    call(arrays);
    Arrays results(arrays.begin() + std::ssize(of.inputs), arrays.end());
    for (const size_t i : of.updated) results.push_back(arrays[i]);
    return network::host_copies(results);
  };
  const Call alone = of.alone(at);
  const Arrays want = results_of(alone);
  Row row{.sizes = sizes};
  std::vector<std::function<void()>> calls = {[&] { alone(arrays); }};
  for (const Form& form : of.forms) {
    row.differences.push_back(
        network::output_difference(at.of(of.outputs), results_of(form.call), want));
    row.kernels.push_back(form.picked ? form.picked(arrays) : "");
    calls.emplace_back([&] { form.call(arrays); });
  }
  row.seconds = time_in_turns(calls, seconds, target).seconds;
  return row;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += (text.empty() ? "" : "x") + std::to_string(n);
  return text;
}

void print(const Ranged& of, const std::vector<Row>& rows, std::ostream& out) {
  std::string names;
  for (const Dim& d : of.dims) names += (names.empty() ? "" : "x") + d.name();
  std::vector<std::string> header = {names, "alone"};
  for (const Form& form : of.forms) header.insert(header.end(), {form.name, "of alone", "kernel"});
  Table table(header);
  for (const Row& row : rows) {
    std::vector<std::string> cells = {sizes_text(row.sizes), format_time(row.seconds[0])};
    for (size_t f = 0; f < of.forms.size(); ++f) {
      const std::string& wrong = row.differences[f];
      cells.insert(cells.end(),
                   {format_time(row.seconds[f + 1]), ratio(row.seconds[0] / row.seconds[f + 1]),
                    wrong.empty() ? row.kernels[f] : "differs: " + wrong});
    }
    table.add_row(cells);
  }
  out << table.to_string();
  for (size_t f = 0; f < of.forms.size(); ++f) {
    double logs = 0, worst = std::numeric_limits<double>::infinity();
    for (const Row& row : rows) {
      logs += std::log(row.seconds[0] / row.seconds[f + 1]);
      worst = std::min(worst, row.seconds[0] / row.seconds[f + 1]);
    }
    out << of.forms[f].name << ", " << rows.size() << " sizes: geometric mean "
        << ratio(std::exp(logs / static_cast<double>(rows.size()))) << ", worst " << ratio(worst)
        << "\n";
  }
  out << "\n" << std::flush;
}

Json json_of(const Ranged& of, const Row& row) {
  Json sizes = Json::array(), forms = Json::array();
  for (const int64_t n : row.sizes) sizes.push_back(n);
  for (size_t f = 0; f < of.forms.size(); ++f)
    forms.push_back(Json::object({{"name", of.forms[f].name},
                                  {"seconds", row.seconds[f + 1]},
                                  {"kernel", row.kernels[f]},
                                  {"difference", row.differences[f]}}));
  return Json::object({{"sizes", std::move(sizes)},
                       {"alone_seconds", row.seconds[0]},
                       {"forms", std::move(forms)}});
}

bool is_range(const std::string& subject) {
  return is_family(subject) ||
         has_ranges(is_plan(subject) ? model_of(load_plan(subject), subject) : subject);
}

}  // namespace

bool are_ranges(const Request& options) {
  const auto ranges = std::ranges::count_if(options.subjects, is_range);
  if (ranges == 0) return false;
  if (ranges < std::ssize(options.subjects) || !options.workloads.empty())
    throw_user_error(
        "ranges of sizes are timed beside each size alone, and other subjects beside libraries", {},
        "time them in two runs of `heddle bench`");
  return true;
}

Json bench_ranges(const Request& options, std::ostream& out, bool* right) {
  Json all = Json::array();
  const int threads = options.thread_counts.empty() ? 0 : options.thread_counts[0];
  for (const std::string& subject : options.subjects) {
    const Request o = bench_request(options, subject, threads);
    const DataType dtype = dtype_of(o.dtype);
    const Target target = target_of(o.target, o.threads);
    const ScopedThreads scope(network::race_threads(target));
    const Ranged of = is_family(subject) ? ranged_kernels(subject, dtype, target)
                                         : ranged_model(o, dtype, target);
    const std::vector<std::vector<int64_t>> sizes =
        options.sizes.empty() ? drawn_sizes(of.dims, kDrawnSizes, options.seed)
                              : run_sizes(options.sizes, of.dims);
    std::vector<Row> rows;
    for (const std::vector<int64_t>& at : sizes)
      rows.push_back(compare(of, at, options.seconds, target));
    out << subject << "  " << to_string(dtype) << ", for " << to_string(target) << "\n";
    print(of, rows, out);
    Json json = Json::array();
    for (const Row& row : rows) {
      json.push_back(json_of(of, row));
      for (const std::string& wrong : row.differences) *right &= wrong.empty();
    }
    all.push_back(Json::object({{"subject", subject},
                                {"dtype", to_string(dtype)},
                                {"target", to_string(target)},
                                {"rows", std::move(json)}}));
  }
  return all;
}

}  // namespace heddle::cli
