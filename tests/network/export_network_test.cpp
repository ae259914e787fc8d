// Networks as libraries: called from C and from Python, on inputs whose results the interpreter
// computes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "heddle/network/export_network.h"
#include "network/exported_library.h"
#include "network/network_testing.h"
#include "sanitized.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// A convolution and a classifier behind it, with a second output, weights that two layers share,
/// and one whose values are read as they are.
struct SmallNetwork {
  Tensor image = placeholder({2, 3, 12, 12}, f32, "image");
  Tensor filter = constant(NDArray::random({8, 3, 3, 3}, f32, 5), "filter");
  Tensor shift = constant(NDArray::random({8, 5, 5}, f32, 6), "shift");
  Tensor square = constant(NDArray::random({200, 200}, f32, 7), "square");
  Tensor flat, hidden, scores;

  SmallNetwork() {
    const Tensor conv = ops::conv2d(image, filter, {.stride = {2, 2}});
    const Tensor shifted = compute(
        conv.shape(),
        [&](Axis n, Axis c, Axis y, Axis x) { return conv(n, c, y, x) * shift(c, y, x); },
        "shifted");
    flat = ops::flatten(ops::relu(shifted));
    hidden = ops::relu(ops::matmul(flat, square));
    scores = ops::softmax(ops::matmul(hidden, square));
  }
  std::vector<Tensor> outputs() const { return {scores, hidden}; }
  std::vector<Tensor> args() const { return {image, scores, hidden}; }
};

class ExportNetwork : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Runs a command of the shell; what it prints on failure is in the test's output.
  static int shell(const std::string& command) { return std::system(command.c_str()); }

  std::string folder_ = (std::filesystem::path(::testing::TempDir()) /
                         ("heddle_network_" + std::to_string(::getpid())))
                            .string();
};

std::vector<NDArray> called(const ExportedLibrary& loaded, void* network, const SmallNetwork& net,
                            const NDArray& image) {
  std::vector<NDArray> made;
  for (const Tensor& t : net.outputs()) made.push_back(NDArray::full(t.extents(), t.dtype(), 77));
  const void* inputs[] = {image.data()};
  void* outputs[] = {made[0].data(), made[1].data()};
  EXPECT_EQ(loaded.run(network, inputs, outputs), 0) << loaded.error();
  return made;
}

TEST_F(ExportNetwork, ComputesWhatTheInterpreterDoes) {
  const SmallNetwork net;
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  EXPECT_EQ(written.library, folder_ + "/libsmall.so");
  // Nothing else is left: three files.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3);
  const ExportedLibrary loaded(written.library, "small");
  void* network = loaded.open(nullptr);  // the weights lie beside it
  ASSERT_NE(network, nullptr) << loaded.error();
  for (uint64_t seed : {1, 2}) {
    const NDArray image = random_like(net.image, seed);
    const std::vector<NDArray> want = interpret(net.outputs(), {{net.image, image}});
    const std::vector<NDArray> got = called(loaded, network, net, image);
    for (size_t o = 0; o < want.size(); ++o)
      EXPECT_TRUE(allclose(got[o], want[o], 1e-4, 1e-5)) << o;
  }
  const void* nothing[] = {nullptr};
  EXPECT_NE(loaded.run(network, nothing, nullptr), 0);
  EXPECT_THAT(loaded.error(), HasSubstr("'image' of 'small' is given a null pointer"));
  loaded.close(network);
}

