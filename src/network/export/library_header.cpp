// Generates the header of an exported network.
#include <algorithm>
#include <cctype>

#include "network/export/library_text.h"

namespace heddle::network {
namespace {

/// `text` for use in a comment, without the star that could end the comment.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != '*' && c != '\\' && std::isprint(static_cast<unsigned char>(c))) out += c;
  }
  return out;
}

/// "768", "n", "2 * n + 1".
std::string extent_text(const KernelArg& arg, size_t dim, const std::vector<ExportedSize>& sizes) {
  const auto e = std::find_if(arg.symbolic.begin(), arg.symbolic.end(), [&](const auto& symbolic) {
    return symbolic.dim == static_cast<int>(dim);
  });
  if (e == arg.symbolic.end()) return std::to_string(arg.shape[dim]);
  std::string text;
  for (const SymbolicExtent::Term& t : e->terms) {
    const ExportedSize& size = sizes[static_cast<size_t>(t.size)];
    text += text.empty() ? "" : " + ";
    if (t.factor % size.multiple != 0) {
      text += std::to_string(t.factor) + " * " + plain(size.name) + " : " +
              std::to_string(size.multiple);
    } else {
      const int64_t factor = t.factor / size.multiple;
      text += (factor == 1 ? "" : std::to_string(factor) + " * ") + plain(size.name);
    }
  }
  return e->constant == 0 ? text : text + " + " + std::to_string(e->constant);
}

/// What each size is, as the parameter of the call.
std::string sizes_text(const LibrarySource& library) {
  const std::vector<ExportedSize>& sizes = library.program.sizes;
  if (sizes.empty()) return "";
  std::string text = " * Sizes, which each call gives:\n";
  const std::vector<std::string> names = size_names(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ExportedSize& s = sizes[i];
    text += " *   " + names[i] + "  " + plain(library.extents[i]) + ", " + std::to_string(s.lo) +
            " to " + std::to_string(s.hi) +
            (s.multiple > 1 ? ", multiples of " + std::to_string(s.multiple) : "") + "\n";
  }
  return text;
}

std::string list_text(const ExportedProgram& p, bool outputs) {
  std::string text;
  int number = 0;
  for (size_t a = 0; a < p.args.size(); ++a) {
    const KernelArg& arg = p.args[a];
    if (arg.output != outputs) continue;
    text += " *   " + std::to_string(number++) + "  " + plain(arg.name) + "  " +
            to_string(arg.dtype) + "[";
    for (size_t d = 0; d < arg.shape.size(); ++d)
      text += (d ? ", " : "") + extent_text(arg, d, p.sizes);
    const bool updated = std::find(p.updated.begin(), p.updated.end(), a) != p.updated.end();
    text += updated ? "]  a call updates it\n" : "]\n";
  }
  return text;
}

/// Which inputs a call writes, for the comment of the call.
std::string updates_text(const ExportedProgram& p) {
  if (p.updated.empty()) return "";
  std::string names;
  for (const size_t a : p.updated) {
    const auto number = std::count_if(p.args.begin(), p.args.begin() + static_cast<long>(a),
                                      [](const KernelArg& arg) { return !arg.output; });
    names +=
        (names.empty() ? "" : ", ") + std::to_string(number) + " (" + plain(p.args[a].name) + ")";
  }
  return "\n * A call writes its results into inputs " + names +
         " as well: their arrays must be\n * writable and overlap nothing, and calls that are "
         "given the same "
         "ones come one after the other.";
}

constexpr const char* kHeader = R"(#ifndef @NAME@_H
#define @NAME@_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A description of an input or an output. Arrays are contiguous, the last dimension innermost. */
#ifndef HEDDLE_TENSOR
#define HEDDLE_TENSOR
typedef struct {
  const char* name;
  const char* dtype; /* "f32", "i64", "bool", ... */
  int32_t rank;
  const int64_t* shape; /* -1: an extent that depends on the sizes of the call */
  int64_t bytes;        /* at the largest sizes */
} heddle_tensor;
#endif
@sizes@
typedef struct @name@_network @name@_network;

