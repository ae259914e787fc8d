#include "heddle/ops/paged.h"

#include "ops/common.h"
#include "ops/known_indices.h"

namespace heddle::ops {
namespace {

using impl::Call;

void check(const Call& call, const Tensor& cache, const Tensor& table) {
  impl::check_indices(call, table, 2);
  if (cache.rank() != 4 || table.rank() != 2)
    impl::fail(call,
               "the cache " + impl::text(cache.extents()) + " and the table " +
                   impl::text(table.extents()) + " have another rank",
               "they are (blocks, slots, heads, size) and (sequences, most blocks)");
}

}  // namespace

Tensor paged_places(const Tensor& cache, const Tensor& table, const Tensor& lengths, const Expr& n,
                    Where where) {
  const Call call{"paged_places", where};
  check(call, cache, table);
  impl::check_indices(call, lengths, 1);
  if (lengths.rank() != 1 || lengths.extent(0) != table.extent(0))
    impl::fail(call,
               "'lengths' " + impl::text(lengths.extents()) + " does not fit the table " +
                   impl::text(table.extents()),
               "it has one length for each sequence");
  const int64_t slots = cache.extent(1), most = table.extent(1), blocks = cache.extent(0);
  return compute(
      Shape{table.extent(0), n},
      [&](Axis i, Axis j) {
        const Expr row = cast(i64, lengths(i)) + j, nth = floordiv(row, Expr(slots));
        const Expr block = cast(i64, table(i, max(min(nth, Expr(most - 1)), Expr(0))));
        const Expr inside = row >= 0 && nth < most && block >= 0 && block < blocks;
        return select(inside, block * slots + floormod(row, Expr(slots)), Expr(int64_t{-1}));
      },
      call.op, call.op, where);
}

PagedRow paged_row(const Tensor& cache, const Tensor& table, const Expr& sequence,
                   const Expr& row) {
  const Expr slots = cache.extent(1);
  const Expr block = cast(i64, table(sequence, floordiv(row, slots)));
  return {max(min(block, Expr(cache.extent(0) - 1)), Expr(0)), floormod(row, slots)};
}

Tensor paged_rows(const Tensor& cache, const Tensor& table, Where where) {
  const Call call{"paged_rows", where};
  check(call, cache, table);
  return compute(
      Shape{table.extent(0), cache.extent(2), table.extent(1) * cache.extent(1), cache.extent(3)},
      [&](Axis i, Axis g, Axis t, Axis e) {
        const PagedRow at = paged_row(cache, table, i, t);
        return cache(at.block, at.slot, g, e);
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
