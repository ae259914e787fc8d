#include "dag/few_bits.h"

#include <algorithm>
#include <unordered_map>

namespace heddle::dag {

bool looks_up(const Operation& op, const Buffer& from) {
  const auto is_load = [](const Expr& e) { return e.kind() == ExprKind::Load; };
  const auto at_data = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && (!from || load->buffer == from) &&
           std::ranges::any_of(load->indices, [&](const Expr& i) { return any_below(i, is_load); });
  };
  return std::ranges::any_of(op.bodies(), [&](const Expr& b) { return any_below(b, at_data); });
}

namespace {

double bytes_in_all(const Tensor& t) { return static_cast<double>(t.size() * t.dtype().bytes()); }

bool computes(const ComputeDag& dag, int s) {
  return s >= 0 && dag.info(s).precomputable && !dag.stage(s).is_placeholder() &&
         !dag.stage(s).is_reduction() && !looks_up(dag.stage(s));
}

/// Of all elements that `s` reads.
double bytes_read(const ComputeDag& dag, int s, bool through_stages) {
  double bytes = 0;
  for (const Access& a : dag.info(s).reads) {
    const bool between =
        through_stages && computes(dag, a.producer) && dag.info(a.producer).consumers.size() == 1;
    bytes += between ? bytes_read(dag, a.producer, true) : bytes_in_all(a.tensor);
  }
  return bytes;
}

/// The operations of an element of a stage, but for those of what many elements share, such as scales.
class Operations {
 public:
  explicit Operations(int64_t points) : points_(points) {}

  int count = 0;

  /// Whether the expression differs between neighbours.
  bool run(const Expr& e) {
    const auto known = seen_.find(e.get());
    if (known != seen_.end()) return known->second;
    constexpr int64_t kShared = 8;
    bool differs = false;
    if (const Load* load = e.as<Load>()) {
      int64_t elements = 1;
      for (const Expr& extent : load->buffer->shape)
        elements *= as_int(extent) ? *as_int(extent) : 1;
      differs = kShared * elements >= points_;
    } else {
      for_each_child(e, [&](const Expr& child) { differs |= run(child); });
      count += differs;
    }
    return seen_[e.get()] = differs;
  }

 private:
  const int64_t points_;
  std::unordered_map<const ExprNode*, bool> seen_ = {};
};

/// Those of stage `s`, and of the stages that only it reads.
double operations(const ComputeDag& dag, int s) {
  Operations own(dag.info(s).points);
  for (const Expr& body : dag.stage(s).bodies()) own.run(body);
  double all = own.count;
  for (const Access& a : dag.info(s).reads)
    if (computes(dag, a.producer) && dag.info(a.producer).consumers.size() == 1)
      all += operations(dag, a.producer);
  return all;
}

}  // namespace

bool widens_bits(const ComputeDag& dag, int s, const Widening& by) {
  if (by.operations_a_byte > 0 && computes(dag, s)) {
    const DataType type = dag.stage(s).output_buffer(0)->dtype;
    if (operations(dag, s) > by.operations_a_byte * type.bytes()) return false;
  }
  return computes(dag, s) &&
         bytes_in_all(dag.stage(s).output(0)) >= by.times * bytes_read(dag, s, by.through_stages);
}

}  // namespace heddle::dag
