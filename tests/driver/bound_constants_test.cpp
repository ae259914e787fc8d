// Constants with values: the kernel supplies them.
#include <unistd.h>

#include <filesystem>

#include "driver/driver_testing.h"
#include "heddle/driver/export.h"
#include "heddle/runtime/load_kernel.h"
#include "heddle/support/json.h"

namespace heddle::testing {
namespace {

struct Dense {
  NDArray w = NDArray::random({30, 40}, f32, 2), b = NDArray::random({40}, f32, 3);
  Tensor x = placeholder({20, 30}, f32, "x"), weights = constant(w, "weights"),
         bias = constant(b, "bias");
  Tensor product = ops::matmul(x, weights);
  Tensor y = compute({20, 40}, [this](Axis i, Axis j) { return product(i, j) + bias(j); }, "y");
  NDArray in = random_like(x, 1), out = zeros_like(y);

  bool right(const NDArray& got) const {
    return allclose(got, interpret({y}, {{x, in}})[0], 1e-4, 1e-4);
  }
};

TEST(BoundConstants, AreNoArguments) {
  const Dense d;
  const Kernel kernel = build(create_schedule({d.y}), {d.x, d.y});
  EXPECT_EQ(kernel.args().size(), 2u);
  ASSERT_EQ(kernel.bound().size(), 2u);
  kernel(d.in, d.out);
  EXPECT_TRUE(d.right(d.out));
  EXPECT_EQ(error_of([&] { kernel(d.in, d.w, d.out); }),
            "kernel 'kernel' takes 2 arguments, but 3 were given");
}

TEST(BoundConstants, ArePassedWhereTheyAreListed) {
  const Dense d;
  const Kernel kernel = build(create_schedule({d.y}), {d.x, d.weights, d.y});
  EXPECT_EQ(kernel.args().size(), 3u);
  EXPECT_EQ(kernel.bound().size(), 1u);
  kernel(d.in, d.w, d.out);
  EXPECT_TRUE(d.right(d.out));
  const NDArray zero = zeros_like(d.w);
  kernel(d.in, zero, d.out);
  for (int64_t j = 0; j < 40; ++j) EXPECT_EQ(d.out.get(j), d.b.get(j));
}

TEST(BoundConstants, AreNotWrittenOver) {
  const Tensor c = constant(NDArray::full({64}, f32, 2), "c");
  const Tensor y = compute({64}, [&](Axis i) { return c(i) * 2.f; }, "y");
  const Kernel kernel = build(Schedule({y}), {y});
  EXPECT_NE(error_of([&] { kernel(*c.op()->data()); }).find("overlaps in memory with one of its"),
            std::string::npos);
}

TEST(BoundConstants, WithoutValuesAreMissedAsEver) {
  const Dense d;
  EXPECT_NE(error_of([&] { build(Schedule({d.y}), {d.y}); }).find("'x' is missing"),
            std::string::npos);
}

TEST(BoundConstants, AreSharedAndSeenAfterRefresh) {
  const NDArray w = NDArray::full({64}, f32, 2);
  const Tensor x = placeholder({64}, f32, "x"), c = constant(w, "c");
  const Tensor p = compute({64}, [&](Axis i) { return c(i) * c(i) + 1.f; }, "p");
  const Tensor y = compute({64}, [&](Axis i) { return x(i) * p(i); }, "y");
  const Kernel kernel = build(Schedule({y}), {x, y});
  const NDArray in = full_like(x, 1), out = zeros_like(y);
  kernel(in, out);
  EXPECT_EQ(out.get(0), 5);
  w.fill(3);
  kernel(in, out);
  EXPECT_EQ(out.get(0), 5);
  kernel.refresh();
  kernel(in, out);
  EXPECT_EQ(out.get(0), 10);
}

TEST(BoundConstants, PrepareNeedsNoArrays) {
  const NDArray w = NDArray::full({64}, f32, 2);
  const Tensor x = placeholder({64}, f32, "x"), c = constant(w, "c");
  const Tensor p = compute({64}, [&](Axis i) { return c(i) * c(i) + 1.f; }, "p");
  const Tensor y = compute({64}, [&](Axis i) { return x(i) * p(i); }, "y");
  const NDArray in = full_like(x, 1), out = zeros_like(y);
  const Kernel kernel = build(Schedule({y}), {x, y});
  kernel.prepare();
  w.fill(3);  // not seen: what is made of it is there already
  kernel(in, out);
  EXPECT_EQ(out.get(0), 5);

  const Kernel passed = build(Schedule({y}), {x, c, y});
  EXPECT_EQ(error_of([&] { passed.prepare(); }),
            "kernel 'kernel' does not have the values of its constant 'c'\n  help: pass the arrays "
            "to prepare, or declare it with constant(array)");
  passed.prepare(std::vector<NDArray>{NDArray(), w, NDArray()});
  w.fill(4);
  passed(in, w, out);
  EXPECT_EQ(out.get(0), 10);
  EXPECT_EQ(error_of([&] { passed.prepare(std::vector<NDArray>{in, NDArray(), out}); }),
            "argument 1 ('c') of kernel 'kernel' is no array");
}

TEST(BoundConstants, NeitherHashNorRecordKnowsTheValues) {
  const auto hash = [](const NDArray& w) {
    const Tensor x = placeholder({8, 8}, f32, "x");
    return ComputeDag({ops::matmul(x, w.defined() ? constant(w) : constant_placeholder({8, 8}))})
        .structural_hash();
  };
  EXPECT_EQ(hash(NDArray::zeros({8, 8}, f32)), hash(NDArray::full({8, 8}, f32, 3)));
  EXPECT_EQ(hash(NDArray::zeros({8, 8}, f32)), hash(NDArray()));
}

TEST(BoundConstants, AnExportedKernelCarriesThem) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / ("heddle_bound_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string stem = (folder / "dense").string();
  const Dense d;
  export_kernel(create_schedule({d.y}), {d.x, d.y}, stem);
  const std::string command =
      std::string(HEDDLE_TEST_CXX) + " -shared -o '" + stem + ".so' '" + stem + ".o' -lm";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  {
    const Kernel kernel = load_kernel(stem);
    EXPECT_EQ(kernel.args().size(), 2u);
    kernel(d.in, d.out);
    EXPECT_TRUE(d.right(d.out));
  }
  NDArray::zeros({3}, f32).save(stem + ".constant0.npy");
  EXPECT_NE(error_of([&] { load_kernel(stem); }).find("is not what was exported"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(BoundConstants, TuningMeasuresWithTheirValues) {
  // An index of random values would be clamped; the right answer needs the real ones.
  const NDArray order = NDArray::from<int32_t>({3, 2, 1, 0});
  const Tensor x = placeholder({4, 64}, f32, "x"), at = constant(order, "order");
  const Tensor y = compute(
      {4, 64}, [&](Axis i, Axis j) { return x(max(0, min(3, cast(i64, at(i)))), j) * 2.f; });
  const TuneResult best = tune({y}, {.max_trials = 4});
  const Kernel kernel = build(best.schedule, {x, y});
  const NDArray in = random_like(x, 1), out = zeros_like(y);
  kernel(in, out);
  EXPECT_TRUE(allclose(out, interpret({y}, {{x, in}})[0]));
}

TEST(Profile, OfAKernelHasItsTimes) {
  const Dense d;
  const Kernel kernel = build(create_schedule({d.y}), {d.x, d.y}, {.name = "dense"});
  const Profile profile = kernel.profile({d.in, d.out}, 0.05);
  EXPECT_TRUE(d.right(d.out));
  ASSERT_EQ(profile.rows.size(), 1u);
  const ProfileRow& row = profile.rows[0];
  EXPECT_EQ(row.name, "dense");
  EXPECT_EQ(row.share, 1);
  EXPECT_GT(row.in_network_s, 0);
  EXPECT_GT(row.alone_s, 0);
  EXPECT_GT(row.cold_s, 0);
  EXPECT_GT(row.least_s, 0);
  EXPECT_EQ(row.flops, 2 * 20 * 30 * 40 + 20 * 40);
  EXPECT_EQ(row.bytes, 4 * (20 * 30 + 30 * 40 + 40 + 20 * 40));
  EXPECT_NE(profile.to_string().find("of roof"), std::string::npos);
  EXPECT_EQ(profile.to_json().at("nodes").at(0).at("name").as_string(), "dense");
  EXPECT_THROW(kernel.profile({d.in}), Error);
  EXPECT_THROW(kernel.profile({d.in, d.out}, -1), Error);
}

}  // namespace
}  // namespace heddle::testing
