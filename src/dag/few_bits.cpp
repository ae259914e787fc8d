#include "dag/few_bits.h"

#include <algorithm>

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

}  // namespace

bool widens_bits(const ComputeDag& dag, int s, const Widening& by) {
  return computes(dag, s) &&
         bytes_in_all(dag.stage(s).output(0)) >= by.times * bytes_read(dag, s, by.through_stages);
}

}  // namespace heddle::dag
