// export: an object file that a program without a compiler loads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/heddle.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/runtime/load_kernel.h"
#include "network/exported_library.h"
#include "run_command.h"
#include "runtime/cuda/cuda_program.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

class Export : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = temporary("export");
};

TEST_F(Export, VariantsRaceAndComeAlong) {
  const std::string stem = folder_ + "/mm";
  const CommandResult r =
      heddle_command("export matmul:24x40x56 --variants 3 --race 5 --threads 1 -o " + stem);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("picked"));
  EXPECT_THAT(r.out, HasSubstr("load_multi_kernel"));
  const std::string link = "c++ -shared -o " + stem + ".so " + stem + ".o -lmvec -lm";
  ASSERT_EQ(std::system(link.c_str()), 0);
  const MultiKernel all = load_multi_kernel(stem);
  EXPECT_GE(all.variants().size(), 2U) << r.out;
  const NDArray a = NDArray::random({24, 56}, f32, 1), b = NDArray::random({56, 40}, f32, 2);
  const NDArray first = NDArray::zeros({24, 40}, f32), c = NDArray::zeros({24, 40}, f32);
  load_kernel(stem)(a, b, first);
  for (const std::string& name : all.variants()) {
    all.force(name);
    c.fill(-1);
    all(a, b, c);
    EXPECT_LT(max_abs_diff(c, first), 1e-4) << name;
  }
  const CommandResult other =
      heddle_command("export matmul:8x8x8 --variants 2 -o " + folder_ +
                     "/no --target \"llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu\"");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--variants needs a machine that runs the kernels"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/no.o"));
}

TEST_F(Export, ThePrintedCommandLinksAProgramThatFindsTheLibrary) {
  if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
  const CommandResult r =
      heddle_command("export " + source_dir() +
                     "/tutorials/data/digits.onnx:batch=1 --threads 1 -o " + folder_ + "/out");
  ASSERT_EQ(r.status, 0) << r.err;
  write_file_atomic(folder_ + "/program.c",
                    "#include \"digits.h\"\n"
                    "int main(void) { return digits_open(0) ? digits_num_outputs() : 9; }\n");
  const size_t begin = r.out.rfind("  cc program.c ");
  ASSERT_NE(begin, std::string::npos) << r.out;
  std::string command = r.out.substr(begin);
  command.resize(command.find('\n'));
  ASSERT_EQ(std::system(("cd " + folder_ + " &&" + command).c_str()), 0) << command;
  EXPECT_EQ(WEXITSTATUS(std::system(("cd / && " + folder_ + "/program").c_str())), 1);
}

TEST_F(Export, WhatIsWrittenCanBeLinkedAndCalled) {
  const std::string stem = folder_ + "/mm";
  const CommandResult r = heddle_command("export matmul:8x12x16 -o " + stem + " --threads 2");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(stem + ".o"));
  EXPECT_THAT(r.out, HasSubstr("threads=2"));
  const std::string link = "c++ -shared -o " + stem + ".so " + stem + ".o -lmvec -lm";
  EXPECT_THAT(r.out, HasSubstr(link));
  ASSERT_EQ(std::system(link.c_str()), 0);
  const Kernel kernel = load_kernel(stem);
  const NDArray a = NDArray::random({8, 16}, f32, 1), b = NDArray::random({16, 12}, f32, 2),
                c = NDArray::full({8, 12}, f32, -1);
  kernel(a, b, c);
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 12; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 16; ++k) sum += double{a.at<float>({i, k})} * b.at<float>({k, j});
      EXPECT_NEAR(c.at<float>({i, j}), sum, 1e-4) << i << ", " << j;
    }
  }
}

TEST_F(Export, AKernelForAGpuNeedsNoGpu) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const std::string stem = folder_ + "/mm";
  const CommandResult r =
      heddle_command("export matmul:64x64x64 -o " + stem + " --target \"cuda -gpu=h200\"");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr(stem + ".cubin"));
  EXPECT_EQ(r.out.find("c++ -shared"), std::string::npos) << "nothing is to be linked";
  const Kernel kernel = load_kernel(stem);  // the GPU is needed at the first call
  EXPECT_EQ(kernel.name(), "matmul:64x64x64");
  ASSERT_NE(kernel.cuda_program(), nullptr);
  EXPECT_EQ(kernel.cuda_program()->arch, "sm_90a");
}

/// What the library calls its only input and output.
std::string names_in(const std::string& library) {
  const testing::ExportedLibrary loaded(library, "digits");
  // The name is the first member of heddle_tensor.
  using Describe = const char* const*(int);
  return std::string(*loaded.find<Describe>("digits_input")(0)) + " -> " +
         *loaded.find<Describe>("digits_output")(0);
}

