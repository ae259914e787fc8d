// A target: "llvm -mcpu=haswell -threads=4".
#include "heddle/target/target.h"

#include "fuzz/fuzz_target.h"
#include "heddle/support/error.h"

namespace heddle::fuzz {

void read_target(std::string_view bytes) {
  const Target target = Target::parse(bytes);
  const std::string written = to_string(target);
  HEDDLE_ICHECK(to_string(Target::parse(written)) == written,
                "a target that was read is written as another");
}

std::vector<std::string> target_seeds() {
  return {"llvm -mcpu=haswell -threads=4",
          "llvm -mcpu=sapphirerapids -mtriple=x86_64-linux-gnu",
          "llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu",
          to_string(Target::parse("llvm -mcpu=znver3")),
          to_string(Target::host()),
          "cuda -gpu=h200",
          to_string(Target::parse("cuda -gpu=h200"))};
}

}  // namespace heddle::fuzz
