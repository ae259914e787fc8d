// A file of weights in the format GGUF.
#include "heddle/generate/gguf.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/scratch.h"
#include "generate/gguf_file.h"
#include "heddle/support/error.h"

namespace heddle::fuzz {

void read_gguf(std::string_view bytes) {
  const GgufFile file(scratch_file("weights.gguf", bytes));
  for (const GgufTensor& t : file.tensors()) {
    HEDDLE_ICHECK(t.begin + t.bytes <= bytes.size(), "a tensor lies in its file");
    HEDDLE_ICHECK(file.weights(t.name).extents() == t.shape, "a tensor has the shape of its list");
  }
}

std::vector<std::string> gguf_seeds() {
  const std::string blocks(288, '\x31');
  return {testing::gguf_bytes({}),
          testing::gguf_bytes(
              {{"a", {32, 2}, 2, blocks.substr(0, 36)}, {"b", {4}, 0, blocks.substr(0, 16)}}),
          testing::gguf_bytes(
              {{"c", {32, 1, 2}, 8, blocks.substr(0, 68)}, {"d", {256, 2}, 12, blocks}}, 2)};
}

}  // namespace heddle::fuzz
