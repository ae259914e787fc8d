// Kernels that memory bounds access it by vectors of 16 bytes: rows of few vectors, pieces of other
// arrays.
#include <gtest/gtest.h>

#include "heddle/codegen/cuda.h"
#include "meta_templates/check_configs.h"

namespace heddle::testing {
namespace {

GpuProgram static_choice(const MemoryBound& p) {
  const Template t = make_template(ComputeDag(p.outputs), h200());
  const Schedule s = t.instantiate(t.default_config());
  return lower_gpu(s, all_args(s.dag()));
}

// Rows of few vectors: lanes of a warp share each, and the others have other rows.
TEST(CudaVectors, RowsOfPartsOfWarps) {
  check(row_programs(37, 72, f16), 3, 13);
  check(row_programs(33, 64), 3, 14);
  check(row_programs(70, 20, f16), 3, 15);
  for (const char* name : {"softmax", "layer_norm", "row_sum"}) {
    const GpuProgram g = static_choice(row_program(name, 4096, 64, f16));
    ASSERT_EQ(g.main.size(), 1u) << name;
    EXPECT_EQ(g.main[0].block[0], 8) << name;  // vectors of 16 bytes
    EXPECT_EQ(g.main[0].block[1], 16) << name;
  }
}

// The last rows of a number that no block divides: the lanes of a row are named, because others may
// be elsewhere. Few rows make blocks of whole warps.
TEST(CudaVectors, LanesOfARowExchangeValuesAmongThemselves) {
  const std::string text = emit_cuda(static_choice(row_program("softmax", 4097, 72, f16)));
  EXPECT_EQ(text.find("__activemask"), std::string::npos) << text;
  EXPECT_NE(text.find("__shfl_xor_sync(0xffu << (ty * 8 & 31), "), std::string::npos) << text;
  for (const int64_t rows : {8, 10, 13}) {
    const GpuProgram few = static_choice(row_program("softmax", rows, 64, f16));
    EXPECT_EQ(few.main[0].block[0] * few.main[0].block[1], 64) << rows;
    EXPECT_NE(emit_cuda(few).find("__shfl_xor_sync"), std::string::npos) << rows;
  }
}

// Which operand an element comes from is the same for whole vectors, or its coordinates in other
// dimensions are no affine functions.
TEST(CudaVectors, PiecesAreReadByVectors) {
  const auto of = [](int64_t n) { return placeholder({6, n}, f16, "x" + std::to_string(n)); };
  const Tensor image = placeholder({2, 5, 6, 16}, f16, "image");
  const std::vector<MemoryBound> by_vectors{
      {"last", {ops::concat({of(40), of(8), of(16)}, 1)}},
      {"first", {ops::concat({of(24), of(24)}, 0)}},
      {"resize", {ops::resize(image, {9, 12}, {.layout = ops::Layout::ChannelsLast})}},
      {"padded", {ops::concat({ops::relu(of(24)), of(16)}, 1)}},
  };
  const std::vector<MemoryBound> by_elements{{"odd", {ops::concat({of(7), of(9)}, 1)}}};
  check(by_vectors, 3, 16);
  check(by_elements, 3, 17);
  const auto text = [](const MemoryBound& p) { return emit_cuda(static_choice(p)); };
  for (const MemoryBound& p : by_vectors)
    EXPECT_NE(text(p).find("*(const uint4*)("), std::string::npos) << p.name;
  EXPECT_EQ(text(by_elements[0]).find("uint"), std::string::npos);
}

// What data choose, such as the gradient of a relu behind a norm, is loaded by vectors before it is chosen. A read
// that is out of bounds where it is not chosen waits. Dimensions of one element do not part a row.
TEST(CudaVectors, WhatDataChooseIsLoadedBefore) {
  const Tensor y = placeholder({64, 48}, f16, "y"), g = placeholder({64, 48}, f16, "g"),
               half = placeholder({32, 48}, f16, "half"),
               scale = placeholder({1, 48, 1}, f16, "scale");
  const auto chosen = [&](int64_t shift) {
    return MemoryBound{
        "shifted by " + std::to_string(shift), {compute({64, 48}, [&](Axis i, Axis c) {
          const Expr zero = make_const(f16, 0), row = floordiv(i - Expr(shift), 2);
          const Expr more = select(floormod(i, 2) == 0 && Expr(0) <= row, half(row, c), zero);
          return select(y(i, c) > zero, (g(i, c) + more) * scale(Expr(0), c, Expr(0)), zero);
        })}};
  };
  check({chosen(0), chosen(2)}, 3, 19);
  const std::string inside = emit_cuda(static_choice(chosen(0)));
  EXPECT_NE(inside.find("*(const uint4*)(g + "), std::string::npos) << inside;
  EXPECT_NE(inside.find("*(const uint4*)(half + "), std::string::npos) << inside;
  const size_t branch = inside.find("if (");
  EXPECT_TRUE(branch == std::string::npos || branch > inside.find("*(const uint4*)(half + "))
      << inside;
  EXPECT_EQ(emit_cuda(static_choice(chosen(2))).find("(half + "), std::string::npos)
      << "by vectors, where some lanes may read before the first row";
}

// An index beside each element: the elements are read by vectors, in rows of any length. Parts of
// odd rows begin at no vector, and neighbouring threads take neighbouring elements of them.
TEST(CudaVectors, PairsAreReadTogether) {
  const auto text = [](int64_t m, int64_t n) {
    return emit_cuda(static_choice(row_program("argmax", m, n, f16)));
  };
  const std::string even = text(4096, 1000), vector = "*(const uint4*)(x + ";
  EXPECT_NE(even.find(vector), std::string::npos) << even;
  EXPECT_EQ(even.find(vector), even.rfind(vector)) << "loaded for each component: " << even;
  const std::string odd = text(32, 50257);
  EXPECT_EQ(odd.find(" + 1]"), std::string::npos) << odd;
  const size_t last = odd.find("kernel_1(");
  ASSERT_NE(last, std::string::npos) << odd;
  EXPECT_EQ(odd.find("if (", last), std::string::npos) << "an index waits for its value: " << odd;
  const Tensor x = placeholder({3, 40001}, f16, "x");
  check({{"argmax", {ops::argmax(x, 1)}}, {"max", {ops::max(x, {1})}}}, 1, 18);
}

}  // namespace
}  // namespace heddle::testing
