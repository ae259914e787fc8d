#include "heddle/runtime/output_shapes.h"

#include <gmock/gmock.h>

#include "heddle/support/error.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<KernelSize> kSizes = {{"n", 1, 8}, {"m", 1, 4}};

/// x is f32[n, 3], y is f32[m, 3], and the output between them f32[4 * m - 1, n].
std::vector<KernelArg> args() {
  std::vector<KernelArg> list = {{.name = "x", .dtype = f32, .shape = {-1, 3}},
                                 {.name = "out", .dtype = f32, .shape = {-1, -1}, .output = true},
                                 {.name = "y", .dtype = f32, .shape = {-1, 3}}};
  list[0].symbolic = {{.dim = 0, .terms = {{0, 1}}}};
  list[1].symbolic = {{.dim = 0, .constant = -1, .terms = {{1, 4}}}, {.dim = 1, .terms = {{0, 1}}}};
  list[2].symbolic = {{.dim = 0, .terms = {{1, 1}}}};
  return list;
}

std::vector<Extents> shapes(const std::vector<NDArray>& inputs) {
  return output_shapes("f", args(), kSizes, inputs);
}

TEST(OutputShapes, FollowFromTheExtentsOfInputs) {
  EXPECT_THAT(shapes({NDArray::zeros({5, 3}, f32), NDArray::zeros({2, 3}, f32)}),
              ElementsAre(ElementsAre(7, 5)));
}

TEST(OutputShapes, OfConstantExtentsNeedNoInput) {
  const std::vector<KernelArg> constant = {
      {.name = "out", .dtype = f32, .shape = {4, 2}, .output = true}};
  EXPECT_THAT(output_shapes("f", constant, {}, {}), ElementsAre(ElementsAre(4, 2)));
}

TEST(OutputShapes, OfInputsThatDoNotFitAreErrors) {
  EXPECT_THAT([] { shapes({NDArray::zeros({9, 3}, f32), NDArray::zeros({2, 3}, f32)}); },
              ThrowsMessage<Error>(HasSubstr("1 to 8")));
  EXPECT_THAT([] { shapes({NDArray::zeros({5}, f32), NDArray::zeros({2, 3}, f32)}); },
              ThrowsMessage<Error>(HasSubstr("1 dimensions, and 2 are expected")));
}

TEST(OutputShapes, OfASizeThatNoInputGivesAreErrors) {
  std::vector<KernelArg> list = args();
  list[2].symbolic.clear();
  EXPECT_THAT(
      [&] {
        output_shapes("f", list, kSizes,
                      std::vector{NDArray::zeros({5, 3}, f32), NDArray::zeros({2, 3}, f32)});
      },
      ThrowsMessage<Error>(HasSubstr("no argument of kernel 'f' gives its size 'm'")));
}

}  // namespace
}  // namespace heddle
