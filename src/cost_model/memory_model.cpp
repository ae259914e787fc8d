#include "cost_model/memory_model.h"

#include <algorithm>
#include <cmath>

namespace heddle::cost_model {
namespace {

/// Copies made by unrolling are at a few constant positions, which are expressed as digits like
/// those of loops.
void places_to_digits(Access* a) {
  if (a->places.size() < 2) return;
  std::vector<double>& at = a->places;
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  size_t n = at.size();
  if (n > 1) {
    double step = at[1] - at[0];
    size_t run = 1;
    while (run < n && at[run] - at[run - 1] == step) ++run;
    if (n % run != 0) run = n;  // not a grid, so even spacing is assumed
    if (run == n) step = (at[n - 1] - at[0]) / static_cast<double>(n - 1);
    a->form.add({kCopyDepth, 1, static_cast<double>(run), step});
    if (run < n) {
      a->form.add({kCopyDepth, 1, static_cast<double>(n / run), at[run] - at[0]});
    }
    std::sort(
        a->form.digits.begin(), a->form.digits.begin() + a->form.size,
        [](const Digit& x, const Digit& y) { return std::abs(x.stride) < std::abs(y.stride); });
  }
  a->form.constant = at[0];
}

void touch(Program* p, std::vector<double>* touched) {
  size_t slots = p->buffers.size();
  std::vector<double> whole(slots, 0);
  touched->assign(p->loops.size() * slots, 0);
  for (Statement& s : p->statements) {
    for (Access& a : s.accesses) {
      const BufferUse& buffer = p->buffers[a.slot];
      int depth = static_cast<int>(s.loops.size());
      a.inside.resize(depth + 1);
      for (int d = 0; d <= depth; ++d) {
        a.inside[d] = footprint(a, buffer, d);
        if (a.in_registers || d == depth) continue;
        double& t = (*touched)[s.loops[d].node * slots + a.slot];
        t = std::max(t, a.inside[d].lines * kLineBytes);
      }
      if (!a.in_registers) {
        whole[a.slot] = std::max(whole[a.slot], a.inside[0].lines * kLineBytes);
      }
    }
  }
  for (double b : whole) p->working_set += b;
  for (size_t n = 0; n < p->loops.size(); ++n) {
    for (size_t b = 0; b < slots; ++b) p->loops[n].working_set += (*touched)[n * slots + b];
  }
}

double bytes_from_beyond(const Program& p, const Statement& s, const Access& a, double cache) {
  if (cache <= 0) cache = 1;
  int k = static_cast<int>(s.loops.size());
  while (k > 0 && p.loops[s.loops[k - 1].node].working_set <= cache) --k;
  double times = 1;
  for (int i = 0; i + 1 < k; ++i) times *= s.loops[i].extent;
  return a.inside[std::max(0, k - 1)].lines * kLineBytes * times * a.weight * s.weight;
}

}  // namespace

Footprint footprint(const Access& a, const BufferUse& buffer, int depth) {
  double bytes = a.element_bytes;
  double elements = 1, span = 1;   // distinct elements; the distance from the first to the last
  double dense = bytes, runs = 1;  // bytes of a piece without skipped lines; number of such pieces
  for (const Digit& d : a.form) {  // in ascending order of strides
    if (d.depth < depth) continue;
    double step = std::abs(d.stride), grown = span + step * (d.extent - 1);
    double more = d.extent;
    if (step < span) more = std::min(more, grown / span);  // the windows overlap
    elements *= more;
    if (runs == 1 && step * bytes <= std::max(dense, kLineBytes)) {
      dense += step * bytes * (d.extent - 1);
    } else {
      runs *= more;
    }
    span = grown;
  }
  Footprint f;
  f.elements = std::min(elements, buffer.elements);
  f.lines = std::min(runs * std::ceil(dense / kLineBytes), std::ceil(buffer.bytes / kLineBytes));
  return f;
}

void model_memory(Program* p, const Target& target) {
  // Small private buffers at constant places become registers.
  double registers = 2.0 * target.vector_registers * target.vector_bytes;
  for (Statement& s : p->statements) {
    for (Access& a : s.accesses) {
      places_to_digits(&a);
      a.in_registers = a.buffer->scope == Scope::Local && p->buffers[a.slot].bytes <= registers;
    }
  }
  std::vector<double> touched;
  touch(p, &touched);
  const double caches[3] = {static_cast<double>(target.l1d_bytes),
                            static_cast<double>(target.l2_bytes),
                            static_cast<double>(std::max(target.l3_bytes, target.l2_bytes))};
  for (Statement& s : p->statements) {
    for (Access& a : s.accesses) {
      if (a.in_registers) continue;
      for (int c = 0; c < 3; ++c) a.traffic[c] = bytes_from_beyond(*p, s, a, caches[c]);
    }
  }
}

}  // namespace heddle::cost_model
