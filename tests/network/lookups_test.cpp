// Where the results of gathers that products read are computed.
#include "network/cut/cut_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

constexpr char kTarget[] = "llvm -mcpu=znver4 -threads=1";

Tensor indices(int64_t n) { return placeholder({n}, i64, "indices"); }

/// Queries in `rows` rows times keys that indices name, moved to a place of their own.
Tensor looked_up_keys(int64_t rows) {
  const Tensor q = placeholder({2, rows, 16}, f32, "q"), k = placeholder({2, 50, 16}, f32, "k");
  const Tensor keys = ops::gather(k, indices(40), 1);
  return ops::matmul(q, ops::transpose(keys, {0, 2, 1}));
}

/// Rows times the matrix that an index names.
Tensor looked_up_matrices(int64_t rows) {
  const Tensor x = placeholder({3, rows, 16}, f32, "x"), w = placeholder({5, 16, 40}, f32, "w");
  return ops::matmul(x, ops::gather(w, indices(3), 0));
}

/// Whether the result of a gather is stored.
bool stores_gather(const Tensor& out, const char* target = kTarget) {
  const network::CutNetwork cut =
      network::cut_network(ComputeDag({out}), Target::parse(target), {});
  for (int s = 0; s < cut.dag.size(); ++s) {
    if (cut.dag.stage(s).name() == "gather") return cut.plan.stored(s);
  }
  ADD_FAILURE() << "there is no gather";
  return false;
}

TEST(Lookups, OfColumnsAreMadeOnceForManyRows) {
  EXPECT_TRUE(stores_gather(looked_up_keys(64)));
  EXPECT_EQ(wrong_network({looked_up_keys(64)}), "");
}

TEST(Lookups, OfColumnsAreMadeByTheProductOfFewRows) {
  EXPECT_FALSE(stores_gather(looked_up_keys(4)));
  EXPECT_EQ(wrong_network({looked_up_keys(4)}), "");
}

TEST(Lookups, OfMatricesAreMadeByTheProduct) {
  EXPECT_FALSE(stores_gather(looked_up_matrices(64)));
  EXPECT_EQ(wrong_network({looked_up_matrices(64)}), "");
}

TEST(Lookups, AreLeftToKernelsOfGpus) {
  EXPECT_FALSE(stores_gather(looked_up_keys(64), "cuda -gpu=h200"));
}

}  // namespace
}  // namespace heddle::testing
