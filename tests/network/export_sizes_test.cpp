// Networks over dimensions as libraries: one library runs at every size, called from C.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "heddle/dag/instance.h"
#include "heddle/network/export_network.h"
#include "network/exported_library.h"
#include "network/network_testing.h"
#include "sanitized.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// Two layers on `rows` rows of 12, the rows of which the second one turns into columns.
struct Layers {
  Dim rows = dim("rows", 1, 70), wide = dim("wide", 8, 32).multiple_of(8);
  Tensor x = placeholder({rows, 12}, f32, "x"), y = placeholder({12, wide}, f32, "y");
  Tensor w = constant(NDArray::random({12, 12}, f32, 3), "w");
  Tensor hidden, out;

  Layers() {
    const Axis k = reduce_axis(12, "k"), l = reduce_axis(12, "l");
    const Tensor sums =
        compute({rows, 12}, [&](Axis i, Axis j) { return sum(x(i, k) * w(k, j), k); }, "sums");
    hidden = compute({rows, 12}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); }, "hidden");
    out = compute(
        {wide, rows}, [&](Axis j, Axis i) { return sum(hidden(i, l) * y(l, j), l); }, "out");
  }
  std::vector<Tensor> args() const { return {x, y, out}; }
};

class ExportSizes : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static int shell(const std::string& command) { return std::system(command.c_str()); }

  std::string folder_ =
      (std::filesystem::path(::testing::TempDir()) / ("heddle_sizes_" + std::to_string(::getpid())))
          .string();
};

// Every array ends where a page begins that cannot be read, and begins after one in a second round.
constexpr const char* kProgram = R"(
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "layers.h"

static float* guarded(size_t bytes, int at_the_end) {
  const size_t page = 4096, whole = (bytes + page - 1) / page * page;
  char* memory = mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + page, whole, PROT_READ | PROT_WRITE) != 0) exit(2);
  return (float*)(memory + page + (at_the_end ? whole - bytes : 0));
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  FILE* results = fopen("results", "wb");
  layers_network* network = layers_open(NULL);
  if (network == NULL || results == NULL) return fprintf(stderr, "%s\n", layers_error()), 2;
  layers_set_threads(2);
  for (int64_t rows = 1; rows <= atoi(argv[1]); ++rows) {
    for (int64_t wide = 8; wide <= atoi(argv[2]); wide += 8) {
      for (int at_the_end = 0; at_the_end < 2; ++at_the_end) {
        float* x = guarded((size_t)rows * 12 * sizeof(float), at_the_end);
        float* y = guarded((size_t)wide * 12 * sizeof(float), at_the_end);
        float* out = guarded((size_t)(rows * wide) * sizeof(float), at_the_end);
        for (int i = 0; i < rows * 12; ++i) x[i] = (float)(i % 7) - 3;
        for (int i = 0; i < wide * 12; ++i) y[i] = (float)(i % 5) - 2;
        const void* inputs[] = {x, y};
        void* outputs[] = {out};
        if (layers_run(network, rows, wide, inputs, outputs) != 0)
          return fprintf(stderr, "%s\n", layers_error()), 2;
        fwrite(out, sizeof(float), (size_t)(rows * wide), results);
      }
    }
  }
  const int wrong = layers_run(network, 71, 8, NULL, NULL) == 0 || strstr(layers_error(), "1 to 70") == NULL;
  const int odd = layers_run(network, 1, 9, NULL, NULL) == 0 || strstr(layers_error(), "multiples of 8") == NULL;
  const heddle_size* size = layers_size(1);
  const int described = layers_num_sizes() != 2 || layers_size(2) != NULL || size->lo != 8 ||
                        size->hi != 32 || size->multiple != 8 || strcmp(size->name, "wide") != 0 ||
                        layers_input(0)->shape[0] != -1 || layers_input(0)->bytes != 70 * 12 * 4;
  layers_close(network);
  return fclose(results) != 0 || wrong || odd || described;
}
)";

TEST_F(ExportSizes, AProgramInCRunsItAtEverySize) {
  if (kSanitized) GTEST_SKIP() << "the runtime in the library needs a program with the sanitizer";
  constexpr int64_t kRows = 70, kWide = 32;
  const Layers net;
  const Network network({net.out});
  const ExportedNetwork written = export_network(network, net.args(), folder_, {.name = "layers"});
  EXPECT_GT(network.tasks().size(), network.nodes().size()) << "several kernels for a node";
  const std::string header = read_file(written.header);
  EXPECT_THAT(header, HasSubstr("int64_t size_rows, int64_t size_wide, const void"));
  EXPECT_THAT(header, HasSubstr("x  f32[rows, 12]"));
  EXPECT_THAT(header, HasSubstr("out  f32[wide, rows]"));
  EXPECT_THAT(header, HasSubstr("dimension 1 of 'y', 8 to 32, multiples of 8"));
  write_file_atomic(folder_ + "/program.c", kProgram);
  ASSERT_EQ(shell("cd '" + folder_ +
                  "' && '" HEDDLE_TEST_CXX
                  "' -x c -std=c11 -Wall -Wextra -Werror program.c -x none -o program -L. -llayers "
                  "-Wl,-rpath,'$ORIGIN' && ./program " +
                  std::to_string(kRows) + " " + std::to_string(kWide)),
            0);
  const std::string results = read_file(folder_ + "/results");
  size_t at = 0;
  for (int64_t rows = 1; rows <= kRows; ++rows) {
    for (int64_t wide = 8; wide <= kWide; wide += 8) {
      const Instance here = at_sizes({net.out}, {{net.rows, rows}, {net.wide, wide}});
      NDArray x = NDArray::zeros({rows, 12}, f32), y = NDArray::zeros({12, wide}, f32);
      for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3;
      for (int64_t i = 0; i < y.size(); ++i) y.data<float>()[i] = static_cast<float>(i % 5) - 2;
      const NDArray want = interpret(here.outputs, {{here.of(net.x), x}, {here.of(net.y), y}})[0];
      for (const bool at_the_end : {false, true}) {
        NDArray got = NDArray::zeros({wide, rows}, f32);
        ASSERT_LE(at + static_cast<size_t>(got.bytes()), results.size());
        std::memcpy(got.data(), results.data() + at, static_cast<size_t>(got.bytes()));
        at += static_cast<size_t>(got.bytes());
        ASSERT_TRUE(allclose(got, want, 1e-4, 1e-5)) << rows << " " << wide << " " << at_the_end;
      }
    }
  }
  EXPECT_EQ(at, results.size());
}

}  // namespace
}  // namespace heddle::testing