TEST_F(ExportNetwork, SeveralThreadsCallAtTheSameTime) {
  const SmallNetwork net;
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  const ExportedLibrary loaded(written.library, "small");
  void* network = loaded.open(written.weights.c_str());
  ASSERT_NE(network, nullptr) << loaded.error();
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const NDArray image = random_like(net.image, t + 1);
      const std::vector<NDArray> want = interpret(net.outputs(), {{net.image, image}});
      for (int call = 0; call < 20; ++call) {
        const std::vector<NDArray> got = called(loaded, network, net, image);
        EXPECT_TRUE(allclose(got[0], want[0], 1e-4, 1e-5));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  loaded.close(network);
}

int64_t entries(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// A host may load and unload a library as often as it likes: neither threads, nor files, nor
// mappings of it stay.
TEST_F(ExportNetwork, MayBeLoadedAndUnloadedManyTimes) {
  if (kSanitized) GTEST_SKIP() << "a library stays loaded for the leak checker";
  const SmallNetwork net;
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  const NDArray image = random_like(net.image, 1);
  const std::vector<NDArray> want = interpret(net.outputs(), {{net.image, image}});
  const auto held = [&] {
    const std::string maps = read_file("/proc/self/maps");
    int64_t mapped = 0;
    for (size_t at = 0; (at = maps.find(folder_, at)) != std::string::npos; ++at) ++mapped;
    return std::vector<int64_t>{entries("/proc/self/task"), entries("/proc/self/fd"), mapped};
  };
  std::vector<int64_t> after_first;
  for (int cycle = 0; cycle < 200; ++cycle) {
    {
      const ExportedLibrary loaded(written.library, "small");
      void* network = loaded.open(nullptr);
      ASSERT_NE(network, nullptr) << loaded.error();
      ASSERT_TRUE(allclose(called(loaded, network, net, image)[0], want[0], 1e-4, 1e-5)) << cycle;
      loaded.close(network);
    }
    if (cycle == 0) after_first = held();
  }
  EXPECT_EQ(held(), after_first) << "threads, files, mappings";
}

// As servers do that fork their workers once the network is loaded.
TEST_F(ExportNetwork, ComputesInAForkedChild) {
  const SmallNetwork net;
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  const ExportedLibrary loaded(written.library, "small");
  void* network = loaded.open(nullptr);
  ASSERT_NE(network, nullptr) << loaded.error();
  const NDArray image = random_like(net.image, 1);
  const std::vector<NDArray> want = interpret(net.outputs(), {{net.image, image}});
  const auto right = [&] {
    return allclose(called(loaded, network, net, image)[0], want[0], 1e-4, 1e-5);
  };
  EXPECT_TRUE(right());
  for (int worker = 0; worker < 3; ++worker) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(right() ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(right());
  loaded.close(network);
}

/// What a name may hold, and a C program, a comment or a shell may take for something else.
constexpr const char* kHostileName =
    "it's \"a\" $(touch pwned) `id`; */ \\ ?"
    "?/ %s\n%n";

// A name is text, wherever it is written.
TEST_F(ExportNetwork, NamesAreText) {
  if (kSanitized) GTEST_SKIP() << "the runtime in the library needs a program with the sanitizer";
  const Tensor x = placeholder({4, 16}, f32, kHostileName);
  const Tensor w = constant(NDArray::random({16, 16}, f32, 3), kHostileName);
  const Tensor y =
      compute({4, 16}, [&](Axis i, Axis j) { return x(i, j) * w(i, j); }, kHostileName);
  export_network(Network({y}), {x, y}, folder_, {.name = "odd"});
  write_file_atomic(folder_ + "/name", std::string(kHostileName));
  write_file_atomic(folder_ + "/program.c", R"(
#include <stdio.h>
#include <string.h>
#include "odd.h"
int main(void) {
  char name[200];
  FILE* file = fopen("name", "rb");
  name[fread(name, 1, sizeof name - 1, file)] = 0;
  odd_network* net = odd_open(NULL);
  float values[64] = {0}, result[64];
  const void* inputs[] = {values};
  void* outputs[] = {result};
  if (net == NULL || odd_run(net, inputs, outputs) != 0) return 1;
  return strcmp(odd_input(0)->name, name) == 0 ? 0 : 2;
}
)");
  ASSERT_EQ(shell("cd '" + folder_ +
                  "' && '" HEDDLE_TEST_CXX "' -x c -std=c11 program.c -x none -o program -L. -lodd "
                  "-Wl,-rpath,'$ORIGIN' && ./program"),
            0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/pwned"));
}

TEST_F(ExportNetwork, FoldersMayHaveAnyName) {
  const SmallNetwork net;
  const std::string folder = folder_ + "/it's \"a\" $(touch pwned) `id`;&\\";
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder, {.name = "small"});
  EXPECT_EQ(written.library, folder + "/libsmall.so");
  EXPECT_EQ(entries(folder), 3);
  EXPECT_EQ(entries(folder_), 1);
  const ExportedLibrary loaded(written.library, "small");
  void* network = loaded.open(nullptr);
  ASSERT_NE(network, nullptr) << loaded.error();
  loaded.close(network);
}

TEST_F(ExportNetwork, WeightsThatLayersShareAreStoredOnce) {
  const Tensor x = placeholder({40, 128}, f32, "x"),
               w = constant(NDArray::random({128, 128}, f32, 3), "w");
  std::vector<int64_t> bytes;
  for (const int layers : {1, 4}) {
    Tensor y = x;
    for (int i = 0; i < layers; ++i) y = ops::relu(ops::matmul(y, w));
    const Network network({y});
    ASSERT_EQ(network.nodes().size(), static_cast<size_t>(layers));
    bytes.push_back(export_network(network, {x, y}, folder_, {.name = "layers"}).weights_bytes);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_GE(bytes[0], 128 * 128 * 4);
}

TEST_F(ExportNetwork, ForeignWeightsAreRefused) {
  const SmallNetwork net;
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  const ExportedLibrary loaded(written.library, "small");
  EXPECT_EQ(loaded.open("/no/such/file"), nullptr);
  EXPECT_THAT(loaded.error(), HasSubstr("/no/such/file"));
  std::string bytes = read_file(written.weights);
  bytes[9] ^= 1;  // the hash in the header
  write_file_atomic(folder_ + "/other", bytes);
  EXPECT_EQ(loaded.open((folder_ + "/other").c_str()), nullptr);
  EXPECT_THAT(loaded.error(), HasSubstr("is not the file that was written with this library"));
  bytes[9] ^= 1;
  bytes.pop_back();
  write_file_atomic(folder_ + "/short", bytes);
  EXPECT_EQ(loaded.open((folder_ + "/short").c_str()), nullptr);
}

TEST_F(ExportNetwork, AnotherCpuIsRefusedAtOpen) {
  const SmallNetwork net;
  for (const char* text :
       {"llvm -mcpu=sapphirerapids", "llvm -mcpu=znver4", "llvm -mcpu=x86-64-v2"}) {
    const Target target = Target::parse(text);
    // The loader knows a library by its path while it stays loaded.
    const std::string folder = folder_ + "/" + target.mcpu;
    const ExportedNetwork written =
        export_network(Network(net.outputs(), target), net.args(), folder, {.name = "other"});
    const ExportedLibrary loaded(written.library, "other");
    void* network = loaded.open(nullptr);
    EXPECT_EQ(network != nullptr, target.runs_here()) << text << ": " << loaded.error();
    if (network == nullptr) {
      EXPECT_THAT(loaded.error(), HasSubstr("this CPU lacks"));
    }
    loaded.close(network);
  }
}

constexpr const char* kProgram = R"(
#include <stdio.h>
#include <stdlib.h>
#include "small.h"
int main(void) {
  small_network* net = small_open(NULL);
  if (net == NULL) return fprintf(stderr, "%s\n", small_error()), 1;
  if (small_version()[0] == 0 || small_plan()[0] != 0) return 5;
  if (small_num_inputs() != 1 || small_num_outputs() != 2 || small_output(2) != NULL) return 2;
  float* image = malloc((size_t)small_input(0)->bytes);
  for (int64_t i = 0; i < small_input(0)->bytes / 4; ++i) image[i] = (float)(i % 7) - 3.0f;
  float* scores = malloc((size_t)small_output(0)->bytes);
  float* hidden = malloc((size_t)small_output(1)->bytes);
  const void* inputs[] = {image};
  void* outputs[] = {scores, hidden};
  small_set_threads(1);
  if (small_run(net, inputs, outputs) != 0) return fprintf(stderr, "%s\n", small_error()), 3;
  FILE* file = fopen("result", "wb");
  fwrite(scores, 1, (size_t)small_output(0)->bytes, file);
  fclose(file);
  small_close(net);
  return small_output(0)->rank == 2 && small_output(0)->shape[1] == 200 ? 0 : 4;
}
)";

constexpr const char* kPython = R"(
import array, ctypes
class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_int64)]
net = ctypes.CDLL("./libsmall.so")
net.small_open.restype = ctypes.c_void_p
net.small_input.restype = net.small_output.restype = ctypes.POINTER(Tensor)
net.small_error.restype = ctypes.c_char_p
handle = net.small_open(None)
assert handle, net.small_error()
assert net.small_input(0).contents.name == b"image"
count = net.small_input(0).contents.bytes // 4
image = (ctypes.c_float * count)(*[(i % 7) - 3.0 for i in range(count)])
outputs = [(ctypes.c_float * (net.small_output(o).contents.bytes // 4))() for o in range(2)]
pointers = lambda arrays: (ctypes.c_void_p * len(arrays))(*[ctypes.addressof(a) for a in arrays])
assert net.small_run(ctypes.c_void_p(handle), pointers([image]), pointers(outputs)) == 0, net.small_error()
open("result", "wb").write(bytes(outputs[0]))
)";

TEST_F(ExportNetwork, ProgramsInCAndInPythonUseIt) {
  if (kSanitized) GTEST_SKIP() << "the runtime in the library needs a program with the sanitizer";
  const SmallNetwork net;
  export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  NDArray image = zeros_like(net.image);
  for (int64_t i = 0; i < image.size(); ++i) image.data<float>()[i] = static_cast<float>(i % 7) - 3;
  const NDArray want = interpret(net.outputs(), {{net.image, image}})[0];
  write_file_atomic(folder_ + "/program.c", kProgram);
  write_file_atomic(folder_ + "/program.py", kPython);
  ASSERT_EQ(shell("cd '" + folder_ +
                  "' && '" HEDDLE_TEST_CXX
                  "' -x c -std=c11 -Wall -Wextra -Werror program.c -x none -o program -L. -lsmall "
                  "-Wl,-rpath,'$ORIGIN'"),
            0);
  std::vector<std::string> programs = {"./program"};
  if (shell("python3 -c '' 2>/dev/null") == 0) programs.emplace_back("python3 program.py");
  for (const std::string& program : programs) {
    ASSERT_EQ(shell("cd '" + folder_ + "' && rm -f result && " + program), 0) << program;
    const std::string bytes = read_file(folder_ + "/result");
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), want.bytes());
    const NDArray got = zeros_like(net.scores);
    std::memcpy(got.data(), bytes.data(), bytes.size());
    EXPECT_TRUE(allclose(got, want, 1e-4, 1e-5)) << program;
  }
}

TEST_F(ExportNetwork, ArgumentsHaveTheNamesThatTheCallerGives) {
  const SmallNetwork net;
  const std::vector<std::string> names = {"image \"0\" */ int x; /*", "a/b?\?/", "\n\xc3\xa9\\"};
  const ExportedNetwork written = export_network(Network(net.outputs()), net.args(), folder_,
                                                 {.name = "named", .arg_names = names});
  const ExportedLibrary loaded(written.library, "named");
  using Describe = const char* const*(int);  // the name is the first member of heddle_tensor
  EXPECT_EQ(*loaded.find<Describe>("named_input")(0), names[0]);
  EXPECT_EQ(*loaded.find<Describe>("named_output")(0), names[1]);
  EXPECT_EQ(*loaded.find<Describe>("named_output")(1), names[2]);
  EXPECT_THAT(read_file(written.header), HasSubstr("0  a/b?"));
  EXPECT_EQ(shell("'" HEDDLE_TEST_CXX "' -x c -std=c11 -Wall -Wextra -Werror -fsyntax-only '" +
                  written.header + "'"),
            0);
}

// The library needs neither Heddle nor the C++ library where it runs, and exports no other symbols.
TEST_F(ExportNetwork, NeedsTheSystemsCLibraryAlone) {
  const SmallNetwork net;
  const ExportedNetwork written =
      export_network(Network(net.outputs()), net.args(), folder_, {.name = "small"});
  const std::string list = folder_ + "/needed";
  ASSERT_EQ(shell("ldd '" + written.library + "' > '" + list + "'"), 0);
  const std::string needed = read_file(list);
  for (const char* foreign : {"heddle", "stdc++", "LLVM", "xgboost"})
    EXPECT_EQ(needed.find(foreign), std::string::npos) << needed;
  ASSERT_EQ(shell("nm -D --defined-only '" + written.library + "' > '" + list + "'"), 0);
  std::istringstream lines(read_file(list));
  int symbols = 0;
  for (std::string line; std::getline(lines, line); ++symbols)
    EXPECT_NE(line.find(" small_"), std::string::npos) << line;
  EXPECT_EQ(symbols, 11);
}

TEST_F(ExportNetwork, MistakesAreToldAndNothingIsWritten) {
  const SmallNetwork net;
  const auto message = [&](const Network& network, const std::vector<Tensor>& args,
                           const ExportNetworkOptions& options) {
    return message_of([&] { export_network(network, args, folder_, options); });
  };
  const Network network(net.outputs());
  EXPECT_THAT(message(network, net.args(), {.name = "resnet-50"}), HasSubstr("resnet-50"));
  EXPECT_THAT(message(network, net.args(), {.name = std::string(5000, 'a')}),
              HasSubstr("has 5000 characters"));
  EXPECT_THAT(message(network, net.args(), {.arg_names = {"x"}}), HasSubstr("it has 3"));
  EXPECT_THAT(message(network, {net.image, net.scores}, {}), HasSubstr("missing"));
  const Tensor w = constant_placeholder({4, 4}, f32, "w"), x = placeholder({4, 4}, f32, "x"),
               y = ops::matmul(x, w);
  EXPECT_THAT(message(Network({y}), {x, y}, {}), HasSubstr("'w' is missing"));
  EXPECT_THAT(message(Network({y}), {x, w, y}, {}), HasSubstr("'w' is a constant, and"));
  ASSERT_EQ(::setenv("CXX", "/no/such/compiler", 1), 0);
  EXPECT_THAT(message(network, net.args(), {}), HasSubstr("cannot start the linker"));
  ::unsetenv("CXX");
  EXPECT_TRUE(!std::filesystem::exists(folder_) || std::filesystem::is_empty(folder_));
  EXPECT_THAT(message_of([&] { export_network(network, net.args(), "/proc/nowhere", {}); }),
              HasSubstr("/proc/nowhere"));
}

}  // namespace
}  // namespace heddle::testing
