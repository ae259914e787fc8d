#include "driver/index_checks.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "heddle/dag/instance.h"
#include "heddle/support/error.h"
#include "ir/data_index.h"
#include "runtime/cuda/capture.h"

namespace heddle::driver {
namespace {

/// A read at an index that is data, at the place where it is.
struct DataRead {
  const Operation* stage = nullptr;
  std::string table;  ///< what is read
  ClampedIndex index;
  std::vector<Expr> guards;  ///< conditions under which it is evaluated
};

class ReadFinder {
 public:
  explicit ReadFinder(const Operation& stage) : stage_(stage) {}

  std::vector<DataRead> run() {
    for (const Expr& body : stage_.bodies()) find(body, "", {}, 0);
    return std::move(found_);
  }

 private:
  /// `place` numbers the guards: a shared node is looked at once under each.
  void find(const Expr& e, const std::string& table, const std::vector<Expr>& guards, int place) {
    if (SeenNodes::is_leaf(e) || !seen_.insert({e.get(), place}).second) return;
    if (const std::optional<ClampedIndex> index = as_clamped_index(e)) {
      found_.push_back({&stage_, table, *index, guards});
      return;
    }
    if (const Select* s = e.as<Select>()) {
      find(s->condition, table, guards, place);
      for (const bool holds : {true, false}) {
        std::vector<Expr> inside = guards;
        inside.push_back(holds ? s->condition : make_unary(UnaryOp::Not, s->condition));
        find(holds ? s->on_true : s->on_false, table, inside, ++places_);
      }
      return;
    }
    const Load* load = e.as<Load>();
    const std::string& inner = load != nullptr ? load->buffer->name : table;
    for_each_child(e, [&](const Expr& child) { find(child, inner, guards, place); });
  }

  const Operation& stage_;
  std::set<std::pair<const ExprNode*, int>> seen_;
  int places_ = 0;
  std::vector<DataRead> found_;
};

/// The least and the largest position that a read uses.
struct Positions {
  DataRead read;
  Tensor least, largest;
};

/// The positions for each index of the first axis that they depend on, so that these are computed
/// in parallel; reduced over the others.
Positions positions_of(DataRead read) {
  const Expr zero = make_int(i64, 0);
  Expr value = read.index.position;
  for (size_t g = read.guards.size(); g-- > 0;) value = select(read.guards[g], value, zero);
  std::vector<Axis> used;
  for (const auto* list : {&read.stage->axes(), &read.stage->reduce_axes()}) {
    for (const Axis& a : *list) {
      if (uses_var(value, a.var())) used.push_back(a);
    }
  }
  const auto declare = [&](const char* name, Expr (*reduce)(Expr, std::vector<Axis>)) {
    const Expr first = used.empty() ? Expr(1) : used[0]->extent;
    return compute(
        {first},
        [&](Axis i) {
          std::vector<VarBinding> now;
          std::vector<Axis> over;
          for (size_t a = 0; a < used.size(); ++a) {
            if (a > 0) over.push_back(reduce_axis(used[a]->extent, used[a].name(), Where{}));
            now.push_back({used[a].var(), a == 0 ? Expr(i) : Expr(over.back())});
          }
          const Expr here = substitute(value, now);
          return over.empty() ? here : reduce(here, over);
        },
        read.stage->name() + name, "check_indices", Where{});
  };
  const Tensor least = declare(".least", reduce_min), largest = declare(".largest", reduce_max);
  return {std::move(read), least, largest};
}

class IndexChecks {
 public:
  IndexChecks(const Schedule& schedule, std::span<const Tensor> args, const BuildOptions& options)
      : name_(options.name) {
    const ComputeDag& dag = schedule.dag().direct();
    if (!sizes_of(dag.outputs()).empty())
      throw_user_error("kernels over dimensions do not check indices", {},
                       "build the declaration at one size: at_sizes (dag/instance.h)");
    std::vector<Tensor> outputs;
    for (int s = 0; s < dag.size(); ++s) {
      for (DataRead& read : ReadFinder(dag.stage(s)).run()) {
        reads_.push_back(positions_of(std::move(read)));
        outputs.push_back(reads_.back().least);
        outputs.push_back(reads_.back().largest);
      }
    }
    if (outputs.empty()) return;
    std::vector<Tensor> own;
    for (const Tensor& t : ComputeDag(outputs).placeholders()) {
      const auto at =
          std::find_if(args.begin(), args.end(), [&](const Tensor& arg) { return arg.same_as(t); });
      if (at == args.end()) continue;  // a constant that the kernel supplies
      own.push_back(t);
      inputs_.push_back(static_cast<size_t>(at - args.begin()));
    }
    own.insert(own.end(), outputs.begin(), outputs.end());
    kernel_ =
        build(naive_schedule(outputs, schedule.target()), own, {.name = options.name + "_indices"});
  }

  bool empty() const { return reads_.empty(); }

  void check(std::span<const NDArray> arrays) const {
    const Device device = inputs_.empty() ? Device::cpu() : arrays[inputs_[0]].device();
    if (device.is_cuda()) cuda::refuse_in_capture(device.index, "a check of indices");
    std::vector<NDArray> all;
    for (const size_t i : inputs_) all.push_back(arrays[i]);
    for (const Positions& p : reads_) {
      for (const Tensor& t : {p.least, p.largest})
        all.push_back(NDArray::empty(t.extents(), i64, device));
    }
    kernel_.call(all);
    for (size_t r = 0; r < reads_.size(); ++r) {
      const size_t at = inputs_.size() + 2 * r;
      check(reads_[r], all[at].to_host(), all[at + 1].to_host());
    }
  }

 private:
  void check(const Positions& p, const NDArray& least, const NDArray& largest) const {
    const int64_t extent = p.read.index.extent;
    const auto fail = [&](int64_t index) {
      throw_runtime_error(
          "kernel '" + name_ + "': stage '" + p.read.stage->name() + "' reads '" + p.read.table +
              "' at index " + std::to_string(index) + ", which is out of range: it has " +
              std::to_string(extent) + " positions",
          p.read.stage->where(),
          "look at what computes the indices; without BuildOptions::check_indices the nearest "
          "element is read");
    };
    for (int64_t i = 0; i < least.size(); ++i) {
      const int64_t low = least.data<int64_t>()[i], high = largest.data<int64_t>()[i];
      if (low < 0) fail(p.read.index.counts_from_end ? low - extent : low);
      if (high >= extent) fail(high);
    }
  }

  std::string name_;
  std::vector<Positions> reads_;
  std::vector<size_t> inputs_;  ///< positions among the arguments of the call
  Kernel kernel_;
};

}  // namespace

std::function<void(std::span<const NDArray>)> index_checks(const Schedule& schedule,
                                                           std::span<const Tensor> args,
                                                           const BuildOptions& options) {
  if (!options.check_indices) return {};
  const auto checks = std::make_shared<const IndexChecks>(schedule, args, options);
  if (checks->empty()) return {};
  return [checks](std::span<const NDArray> arrays) { checks->check(arrays); };
}

}  // namespace heddle::driver