TEST_F(Export, AModelBecomesALibraryWithTheNamesOfItsFile) {
  if (!onnx_available()) GTEST_SKIP() << "built without protobuf";
  const std::string model = source_dir() + "/tutorials/data/digits.onnx";
  for (const std::string batch : {"2", "1..4"}) {
    const CommandResult r = heddle_command("export " + model + ":batch=" + batch + " -o " +
                                           folder_ + "/out --threads 1");
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("digits_open, digits_run, digits_close"));
    for (const char* file : {"libdigits.so", "digits.h", "digits.weights"}) {
      EXPECT_THAT(r.out, HasSubstr(file));
      EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/out/" + file)) << file;
    }
    EXPECT_EQ(names_in(folder_ + "/out/libdigits.so"), "images -> logits");
    EXPECT_THAT(read_file(folder_ + "/out/digits.h"), HasSubstr("0  logits  f32["));
    std::filesystem::remove_all(folder_ + "/out");
  }
}

TEST_F(Export, FoldersMayHaveCommasAndBeginLikeOptions) {
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  for (const std::string folder : {"a,b -Wl,c", "@at", "./-x"}) {
    const CommandResult r =
        heddle_command("export matmul:1..8x8x8 --threads 1 -o '" + folder + "'");
    EXPECT_EQ(r.status, 0) << folder << "\n" << r.err;
    EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/" + folder + "/libmatmul.so"));
  }
  std::filesystem::current_path(before);
}

TEST_F(Export, ASubjectWithARangeBecomesALibraryForAllItsSizes) {
  const CommandResult r =
      heddle_command("export matmul:1..40x24x16 --threads 1 -o " + folder_ + "/out");
  ASSERT_EQ(r.status, 0) << r.err;
  const testing::ExportedLibrary loaded(folder_ + "/out/libmatmul.so", "matmul");
  const auto run = loaded.find<int(void*, int64_t, const void* const*, void* const*)>("matmul_run");
  void* network = loaded.open(nullptr);
  ASSERT_NE(network, nullptr) << loaded.error();
  for (const int64_t n : {1, 2, 7, 8, 17, 39, 40}) {
    const NDArray a = NDArray::random({n, 16}, f32, 1), b = NDArray::random({16, 24}, f32, 2);
    const NDArray got = NDArray::full({n, 24}, f32, 77), want = NDArray::zeros({n, 24}, f32);
    for (int64_t i = 0; i < n * 24; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 16; ++k) sum += a.get(i / 24 * 16 + k) * b.get(k * 24 + i % 24);
      want.set(i, sum);
    }
    const void* inputs[] = {a.data(), b.data()};
    void* outputs[] = {got.data()};
    ASSERT_EQ(run(network, n, inputs, outputs), 0) << loaded.error();
    EXPECT_LT(max_abs_diff(got, want), 1e-5) << n;
  }
  const void* inputs[] = {nullptr, nullptr};
  EXPECT_NE(run(network, 41, inputs, nullptr), 0);
  EXPECT_THAT(loaded.error(), HasSubstr("the size 'n' is 41, and 'matmul' is for 1 to 40"));
  loaded.close(network);
  const CommandResult weights =
      heddle_command("export conv2d:n=1..4,c=8,h=6,w=6,k=8,r=3 -o " + folder_ + "/no");
  EXPECT_EQ(weights.status, 2);
  EXPECT_THAT(weights.err, HasSubstr("has no values"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/no"));
}

TEST_F(Export, AModelForAGpuBecomesALibrary) {
  if (!onnx_available()) GTEST_SKIP() << "built without protobuf";
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const std::string model = source_dir() + "/tutorials/data/digits.onnx";
  const CommandResult r = heddle_command("export " + model + ":batch=2 -o " + folder_ +
                                         "/out --target \"cuda -gpu=a100\"");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("digits_run_on_gpu"));
  for (const char* file : {"libdigits.so", "digits.h", "digits.weights"})
    EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/out/" + file)) << file;
  EXPECT_EQ(names_in(folder_ + "/out/libdigits.so"), "images -> logits");
  const CommandResult range = heddle_command("export " + model + ":batch=1..4 -o " + folder_ +
                                             "/range --target \"cuda -gpu=a100\"");
  ASSERT_EQ(range.status, 0) << range.err;
  EXPECT_EQ(names_in(folder_ + "/range/libdigits.so"), "images -> logits");
  const CommandResult raced = heddle_command("export " + model + ":batch=2 -o " + folder_ +
                                             "/no --variants 2 --target \"cuda -gpu=a100\"");
  EXPECT_EQ(raced.status, 2);
  EXPECT_THAT(raced.err, HasSubstr("--variants needs"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/no"));
}

// On a fake GPU whose kernels do nothing, as in the next test.
TEST_F(Export, VariantsForAGpuRaceThere) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const std::string stem = folder_ + "/mm";
  const std::string command =
      "export matmul:64x64x128 -o " + stem + " --dtype f16 --variants 3 --race 0.2";
  const CommandResult r =
      heddle_command(command + " --target cuda",
                     "HEDDLE_LIBCUDA=" HEDDLE_TEST_FAKE_LIBCUDA " HEDDLE_FAKE_KERNELS=any");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("mm.cubin"));
  EXPECT_THAT(r.out, HasSubstr("picked"));
  EXPECT_EQ(r.out.find("c++ -shared"), std::string::npos) << "nothing is to be linked";
  EXPECT_EQ(load_multi_kernel(stem).variants().size(), 3U) << r.out;
  EXPECT_NE(load_kernel(stem).cuda_program(), nullptr);
  const CommandResult none = heddle_command(command + " --target cuda", "HEDDLE_LIBCUDA=/none.so");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("--variants needs a machine that runs the kernels"));
  EXPECT_THAT(none.err, HasSubstr("/none.so"));
}

