#include "lower/gpu/threads/thread_digits.h"

#include <algorithm>

#include "heddle/ir/simplify.h"

namespace heddle::gpu {
namespace {

using Digits = std::vector<std::vector<Digit>>;  // of each dimension

bool same(const Digits& a, const Digits& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d].size() != b[d].size()) return false;
    for (size_t i = 0; i < a[d].size(); ++i) {
      if (a[d][i].dim != b[d][i].dim || a[d][i].weight != b[d][i].weight) return false;
    }
  }
  return true;
}

// The digits of one access. `widest` has the extents of the widest thread loops for each dimension
// of the block. Nullopt where an index that uses threads is not a sum of multiples.
std::optional<Digits> digits_of(const BufferAccess& a, size_t rank, const int64_t (&widest)[3]) {
  Digits digits(rank);
  for (size_t d = 0; d < rank; ++d) {
    if (!uses_any_thread(a.indices[d], a.loops)) continue;
    const std::optional<Affine> f = as_affine(simplify(a.indices[d]));
    if (!f) return {};
    for (const Affine::Term& t : f->terms) {
      const OpenLoop* l = a.loop(t.var.get());
      if (!l || !is_thread(l->kind)) continue;
      const int dim = grid_dim(l->kind);
      digits[d].push_back({dim, t.coefficient, t.coefficient * widest[dim]});
    }
    std::sort(digits[d].begin(), digits[d].end(),
              [](const Digit& x, const Digit& y) { return x.weight > y.weight; });
  }
  return digits;
}

// Whether no other term of the index reaches into the digits.
bool removable(const BufferAccess& a, const Expr& index, const std::vector<Digit>& digits) {
  const std::optional<Affine> f = as_affine(simplify(index));
  if (!f || f->constant < 0) return false;
  for (const Digit& g : digits) {
    if (g.weight <= 0) return false;
    int64_t low = f->constant % g.weight;
    if (f->constant % g.span != low) return false;
    for (const Affine::Term& t : f->terms) {
      const OpenLoop* l = a.loop(t.var.get());
      if (!l || t.coefficient <= 0 || l->extent >= (int64_t{1} << 32)) return false;
      if (t.coefficient % g.span == 0) continue;
      if (is_thread(l->kind) && t.coefficient == g.weight) continue;
      low += t.coefficient * (l->extent - 1);
    }
    if (low >= g.weight) return false;
  }
  return true;
}

// Whether `a` is reached only by the first thread along the dimension of the block. Its index then
// says so by lacking the digit, because it is simplified by the conditions around it.
bool by_first_thread(const BufferAccess& a, int dim) {
  const OpenLoop* first = a.thread_loop(dim);
  if (!first) return false;
  std::vector<OpenLoop> all = a.around;
  all.insert(all.end(), a.loops.begin(), a.loops.end());
  return std::any_of(a.conditions.begin(), a.conditions.end(),
                     [&](const Expr& c) { return only_first_passes(c, first->var, all); });
}

size_t count(const Digits& digits) {
  size_t n = 0;
  for (const auto& of_dimension : digits) n += of_dimension.size();
  return n;
}

// Whether `a` with these digits names the same threads as `all` does. A single thread need not be
// named.
bool agrees(const BufferAccess& a, const Digits& digits, const Digits& all) {
  if (same(all, digits)) return true;
  for (size_t d = 0; d < digits.size(); ++d) {
    size_t next = 0;
    for (const Digit& g : all[d]) {
      const bool here = next < digits[d].size() && digits[d][next].dim == g.dim &&
                        digits[d][next].weight == g.weight;
      if (!here && !by_first_thread(a, g.dim)) return false;
      next += here ? 1 : 0;
    }
    if (next < digits[d].size()) return false;
  }
  return true;
}

// Whether, along this dimension of the block, a thread that reads an element has written it.
bool each_its_own(const BufferUse& use, const Digits& digits, int dim) {
  for (const OpenLoop& l : use.around) {
    if (grid_dim(l.kind) == dim) return true;  // each thread has its own memory already
  }
  for (const auto& of_dimension : digits) {
    for (const Digit& g : of_dimension) {
      if (g.dim == dim) return true;  // every access has the digit: see find_thread_digits
    }
  }
  int64_t narrowest = INT64_MAX, widest = 0;  // extents of the loops of writes, of reads
  bool outside = false, inside = false;
  for (const BufferAccess& a : use.accesses) {
    const OpenLoop* l = a.thread_loop(dim);
    if (a.write) {
      (l ? inside : outside) = true;
      if (l) narrowest = std::min(narrowest, l->extent);
    } else {
      widest = std::max(widest, l ? l->extent : INT64_MAX);
    }
  }
  return !inside || (!outside && widest <= narrowest);
}

}  // namespace

std::optional<ThreadDigits> find_thread_digits(const BufferUse& use, const LaunchShape& shape,
                                               bool fragment) {
  const size_t rank = use.allocate->buffer->shape.size();
  int64_t widest[3] = {1, 1, 1};
  for (const BufferAccess& a : use.accesses) {
    for (int dim = 0; dim < 3; ++dim) {
      if (const OpenLoop* l = a.thread_loop(dim)) widest[dim] = std::max(widest[dim], l->extent);
    }
  }
  ThreadDigits found{Digits(rank)};
  std::vector<Digits> each;
  for (const BufferAccess& a : use.accesses) {
    const std::optional<Digits> digits = digits_of(a, rank, widest);
    if (!digits) return {};
    each.push_back(*digits);
    if (count(*digits) > count(found.dims)) found.dims = *digits;
  }
  for (size_t i = 0; i < each.size(); ++i) {
    if (!agrees(use.accesses[i], each[i], found.dims)) return {};
  }
  for (const BufferAccess& a : use.accesses) {
    for (size_t d = 0; d < rank; ++d) {
      if (!found.dims[d].empty() && !removable(a, a.indices[d], found.dims[d])) return {};
    }
  }
  for (int dim = 0; dim < 3; ++dim) {
    if (fragment && dim == 0) continue;  // the lanes of a fragment
    const bool many = shape.block[static_cast<size_t>(dim)] > 1;
    if (many && !each_its_own(use, found.dims, dim)) return {};
  }
  return found;
}

Buffer without_digits(const Buffer& b, const ThreadDigits& digits) {
  std::vector<Expr> shape;
  bool unchanged = true;
  for (size_t d = 0; d < b->shape.size(); ++d) {
    int64_t n = *as_int(b->shape[d]);
    for (const Digit& g : digits.dims[d]) {
      n = (n + g.span - 1) / g.span * g.weight;
      unchanged = false;
    }
    shape.push_back(Expr(n));
  }
  return unchanged ? b : Buffer::make(b->name, b->dtype, std::move(shape), Scope::Local);
}

Expr without_digits(const Expr& index, const std::vector<Digit>& digits) {
  if (digits.empty()) return index;
  Affine f = *as_affine(simplify(index));
  for (const Digit& g : digits) {
    bool dropped = false;
    for (auto& t : f.terms) {
      if (t.coefficient % g.span == 0) {
        t.coefficient = t.coefficient / g.span * g.weight;
      } else if (t.coefficient == g.weight && !dropped) {
        t.coefficient = 0;
        dropped = true;
      }
    }
    f.constant = f.constant / g.span * g.weight + f.constant % g.weight;
  }
  Expr r(f.constant);
  for (const Affine::Term& t : f.terms) {
    if (t.coefficient) r = r + t.var.expr() * Expr(t.coefficient);
  }
  return simplify(r);
}

}  // namespace heddle::gpu
