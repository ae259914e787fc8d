// Sparse matrices, whose indices are data, and bisection.
#include <algorithm>

#include "driver/program_args.h"
#include "heddle/network/network.h"
#include "network/cut/task_schedules.h"
#include "ops/ops_testing.h"

namespace heddle {
namespace {

/// A matrix of 4 rows and 6 columns, of which row 1 is empty.
struct Sparse {
  std::vector<int64_t> columns = {0, 5, 3, 2, 1, 0, 4}, begins = {0, 2, 2, 6, 7};
  Input data = input({7}, f32, 3), column = input_of(NDArray::from(columns, {7}), "columns"),
        begin = input_of(NDArray::from(begins, {5}), "begins");
  ops::SparseRows rows(int64_t longest = 4) const { return {data, column, begin, longest}; }
  double at(int64_t row, int64_t c) const {
    for (int64_t e = begins[static_cast<size_t>(row)]; e < begins[static_cast<size_t>(row + 1)];
         ++e)
      if (columns[static_cast<size_t>(e)] == c) return data(e);
    return 0;
  }
};

TEST(Sparse, MatricesTimesDenseOnes) {
  const Sparse s;
  const Input x = input({6, 9});
  expect_elements(
      ops::sparse_matmul(s.rows(), x), {s.data, s.column, s.begin, x},
      [&](const Dims& i) {
        double sum = 0;
        for (int64_t k = 0; k < 6; ++k) sum += s.at(i[0], k) * x(k, i[1]);
        return sum;
      },
      1e-5);
  const Input y = input({3, 6});
  expect_elements(
      ops::sparse_dense(y, s.rows()), {s.data, s.column, s.begin, y},
      [&](const Dims& i) {
        double sum = 0;
        for (int64_t k = 0; k < 6; ++k) sum += y(i[0], k) * s.at(i[1], k);
        return sum;
      },
      1e-5);
  EXPECT_THROW(ops::sparse_dense(y, s.rows(0)), Error);
}

TEST(Sparse, RowsOfBlocks) {
  // Blocks of 2 x 3: row 0 has columns 3 to 5, row 1 has both.
  const Input data = input({3, 2, 3}), x = input({4, 6}, f32, 2);
  const Input columns = input_of(NDArray::from<int64_t>({1, 0, 1}, {3}), "columns");
  const Input begins = input_of(NDArray::from<int64_t>({0, 1, 3}, {3}), "begins");
  const auto weight = [&](int64_t row, int64_t k) {
    if (row < 2) return k < 3 ? 0.0 : data(0, row, k - 3);
    return data(k < 3 ? 1 : 2, row - 2, k % 3);
  };
  expect_elements(
      ops::sparse_dense(x, {data, columns, begins, 2}), {data, columns, begins, x},
      [&](const Dims& i) {
        double sum = 0;
        for (int64_t k = 0; k < 6; ++k) sum += x(i[0], k) * weight(i[1], k);
        return sum;
      },
      1e-5);
}

TEST(Sparse, RowsAndTransposedMatrices) {
  const Sparse s;
  const int64_t of_elements[] = {0, 0, 2, 2, 2, 2, 3};
  expect_elements(ops::rows_of(s.rows()), {s.column, s.begin},
                  [&](const Dims& i) { return static_cast<double>(of_elements[i[0]]); });
  const ops::SparseRows t = ops::sparse_transpose(s.rows(), 6, 2);
  const Input x = input({4, 5});
  expect_elements(
      ops::sparse_matmul(t, x), {s.data, s.column, s.begin, x},
      [&](const Dims& i) {
        double sum = 0;
        for (int64_t k = 0; k < 4; ++k) sum += s.at(k, i[0]) * x(k, i[1]);
        return sum;
      },
      1e-5);
}

TEST(Searchsorted, CountsWhatComesBefore) {
  for (const int64_t n : {1, 2, 3, 7, 8, 9, 100}) {
    std::vector<int64_t> sorted;
    for (int64_t i = 0; i < n; ++i) sorted.push_back(i / 2 * 3);
    const Input s = input_of(NDArray::from(sorted, {n}), "sorted");
    const Input v = input({4, 30}, i64, 1, -2, static_cast<double>(2 * n + 3));
    for (const bool right : {false, true})
      expect_elements(ops::searchsorted(s, v, right), {s, v}, [&](const Dims& i) {
        const auto mine = static_cast<int64_t>(v(i[0], i[1]));
        return static_cast<double>(std::ranges::count_if(
            sorted, [&](int64_t other) { return right ? other <= mine : other < mine; }));
      });
  }
}

TEST(Searchsorted, NansAreTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Input s = input_of(NDArray::from<float>({0, 1, nan, nan}, {4}), "sorted");
  const Input v = input_of(NDArray::from<float>({1, 5, nan}, {3}), "values");
  const double left[] = {1, 2, 2}, right[] = {2, 2, 4};
  expect_elements(ops::searchsorted(s, v), {s, v}, [&](const Dims& i) { return left[i[0]]; });
  expect_elements(ops::searchsorted(s, v, true), {s, v},
                  [&](const Dims& i) { return right[i[0]]; });
}

TEST(Searchsorted, TakesRows) {
  const Input s = input_of(NDArray::from<float>({0, 1, 2, 5, 5, 6}, {2, 3}), "sorted");
  const Input v = input_of(NDArray::from<float>({1, 3, 5, 7}, {2, 2}), "values");
  const double expected[] = {1, 3, 0, 3};
  expect_elements(ops::searchsorted(s, v), {s, v},
                  [&](const Dims& i) { return expected[i[0] * 2 + i[1]]; });
  EXPECT_THROW(ops::searchsorted(s, input({3, 2}).tensor), Error);
}

// What is read at places that are data has no tile that a block could share.
TEST(Sparse, LargeOnesFitABlockOfAGpu) {
  const Tensor data = placeholder({20000}, f32), columns = placeholder({20000}, i32),
               begins = placeholder({769}, i32);
  const Network network({ops::sparse_matmul({data, columns, begins, 55}, placeholder({768, 128}))},
                        Target::parse("cuda -gpu=h200"));
  for (const Schedule& s : network.static_schedules())
    EXPECT_NO_THROW(driver::lower_for_gpu(s, network::task_args(s), {.name = "sparse"}));
}

}  // namespace
}  // namespace heddle
