// cuda::Program: the machine code of a kernel and the launches that make one call. Plain data: the
// compiler fills it, and Kernel runs it (KernelCode::cuda).
//
//   auto program = std::make_shared<cuda::Program>();
//   program->cubin = compile_cuda(source, "sm_90a").bytes;
//   program->workspaces.push_back({4096, true});
//   program->launches.push_back({"partial_sums", {264, 1, 1}, {256, 1, 1}, 0, 1, {0, 2}});
//   KernelCode code{.name = "sum", .args = args};
//   code.cuda = program;
//   Kernel kernel(std::move(code));
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cuda {

/// An integer that depends on the sizes of a call, such as ceil(n / 128), as a program for a stack
/// of numbers. `Constant` and `Size` push one number; the others take two and push one.
struct SizeExpr {
  enum class Op : std::uint8_t { Constant, Size, Add, Sub, Mul, FloorDiv, FloorMod, Min, Max };
  struct Item {
    Op op = Op::Constant;
    std::int64_t value = 0;  ///< a constant, or the position of a size
  };
  std::vector<Item> items;  ///< empty: none
};

/// A parameter that tells TMA the place of a tensor and the boxes to copy (CUtensorMap). The
/// runtime encodes it from the address of the buffer. Boxes are rows of 128 bytes along dimension
/// `row_dim`, swizzled. Elements beyond the ends are zero.
struct TensorMap {
  int buffer = 0;                   ///< like Launch::buffers
  int element_bytes = 2;            ///< 1, 2, or 4: f32, which is rounded to tf32
  std::vector<std::int64_t> shape;  ///< at most five extents, outermost first; row-major
  int row_dim = 0;                  ///< the dimension that the rows of a box run along
  std::int64_t rows = 1;            ///< rows of a box, at most 256
  /// Of TMA's im2col form: each dimension between the first (batch) and the last (channels). The
  /// rows of a box are then `rows` windows, in row-major order, and row_dim has no meaning.
  struct Window {
    std::int64_t points = 1, stride = 1, first = 0;  ///< number of windows, distance, first element
  };
  std::vector<Window> windows = {};
  /// The extents of a call, where they depend on sizes; `shape` then has the largest ones.
  std::vector<SizeExpr> shape_of = {};
};

/// One launch of one `extern "C" __global__` function. Its parameters are pointers, in order, then
/// the tensor maps, and then sizes.
struct Launch {
  std::string kernel;                      ///< its name in the cubin
  std::array<unsigned, 3> grid{1, 1, 1};   ///< blocks; a multiple of the cluster in x
  std::array<unsigned, 3> block{1, 1, 1};  ///< threads
  unsigned dynamic_smem = 0;  ///< bytes; above 48 KiB the runtime opts in with the driver
  unsigned cluster = 1;       ///< blocks of a cluster, along x; above 1 needs sm_90
  /// The buffer behind each parameter: 0 .. args - 1 are the kernel's arguments, then come the
  /// persistent buffers, then the workspaces.
  std::vector<int> buffers;
  std::vector<TensorMap> maps = {};
  /// The number of blocks along a dimension, where it depends on sizes. `grid` is then the largest.
  std::array<SizeExpr, 3> grid_of = {};
  std::vector<int> sizes = {};  ///< positions among the sizes of the kernel
  /// Whether the kernel waits by itself for the work before it (griddepcontrol.wait), so that its
  /// blocks may begin while the last blocks of that run (programmatic dependent launch, sm_90).
  bool overlaps = false;
};

/// Scratch memory on the GPU. A kernel that is called alone allocates it at its first call on a stream and
/// keeps it; as a step of a network it has its scratch in the arena, where other steps have theirs.
struct Workspace {
  std::int64_t bytes = 0;
  /// Zeroed when it is allocated, and only then. The launches must leave it zero (such as the
  /// counter of the last block to finish).
  bool zeroed = false;
};

/// A compiled GPU program: machine code, launches and workspaces.
struct Program {
  std::string arch;   ///< architecture of the cubin: "sm_90a"
  std::string cubin;  ///< the bytes
  std::vector<Workspace> workspaces;
  std::vector<Launch> launches;  ///< one call: these, in order, on one stream
  /// Computes the persistent buffers from the constant arguments; may be empty. A launch here may
  /// use constant arguments, persistent buffers and workspaces.
  std::vector<Launch> prepare;
  /// Outputs of which a call leaves some elements as they are, by their positions.
  std::vector<int> in_part = {};
};

/// The bytes of the workspaces that hold nothing between calls, one behind the other. Each begins at a multiple
/// of kScratchAlignment.
std::int64_t scratch_bytes(const Program& program);
inline constexpr std::int64_t kScratchAlignment = 64;

/// Whether the launches of a call are given this buffer.
bool calls_read(const Program& program, size_t buffer);

}  // namespace heddle::cuda
