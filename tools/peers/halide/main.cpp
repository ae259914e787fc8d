// Compiles a product or a convolution, scheduled by Halide's Adams2019 autoscheduler, to a shared
// library with one function, heddle_halide_peer(input, weight, output). It is a separate program
// because Halide uses another LLVM than Heddle.
//
//   halide_adams2019 OUT.so THREADS matmul M N K
//   halide_adams2019 OUT.so THREADS conv2d C H W K R S STRIDE     (HWC, with its border; weights
//   HWIO)
//
// Sizes are constants of the pipeline, as they are for Heddle. The autoscheduler gets the number of
// threads and the size of the last-level cache (32 MiB).
#include <Halide.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Halide::Argument;
using Halide::Expr;
using Halide::Func;
using Halide::ImageParam;
using Halide::RDom;
using Halide::Var;

// The pipeline, and its tensors with the innermost dimension first, as in Halide.
struct Declared {
  ImageParam input, weight;
  Func output;
};

ImageParam image(const char* name, const std::vector<int>& extents) {
  ImageParam p(Halide::Float(32), static_cast<int>(extents.size()), name);
  int stride = 1;
  for (size_t d = 0; d < extents.size(); ++d) {
    const int axis = static_cast<int>(d);
    p.dim(axis).set_bounds(0, extents[d]).set_stride(stride);
    p.dim(axis).set_estimate(0, extents[d]);
    stride *= extents[d];
  }
  return p;
}

void shape_output(Func f, const std::vector<int>& extents) {
  int stride = 1;
  for (size_t d = 0; d < extents.size(); ++d) {
    const int axis = static_cast<int>(d);
    f.output_buffer().dim(axis).set_bounds(0, extents[d]).set_stride(stride);
    f.output_buffer().dim(axis).set_estimate(0, extents[d]);
    stride *= extents[d];
  }
}

Declared matmul(const std::vector<int>& a) {
  const int m = a.at(0), n = a.at(1), k = a.at(2);
  Declared d{image("A", {k, m}), image("B", {n, k}), Func("C")};
  Var x("x"), y("y");
  RDom r(0, k, "r");
  Func product("product");
  product(x, y) += d.input(r, y) * d.weight(x, r);
  d.output(x, y) = product(x, y);
  shape_output(d.output, {n, m});
  return d;
}

// One image with its border of zeros, as in Halide's own benchmark of a convolution
// (apps/conv_layer). With the border as a stage of the pipeline and the images as a dimension, the
// autoscheduler took six minutes for a 3x3 convolution and explored 2.5 million states.
Declared conv2d(const std::vector<int>& a) {
  const int c = a.at(0), h = a.at(1), w = a.at(2), k = a.at(3), r = a.at(4), s = a.at(5),
            stride = a.at(6);
  Declared d{image("x", {c, w, h}), image("weight", {k, c, s, r}), Func("y")};
  Var o("o"), x("x"), y("y");
  Func sum("sum");
  RDom t({{0, c}, {0, s}, {0, r}}, "t");
  sum(o, x, y) += d.weight(o, t.x, t.y, t.z) * d.input(t.x, x * stride + t.y, y * stride + t.z);
  d.output(o, x, y) = sum(o, x, y);
  shape_output(d.output, {k, (w - s) / stride + 1, (h - r) / stride + 1});
  return d;
}

Declared declare(const std::string& kind, const std::vector<int>& sizes) {
  if (kind == "matmul") return matmul(sizes);
  if (kind == "conv2d") return conv2d(sizes);
  throw std::runtime_error("no such kind: " + kind);
}

void compile(const std::string& path, int threads, const std::string& kind,
             const std::vector<int>& sizes) {
  constexpr unsigned long long kLastLevelCache = 32ULL << 20;
  constexpr float kBalance = 40;  // Halide's default: cost of a byte from memory over arithmetic
  Halide::load_plugin(HALIDE_ADAMS2019_PLUGIN);
  Declared d = declare(kind, sizes);
  const Halide::Target target =
      Halide::get_host_target().with_feature(Halide::Target::NoBoundsQuery);
  Halide::Pipeline pipeline(d.output);
  pipeline.auto_schedule("Adams2019", target,
                         Halide::MachineParams(threads, kLastLevelCache, kBalance));
  const std::string object = path + ".o";
  pipeline.compile_to_object(object, {d.input, d.weight}, "heddle_halide_peer", target);
  const std::string link =
      std::string(HALIDE_LINKER) + " -shared -o '" + path + "' '" + object + "' -lpthread -ldl";
  const int status = std::system(link.c_str());
  ::unlink(object.c_str());
  if (status != 0) throw std::runtime_error("failed: " + link);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s OUT.so THREADS matmul|conv2d SIZES...\n", argv[0]);
    return 2;
  }
  std::vector<int> sizes;
  for (int i = 4; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  try {
    compile(argv[1], std::atoi(argv[2]), argv[3], sizes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
