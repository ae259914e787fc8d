// The passes of lowering, each in a file of its name. All are pure.
#pragma once

#include <optional>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle::lowering {

/// for i { S[i] = 0  for k { S[i] = S[i] + select(k <= i, x[k], 0) } }
///   -->  local total = 0  for i { total = total + x[i]  S[i] = total }
/// Scans whose loops are in order take one operation a point.
Stmt linear_scans(const Stmt& s);

/// for i { S[i] = 0  for q { S[i] = S[i] + select(p[q] == i, x[q], 0) } }
///   -->  for i { S[i] = 0 }  for q { if (0 <= p[q] && p[q] < n) { S[p[q]] = S[p[q]] + x[q] } }
/// Scatters whose loops are in order take one operation a source. On a GPU the points are those of one
/// thread, which alone stores to them.
Stmt scattered_stores(const Stmt& s);

/// The store of one source where it goes, for loops over points around `S[i] = S[i] + select(p[q] == i, x[q],
/// identity)`; null for all others.
Stmt scattered_source(const For& points, const Expr& identity);

/// Cuts serial loops where a condition (of an If, or of a select that guards a load) changes:
///   for x in 0..n { if (x < m) A else B }  -->  for x in 0..m { A }  for x in 0..n-m { B[x + m] }
/// so that no inner loop tests a condition. For fused loops, also parallel ones, conditions on the
/// original indices (f / n, f % n) become branches around copies of the body where they vary over
/// loops that will be unrolled or vectorized.
Stmt loop_partition(const Stmt& s);

/// for r in rows { for j in 0..n { A[r, j] } }
///   -->  if (n <= 8) { if (n == 1) for r in rows { A[r, 0] } else if (n == 2) .. }  else { .. }
/// Where vectors go along rows of `n` elements, one of `sizes`, and nothing else takes time, short
/// rows have versions of constant length. Masks and branches would take longer than the elements.
/// Rows of a few vectors of `lanes` elements have versions by the number of whole vectors, which
/// have no loops inside of a row; 0 for a target that cannot leave out lanes:
///   -->  if (n / 16 == 1) { let t = n % 16 { for r in rows { A[r, 0..16]; A[r, 16..16 + t] } } }
Stmt short_rows(const Stmt& s, const std::vector<Var>& sizes, int64_t lanes);

/// y = x[ramp(b, n, 16)]  -->  if (n == 1) { y = x[ramp(b, 1, 16)] } else { y = x[ramp(b, n, 16)] }
/// The columns of a matrix of one column are neighbours. Where vectors step by `n`, one of `sizes`,
/// the program has a version for n = 1.
Stmt unit_strides(const Stmt& s, const std::vector<Var>& sizes);

/// for (vectorized) j in 0..8 { C[j] = A[j] * k } --> C[ramp(0, 1, 8)] = A[ramp(0, 1, 8)] * x8(k)
/// A loop of varying length, such as  j in 0..n % 8,  becomes the powers of two that it consists
/// of. Where stores can leave out lanes in registers of `masked_bytes` (0: they cannot), it becomes
///   if (n % 8 > 0) { if (ramp(0, 1, 8) < x8(n % 8)) { C[ramp(0, 1, 8)] = .. } }
/// An If with a vector condition has one Store, which neither reads nor writes in lanes where the
/// condition is false.
/// A loop that cannot be vectorised (too long, a branch that differs by lane) becomes serial, and
/// so do all loops of varying length without `masked_bytes`.
Stmt vectorize(const Stmt& s, std::optional<int64_t> masked_bytes = {});

/// Replaces unrolled loops of constant extent by copies of their body, up to `max_statements` each.
Stmt unroll(const Stmt& s, int max_statements);

/// C[i] = C[i] + a; C[i] = C[i] + b  -->  C[i] = C[i] + a + b
/// One store where unrolling made several.
Stmt merge_updates(const Stmt& s);

/// prefetch A[i]; prefetch A[i + 1]  -->  prefetch A[i]
/// Drops a prefetch of an element that lies less than `bytes` after one that the statements before
/// it fetch. Unrolling makes such prefetches.
Stmt thin_prefetches(const Stmt& s, int64_t bytes);

/// for (software_pipelined) i { for k reduce(i, k)  for j write(i, j) }
///   -->  for k reduce(0, k)  for i { for k { reduce(i + 1, k)  write(i, k) } }
/// A loop that cannot be pipelined (see row_pipeline.cpp) becomes serial.
Stmt pipeline_rows(const Stmt& s);

/// f16(x*0.5 * (1 + erf(x*0.7071)))  -->  f16(max(x, 0) - u*exp2(p(u))), u = min(abs(x), 5.8)
/// f16(x / (1 + exp(-x)))            -->  f16(x / (1 + exp2(x*-1.4427)))
/// Functions of f32 that need no more bits than a product that is rounded to f16 or bf16 has.
Stmt short_functions(const Stmt& s);

/// C[i, j]  -->  C[i*N + j]: every access gets one flat index.
Stmt flatten(const Stmt& s);

}  // namespace heddle::lowering
