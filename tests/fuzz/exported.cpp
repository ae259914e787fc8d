// The description of an exported kernel, beside a library that has the functions of one.
#include <filesystem>

#include "fuzz/declarations.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/scratch.h"
#include "heddle/driver/build.h"
#include "heddle/driver/export.h"
#include "heddle/runtime/load_kernel.h"
#include "support/files/file.h"

namespace heddle::fuzz {

void read_exported(std::string_view bytes) {
  static const std::string stem = [] {
    const std::string made = scratch_folder() + "/exported";
    std::filesystem::create_symlink(HEDDLE_FUZZ_KERNEL, made + ".so");
    NDArray::zeros({4}, f32).save(made + ".constant0.npy");
    return made;
  }();
  scratch_file("exported.json", bytes);
  const Kernel kernel = load_kernel(stem);
}

std::vector<std::string> exported_seeds() {
  std::vector<std::string> seeds;
  const Tensor a = placeholder({Expr(4)}, f32, "a"), w = placeholder({Expr(4)}, f32, "w");
  const Tensor sum = compute({4}, [&](Axis i) { return a(i) + w(i); }, "sum");
  const std::string stem = scratch_folder() + "/seed";
  export_kernel(create_schedule({sum}), {a, w, sum}, stem);
  seeds.push_back(read_file(stem + ".json"));
  const Tensor& matmul = sample_declarations().at("matmul");
  export_kernel(create_schedule({matmul}), all_args(ComputeDag({matmul})), stem);
  seeds.push_back(read_file(stem + ".json"));
  return seeds;
}

}  // namespace heddle::fuzz