/* No function throws or ends the process: each returns an error for null pointers, for numbers that are none of its own and
 * for networks that are not open. What it cannot know is whether an array is as long as it is described. */

/* Opens the network with its weights, a path; NULL: @name@.weights in the folder of this library. NULL: an error, see
 * @name@_error. @check@@mapped@ */
@name@_network* @name@_open(const char* weights);
/* Runs the network on arrays in the order of @name@_input and @name@_output. Outputs overlap nothing. Several threads may
 * call at the same time. 0: done; else see @name@_error.@updates@ */
int @name@_run(@name@_network* network, @parameters@const void* const* inputs, void* const* outputs);
/* Gives back what @name@_open took, when no call runs it any more. NULL and what is closed already are fine. */
void @name@_close(@name@_network* network);

int @name@_num_inputs(void);
int @name@_num_outputs(void);
/* NULL where there is no such input or output. */
const heddle_tensor* @name@_input(int index);
const heddle_tensor* @name@_output(int index);
/* What went wrong last in this thread; valid until the next error. */
const char* @name@_error(void);
/* The version of Heddle and the hash of the model that this library was made of. */
const char* @name@_version(void);
/* The plan that its kernels were chosen by, as `heddle plan show` reads it; "" where there was none. */
const char* @name@_plan(void);
@more@
#ifdef __cplusplus
}
#endif
#endif
)";

constexpr const char* kSizes = R"(
/* A size that a call gives: from lo to hi, and divisible by the multiple. */
#ifndef HEDDLE_SIZE_OF_CALL
#define HEDDLE_SIZE_OF_CALL
typedef struct {
  const char* name;
  int64_t lo, hi, multiple;
} heddle_size;
#endif
)";

constexpr const char* kSizesOf = R"(int @name@_num_sizes(void);
/* NULL where there is no such size. */
const heddle_size* @name@_size(int index);
)";

constexpr const char* kMapped = R"(
 * The file must stay as it is while the network is open: a call fails where the file has become shorter, and the process gets
 * SIGBUS where that happens during a call.)";

constexpr const char* kThreads =
    R"(/* How many threads calls may use, 1 to 1024, for all networks of this library; 0: one for each physical core. 0: done; else
 * nothing is changed, see @name@_error. */
int @name@_set_threads(int count);
)";

constexpr const char* kOnGpu =
    R"(/* The same on arrays that are on the GPU, aligned to 16 bytes. The work is put into the stream, a CUstream or cudaStream_t
 * (NULL: the default one), and not waited for. From the second call with the same arrays on it is one CUDA graph.
 * In a stream that is being captured the kernels become part of the caller's graph. Calls of one network share buffers: they
 * wait for each other, and the caller orders launches of such a graph with each other and with all other calls. */
int @name@_run_on_gpu(@name@_network* network, @parameters@const void* const* inputs, void* const* outputs, void* stream);
)";

}  // namespace

std::string header_text(const LibrarySource& library) {
  const ExportedProgram& p = library.program;
  std::string text = "/* " + p.name + ": a network, compiled for " + plain(p.target) + ".\n *\n";
  text += " * Inputs:\n" + list_text(p, false) + " * Outputs:\n" + list_text(p, true) +
          sizes_text(library);
  if (library.for_gpu) {
    text +=
        " *\n * It runs on the first GPU, through NVIDIA's driver, which is opened at run time. "
        "Calls of " +
        p.name + "_run copy\n * inputs to the GPU and outputs back.\n";
  }
  text += " */\n";
  std::vector<std::pair<std::string, std::string>> values = {
      {"@sizes@", p.sizes.empty() ? "" : kSizes},
      {"@check@", p.check_weights
                      ? "All weights are read and compared with their hash."
                      : "Of the file its length and its head are compared, and not the weights."},
      {"@mapped@", library.for_gpu ? "" : kMapped},
      {"@updates@", updates_text(p)},
      {"@more@",
       std::string(p.sizes.empty() ? "" : kSizesOf) + (library.for_gpu ? kOnGpu : kThreads)}};
  const auto usual = usual_values(library);
  values.insert(values.end(), usual.begin(), usual.end());
  return text + filled_in(kHeader, values);
}

}  // namespace heddle::network
