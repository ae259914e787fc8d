// A declaration as JSON. Its checksum is corrected, so that the contents are read too.
#include "dag/declaration/declaration.h"
#include "fuzz/declarations.h"
#include "fuzz/fuzz_target.h"
#include "heddle/support/error.h"

namespace heddle::fuzz {

void read_declaration(std::string_view bytes) {
  const Declaration read = declaration_from_json(with_right_checksums(Json::parse(bytes)));
  const Json written = declaration_to_json(read.dag, read.args);
  const Declaration again = declaration_from_json(written);
  HEDDLE_ICHECK(declaration_to_json(again.dag, again.args) == written,
                "a declaration that was read is written as another");
}

std::vector<std::string> declaration_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [name, tensor] : sample_declarations()) {
    const ComputeDag dag({tensor});
    seeds.push_back(declaration_to_json(dag, all_args(dag)).dump());
  }
  return seeds;
}

}  // namespace heddle::fuzz
