// A file of NumPy's format .npy.
#include "fuzz/fuzz_target.h"
#include "fuzz/scratch.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle::fuzz {

void read_npy(std::string_view bytes) {
  const NDArray array = NDArray::load(scratch_file("array.npy", bytes));
  const std::string path = scratch_folder() + "/again.npy";
  array.save(path);
  const std::string written = read_file(path);
  const NDArray again = NDArray::load(path);
  again.save(path);
  HEDDLE_ICHECK(again.shape() == array.shape() && again.dtype() == array.dtype() &&
                    read_file(path) == written,
                "an array that was saved is loaded as another");
}

std::vector<std::string> npy_seeds() {
  std::vector<std::string> seeds;
  const std::string path = scratch_folder() + "/seed.npy";
  for (const DataType type : {f32, f16, bf16, i8, i64, boolean}) {
    NDArray::random({3, 2}, type, 1).save(path);
    seeds.push_back(read_file(path));
  }
  NDArray::zeros({}, f32).save(path);
  seeds.push_back(read_file(path));
  // The other order of bytes, and of dimensions; version 2 has a longer length.
  for (const std::string& head :
       {std::string("\x93NUMPY\x01\x00", 8), std::string("\x93NUMPY\x02\x00", 8)}) {
    std::string text = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }";
    const size_t length = head[6] == 1 ? 2 : 4;
    text.append(128 - head.size() - length - text.size() - 1, ' ');
    text += '\n';
    seeds.push_back(head + static_cast<char>(text.size()) + std::string(length - 1, '\0') + text +
                    "abcdefghijkl");
  }
  return seeds;
}

}  // namespace heddle::fuzz