// On a fake GPU whose kernels do nothing.
TEST_F(Export, TheKernelsOfARangeForAGpuAreRaced) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const std::string gpu = "HEDDLE_LIBCUDA=" HEDDLE_TEST_FAKE_LIBCUDA " HEDDLE_FAKE_KERNELS=any";
  const CommandResult r =
      heddle_command("export matmul:1..40x64x128 -o " + folder_ +
                         "/out --target cuda --dtype f16 --variants 3 --race 0.1",
                     gpu);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_GE(count(r.out, ": chosen of "), 2) << "one row has a kernel of its own\n" << r.out;
  EXPECT_GE(count(r.out, " of 3, "), 1) << r.out;
  EXPECT_THAT(r.out, HasSubstr("matmul_run_on_gpu"));
  const std::string header = read_file(folder_ + "/out/matmul.h");
  EXPECT_THAT(header, HasSubstr("int64_t size_"));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/out/libmatmul.so"));
}

TEST_F(Export, TheKernelsOfAModelAreRacedAndTheLibraryHasThePicks) {
  if (!onnx_available()) GTEST_SKIP() << "built without protobuf";
  const std::string path = source_dir() + "/tutorials/data/digits.onnx";
  const CommandResult r = heddle_command("export " + path + ":batch=2 -o " + folder_ +
                                         "/out --threads 1 --variants 3 --race 0.2");
  ASSERT_EQ(r.status, 0) << r.err;
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", 2}}});
  const Network network(model.outputs);
  std::istringstream lines(r.out);
  std::string line;
  for (const TuneTask& task : network.tasks()) {
    std::getline(lines, line);
    EXPECT_TRUE(line.starts_with(task.name)) << line;
  }
  EXPECT_THAT(r.out, HasSubstr(" of 3, ")) << "one of the kernels has three variants";
  const testing::ExportedLibrary library(folder_ + "/out/libdigits.so", "digits");
  void* handle = library.open(nullptr);
  ASSERT_NE(handle, nullptr) << library.error();
  const NDArray image = random_like(model.inputs[0], 3), want = zeros_like(model.outputs[0]),
                got = zeros_like(model.outputs[0]);
  network.build(model.args()).call(model.arrays({image}, {want}));
  const void* inputs[] = {image.data()};
  void* outputs[] = {got.data()};
  ASSERT_EQ(library.run(handle, inputs, outputs), 0) << library.error();
  EXPECT_TRUE(allclose(got, want, 1e-4, 1e-5));
  library.close(handle);
}

TEST_F(Export, ForAnotherMachine) {
  const std::string stem = folder_ + "/arm";
  const CommandResult r =
      heddle_command("export softmax:9x33 -o " + stem + " --target \"llvm -mcpu=neoverse-n1\"");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(read_file(stem + ".o").substr(0, 4),
              "\x7f"
              "ELF");
  EXPECT_EQ(read_file(stem + ".o")[18], '\xb7');  // EM_AARCH64
}

TEST_F(Export, MistakesAreToldAndNothingIsWritten) {
  for (const auto& [arguments, text] :
       {std::pair{"matmul:8x8x8 -o /no/such/folder/mm", "/no/such"},
        {"matmull:8x8x8 -o mm", "did you mean"},
        {"matmul:8x8x8", "--output"},
        {"matmul:8x8x8 -o mm --variants 2 --target \"cuda -gpu=h200\"", "--variants needs"}}) {
    const std::string before = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    const CommandResult r = heddle_command(std::string("export ") + arguments);
    std::filesystem::current_path(before);
    EXPECT_EQ(r.status, 2) << arguments;
    EXPECT_THAT(r.err, HasSubstr(text)) << arguments;
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << arguments;
  }
}

}  // namespace
}  // namespace heddle
