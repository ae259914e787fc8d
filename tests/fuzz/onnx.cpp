// An ONNX file: protobuf's bytes, the operators, and the shapes that are calculated at import.
#include "fuzz/fuzz_target.h"
#include "heddle/support/error.h"
#include "onnx/file/graph.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle::fuzz {

void read_onnx(std::string_view bytes) {
  onnx::import_model(onnx::parse_model(std::string(bytes), "fuzzed.onnx"), {}, Where::current());
}

// ONNX's own tests of its operators, and those of other domains: each is a length of four bytes, and a model
// with data. Tests whose shapes depend on data outside of the model are left out.
std::vector<std::string> onnx_seeds() {
  std::vector<std::string> seeds;
  for (const char* file : {"cases.bin", "microsoft_cases.bin"}) {
    const std::string bytes = read_file(source_dir() + "/tests/onnx/data/" + file);
    for (size_t at = 0; at + 4 <= bytes.size();) {
      size_t length = 0;
      for (int byte = 3; byte >= 0; --byte)
        length = length << 8 | static_cast<unsigned char>(bytes[at + static_cast<size_t>(byte)]);
      std::string model = bytes.substr(at + 4, length);
      at += 4 + length;
      try {
        read_onnx(model);
        seeds.push_back(std::move(model));
      } catch (const Error&) {
      }
    }
  }
  return seeds;
}

}  // namespace heddle::fuzz
